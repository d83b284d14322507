"""What seeds allow to say of two arms: 95 % intervals (Welch's t) of ratios and differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from examples.experiment.results import Spread

YES, NO, OPEN = "reproduced", "not reproduced", "undecided"
ONCE = "seen in one seed"
"""Where one seed shows it by so large a factor that seeds would hardly turn it."""
CLEAR = 100.0
"""That factor."""
SMALLEST = 1e-9
"""What stands for less in a logarithm."""
QUANTILES = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""97.5 % of Student's t with 1, 2 ... degrees of freedom; more are counted as ten."""


class Interval(NamedTuple):
    """A number with its 95 % interval over seeds; the ends are NaN with one seed on either side."""

    middle: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isnan(self.low):
            return f"{self.middle:.3g}"
        return f"{self.middle:.3g} [{self.low:.3g}, {self.high:.3g}]"


def difference(one: Sequence[float], two: Sequence[float], *, noise: float = 0.0) -> Interval:
    """Mean of `one` less that of `two`.

    Args:
        one: a value a seed.
        two: likewise, of other runs.
        noise: standard error that the values have beside that of the seeds.
    """
    middle = float(np.mean(one) - np.mean(two))
    if min(len(one), len(two)) < 2:  # noqa: PLR2004
        return Interval(middle, math.nan, math.nan)
    parts = [float(np.var(side, ddof=1)) / len(side) for side in (one, two)]
    rests = [part**2 / (len(side) - 1) for part, side in zip(parts, (one, two), strict=True)]
    freedom = int(sum(parts) ** 2 / sum(rests)) if sum(rests) else 1
    width = QUANTILES[min(max(freedom, 1), len(QUANTILES)) - 1] * math.sqrt(sum(parts))
    width = math.hypot(width, 2 * noise)
    return Interval(middle, middle - width, middle + width)


def ratio(higher: Spread, lower: Spread) -> Interval:
    """Geometric mean of one over that of the other: for losses, gaps and divergences."""
    logs = [[math.log(max(value, SMALLEST)) for value in side.values] for side in (higher, lower)]
    return Interval(*(math.exp(end) for end in difference(*logs)))


def larger(higher: Spread | None, lower: Spread | None, *, by: float = 1.0) -> str:
    """Whether `higher` is more than `by` times `lower`, as far as the seeds tell."""
    if higher is None or lower is None:
        return OPEN
    found = ratio(higher, lower)
    if math.isnan(found.low):
        return ONCE if found.middle > CLEAR * by else OPEN
    return decided(found, beyond=by)


def decided(found: Interval, *, beyond: float) -> str:
    """Whether a number is larger than another, as far as its interval leaves no doubt."""
    if found.low > beyond:
        return YES
    return NO if found.high < beyond else OPEN
