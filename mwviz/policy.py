"""Policy-gradient factors of targets: advantage times importance ratio, clipped. Numpy only.

They multiply the negative log-likelihood of each target in `mwviz.engine.losses`, so that one
backward pass gives the gradient of the clipped objective at the weights that scored the view.
Letters: M targets, C calls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mwviz.tree import EvictionTree

Doubles = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

CLIP = (0.8, 1.28)
"""Importance ratios that asymmetric PPO clipping leaves alone."""


@dataclass(frozen=True, slots=True, eq=False)
class PolicyFactors:
    """What each target's negative log-likelihood is multiplied by."""

    factor: npt.NDArray[np.float32]
    """float32 (M,): advantage x ratio; 0 where clipped or where the ratio is not known."""
    clipped: Bools
    """bool (M,): True where the objective is flat, so that the target gets no gradient."""
    unknown: Bools
    """bool (M,): True where a log-probability is not recorded or the view does not cover it."""


def policy_factors(
    tree: EvictionTree,
    advantage: npt.ArrayLike,
    *,
    current: npt.NDArray[np.float32],
    clip: tuple[float, float] = CLIP,
    most: float | None = None,
) -> PolicyFactors:
    """Factors of `min(r A, clip(r) A)` with `r = exp(log p_current - log p_recorded)`.

    Args:
        tree: has the recorded log-probabilities.
        advantage: float (C,): of every call, so that each token of a completion gets its call's;
            or one number for the whole rollout.
        current: float32 (M,): log-probabilities under the view that is trained, nats.
        clip: Lowest and highest ratio that still gives a gradient against, and with, the advantage.
        most: Largest ratio, above which it is cut but kept (truncated importance sampling); None
            does not cut.
    """
    per_call = np.broadcast_to(np.asarray(advantage, dtype=np.float64), (len(tree.tip),))
    difference = current.astype(np.float64) - tree.logprob
    return clipped_factors(per_call[tree.call], difference, clip=clip, most=most)


def clipped_factors(
    gain: Doubles,
    difference: Doubles,
    *,
    clip: tuple[float, float] = CLIP,
    most: float | None = None,
) -> PolicyFactors:
    """`policy_factors` of any targets.

    Args:
        gain: float64 (M,): advantage of each.
        difference: float64 (M,): current minus recorded log-probability, nats; NaN where unknown.
        clip: As there.
        most: As there.
    """
    unknown = np.isnan(difference)
    ratio = np.exp(np.where(unknown, 0.0, difference))
    low, high = clip
    clipped = ~unknown & (((gain > 0) & (ratio > high)) | ((gain < 0) & (ratio < low)))
    kept = ratio if most is None else np.minimum(ratio, most)
    factor = np.where(clipped | unknown, 0.0, gain * kept)
    return PolicyFactors(factor.astype(np.float32), clipped, unknown)
