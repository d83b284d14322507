"""What a KL allows at most: bounds on total variation beside what was measured. Numpy only.

Per target Pinsker and Bretagnolle-Huber, whichever is smaller; for a mean and for a trajectory
Pinsker with Jensen (the theory, section 6). All KL are `KL(true context || view)` in nats.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mwviz.wording import counted

Doubles = npt.NDArray[np.float64]

ROUNDING = 1e-4
"""Total variation that float32 softmaxes over a large vocabulary show by rounding alone."""
INFORMATIVE = 1.0
"""Summed KL in nats beyond which a trajectory bound says next to nothing."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The largest total variation that a KL allows, 0 to 1; lower is better."""

    value: float
    measured: float
    """The total variation beside it, NaN where none can be measured (whole trajectories)."""
    label: str
    """For whom it holds, and what must hold for it."""


def target_bound(kl: npt.ArrayLike) -> Doubles:
    """float64 (M,): the largest TV of each target, `min(sqrt(kl/2), sqrt(1 - exp(-kl)))`.

    NaN stays NaN.
    """
    eps = np.asarray(kl, dtype=np.float64)
    result: Doubles = np.minimum(np.sqrt(eps / 2), np.sqrt(-np.expm1(-eps)))
    return result


def broken(kl: npt.ArrayLike, tv: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """int64: targets whose measured TV exceeds its bound by more than rounding: always a bug."""
    excess = np.asarray(tv, dtype=np.float64) - target_bound(kl)
    return np.flatnonzero(excess > ROUNDING)


def mean_bound(kl: npt.ArrayLike, tv: npt.ArrayLike) -> Bound:
    """The mean TV of a set of targets, and what the mean KL allows: `sqrt(mean kl / 2)`.

    Args:
        kl: float (M,): nats; NaN where not known.
        tv: float (M,): measured.
    """
    eps, distance = np.asarray(kl, dtype=np.float64), np.asarray(tv, dtype=np.float64)
    known = ~np.isnan(eps) & ~np.isnan(distance)
    if not known.any():
        return Bound(float("nan"), float("nan"), "no target has a measured KL")
    value = min(1.0, float(np.sqrt(eps[known].mean() / 2)))
    label = f"mean over {counted(int(known.sum()), 'target')}, unconditional"
    return Bound(value, float(distance[known].mean()), label)


def trajectory_bound(sums: npt.ArrayLike, *, future: bool) -> Bound:
    """How far whole rollouts of the two policies can be apart: `sqrt(E[sum of kl] / 2)`.

    Args:
        sums: float (rollouts,): summed KL of each rollout, nats; rollouts drawn from the teacher.
        future: whether any diverging target sees text that was written after it.
    """
    total = np.atleast_1d(np.asarray(sums, dtype=np.float64))
    mean = float(total.mean()) if len(total) else float("nan")
    value = min(1.0, float(np.sqrt(mean / 2)))
    told = [f"whole trajectories, from {counted(len(total), 'rollout')}"]
    if len(total) == 1:
        told.append("one realised sum: an estimate, no bound")
    if future:
        told.append("some targets see the future: this needs the joint KL, so it is no bound")
    told.append("holds for a fixed edit script")
    if not mean <= INFORMATIVE:
        told.append(f"not informative: the summed KL is {mean:.3g} nats, above {INFORMATIVE:g}")
    return Bound(value, float("nan"), "; ".join(told))
