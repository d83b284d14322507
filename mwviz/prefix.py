"""How much of their beginning two sequences share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def common_prefix(left: npt.NDArray[np.int32], right: npt.NDArray[np.int32]) -> int:
    """Leading tokens that two int32 arrays share; the fast form of `common_start`."""
    size = min(len(left), len(right))
    differs = left[:size] != right[:size]
    return int(differs.argmax()) if differs.any() else size


def common_start(left: Sequence[object], right: Sequence[object]) -> int:
    """Leading items (the characters of a text) that two sequences share."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(left), len(right)))
