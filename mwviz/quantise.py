"""Drift as one byte a target: log size with its sign, a class inside the floor, and "not covered".

The page draws thousands of values and colours them by size; exact ones come from Python.
"""

from __future__ import annotations

import base64
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

UNCOVERED = 0
"""Code of a target that the view does not train."""
INSIDE = 128
"""Code of drift inside the floor; less is negative drift, more is positive."""
STEPS = 127
"""Codes on either side of `INSIDE`."""


class Quantised(NamedTuple):
    """Drift of M targets as codes; `restore` gives the nats back, to half a step of the scale."""

    codes: npt.NDArray[np.uint8]
    """uint8 (M,): `UNCOVERED`, or `INSIDE` plus or minus 1 (at the floor) to 127 (at `scale`)."""
    floor: float
    """Largest |drift| that noise alone explains, in nats."""
    scale: float
    """Largest finite |drift|, in nats; at least the floor."""


def quantise(drift: npt.NDArray[np.float32], floor: float) -> Quantised:
    """One byte for each drift in nats; NaN is not covered.

    Args:
        drift: float32 (M,).
        floor: |drift| up to here is `INSIDE`; above 0.
    """
    size = np.abs(drift.astype(np.float64))
    above = size > floor
    finite = size[above & np.isfinite(size)]
    scale = float(finite.max()) if len(finite) else floor
    reach = np.log(scale / floor) if scale > floor else 1.0
    share = np.log(np.clip(size[above], floor, scale) / floor) / reach
    level = np.zeros(len(drift), dtype=np.int64)
    level[above] = 1 + np.rint((STEPS - 1) * share).astype(np.int64)
    codes = (INSIDE + np.where(drift < 0, -level, level)).astype(np.uint8)
    codes[np.isnan(drift)] = UNCOVERED
    return Quantised(codes, floor, scale)


def restore(told: Quantised) -> npt.NDArray[np.float64]:
    """float64 (M,): nats; 0 inside the floor, NaN where not covered."""
    level = told.codes.astype(np.int64) - INSIDE
    share = np.maximum(np.abs(level) - 1, 0) / (STEPS - 1)
    size = told.floor * (told.scale / told.floor) ** share
    nats: npt.NDArray[np.float64] = np.sign(level) * size
    nats[told.codes == UNCOVERED] = np.nan
    return nats


class Sent(NamedTuple):
    """`Quantised` as JSON tells it."""

    codes: str
    """Base64 of one byte a target."""
    floor: float
    scale: float


def received(told: Sent) -> Quantised:
    """What `sent` told, as codes again."""
    codes = np.frombuffer(base64.b64decode(told.codes), dtype=np.uint8)
    return Quantised(codes, told.floor, told.scale)


def sent(numbers: npt.NDArray[np.float32], floor: float) -> Sent:
    """Numbers a target for the page, apart from its payload; arguments as of `quantise`."""
    codes, floor, scale = quantise(numbers, floor)
    return Sent(base64.b64encode(codes.tobytes()).decode(), floor, scale)
