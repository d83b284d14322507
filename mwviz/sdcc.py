"""SDCC: which tokens of a student row are pulled to their true contexts, and how strongly.

The definitions of arXiv 2609.00865, eq. 8-10, as the theory reads them (section 5); numpy only. The
loss itself is `mwviz.engine.sdcc`. Letters: M targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mwviz.errors import ViewError
from mwviz.pairs import Pairs
from mwviz.rollout import Rollout
from mwviz.tree import EvictionTree
from mwviz.trie import Longs
from mwviz.views.view import View

STRENGTH = 0.1
"""Factor of the consistency term once it has risen (arXiv 2609.00865)."""
RISE = 0.2
"""Share of all steps over which the factor rises from 0 to `STRENGTH`."""
LEAST_LEAVES = 30
"""Leaves that an estimate from recorded log-probabilities needs: single ones mean nothing."""
RESAMPLES = 2000
"""Bootstrap samples behind an interval."""
INTERVAL = (0.025, 0.975)


def consistency_targets(view: View, pairs: Pairs) -> Longs:
    """int64: C, the targets that a student row trains and that diverge in it.

    Of `rightmost` those are kept-tail tokens and sampled summaries, never the tokens behind a
    junction, whose context is the true one.
    """
    return np.flatnonzero((view.multiplicity > 0) & pairs.diverging)


def strength_at(step: int, steps: int, *, most: float = STRENGTH, rise: float = RISE) -> float:
    """Factor of the consistency term at a 0-based step: linear from 0, then constant.

    Args:
        step: the step about to be taken.
        steps: steps of the whole training.
        most: the factor after the rise.
        rise: share of the steps that the rise takes; 0 starts with `most`.
    """
    rising = rise * steps
    return most if step >= rising else most * step / rising


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """Recorded minus student log-probability of one rollout's C, with the leaf of each token."""

    value: npt.NDArray[np.float64]
    """float64: `log p_recorded - log q_student` in nats, of every usable token of C."""
    leaf: Longs
    """int64: the leaf (branch) on which each token was sampled; tokens of one are not independent.
    """
    future: bool
    """Whether any of them sees text that was written after it."""
    survivors_only: bool
    """Whether the student trains only what survived."""
    unrecorded: int
    """Tokens of C without a recorded log-probability."""
    tempered: int = 0
    """Those with one that were not sampled at temperature 1, or at no recorded temperature."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean residual over C, in nats a token, from log-probabilities alone."""

    mean: float
    low: float
    """2.5th percentile of a bootstrap over leaves."""
    high: float
    """97.5th percentile."""
    targets: int
    leaves: int
    label: str
    """What the number estimates; it is the mean KL only under `conditions`."""
    conditions: tuple[str, ...]
    """What must hold and cannot be read from the log."""


def residuals(
    tree: EvictionTree,
    rollout: Rollout,
    *,
    view: View,
    pairs: Pairs,
    student: npt.NDArray[np.float32],
) -> Residuals:
    """What one rollout says about the distance between its student row and its true contexts.

    Args:
        tree: of the rollout.
        rollout: says at which temperature its calls were sampled.
        view: the student's.
        pairs: of that view.
        student: float32 (M,): log-probabilities under that view, nats.
    """
    chosen = consistency_targets(view, pairs)
    value = tree.logprob[chosen].astype(np.float64) - student[chosen]
    warm = np.array([call.temperature == 1.0 for call in rollout.calls], dtype=bool)
    known = ~np.isnan(value)
    usable = warm[tree.call[chosen]] & known
    ends = tree.start[tree.leaves] + tree.length[tree.leaves] - 1
    return Residuals(
        value=value[usable],
        leaf=np.searchsorted(ends, tree.token[chosen[usable]]),
        future=bool(pairs.of("future")[chosen].any()),
        survivors_only=view.coverage is not None and view.coverage < 1.0,
        unrecorded=int((~known).sum()),
        tempered=int((known & ~usable).sum()),
    )


def estimate(parts: Sequence[Residuals], *, seed: int = 0) -> Estimate:
    """The mean over the C of many rollouts, with a bootstrap interval over their leaves.

    Args:
        parts: one a rollout.
        seed: of the bootstrap.

    Raises:
        ViewError: fewer than `LEAST_LEAVES` leaves hold a usable token.
    """
    sums, counts = _leaf_sums(parts)
    if len(counts) < LEAST_LEAVES:
        left_out = _left_out(parts)
        why = f" ({left_out})" if left_out else ""
        raise ViewError(
            f"only {len(counts)} leaves hold a token of the consistency set that was recorded at "
            f"temperature 1, and an estimate needs {LEAST_LEAVES}{why}; "
            "score with a model to get the KL of every token"
        )
    random = np.random.default_rng(seed)
    drawn = random.integers(0, len(counts), (RESAMPLES, len(counts)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, INTERVAL)
    future = any(part.future for part in parts)
    label = "recorded minus student" if future else "mean KL(true context || student)"
    return Estimate(
        mean=float(sums.sum() / counts.sum()),
        low=float(low),
        high=float(high),
        targets=int(counts.sum()),
        leaves=len(counts),
        label=label,
        conditions=_conditions(parts, future=future),
    )


def _leaf_sums(parts: Sequence[Residuals]) -> tuple[npt.NDArray[np.float64], Longs]:
    """Sum and number of the residuals of every leaf that has one."""
    sums, counts = [], []
    for part in parts:
        count = np.bincount(part.leaf)
        total = np.bincount(part.leaf, weights=part.value)
        sums.append(total[count > 0])
        counts.append(count[count > 0])
    if not sums:
        return np.empty(0), np.empty(0, dtype=np.int64)
    return np.concatenate(sums), np.concatenate(counts)


def _conditions(parts: Sequence[Residuals], *, future: bool) -> tuple[str, ...]:
    found = [
        "sampled with the weights that score the student",
        "sampled from the whole distribution: no top-p, no top-k",
    ]
    if future:
        found.append(
            "some tokens see text written after them: only the sum is unbiased, for the joint KL"
        )
    elif any(part.survivors_only for part in parts):
        found.append("whether a token survives does not depend on the token")
    if left_out := _left_out(parts):
        found.append(f"the tokens left out are like the others: {left_out}")
    return tuple(found)


def _left_out(parts: Sequence[Residuals]) -> str:
    """Which tokens of C are not used, and why; "" if all are.

    A token drawn at temperature T estimates the KL at T, which SDCC does not train. To weigh it for
    temperature 1 takes p_1 / p_T, and p_T's normaliser sums over the whole vocabulary.
    """
    unrecorded = sum(part.unrecorded for part in parts)
    tempered = sum(part.tempered for part in parts)
    said = []
    if unrecorded:
        said.append(f"{unrecorded:,} have no recorded log-probability")
    if tempered:
        said.append(
            f"{tempered:,} were not sampled at a recorded temperature of 1: what was recorded of "
            "them is about another distribution, and to weigh them for this one takes every logit, "
            "which a log does not hold (a model that has them gives the KL itself)"
        )
    return ", ".join(said)
