"""Means and extremes of what is known of a number a target; NaN is what is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def known_mean(values: npt.NDArray[Any]) -> float | None:
    """Mean of what is not NaN; None if nothing is known."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def known_largest(values: npt.NDArray[Any]) -> float | None:
    """Largest of what is not NaN; None if nothing is known."""
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else None
