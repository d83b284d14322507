"""The claims, and what became of each: a verdict with its numbers and intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from examples.experiment.batched import EXACT
from examples.experiment.readings import (
    EVERY,
    answered_after,
    at_look,
    first_gap,
    kl_by_evictions,
    kl_over,
    mean_gap,
    reward_of,
    shared_look,
)
from examples.experiment.results import Run, Spread, over_seeds, spread
from examples.experiment.verdicts import NO, ONCE, OPEN, YES, decided, difference, larger, ratio

GRPO = ("grpo-prune", "grpo-summary")
SEVERAL = EVERY[2:]
"""Numbers of evictions."""
FLOOR = 1e-4
"""Nats up to which a mean difference in float32 counts as none."""


class Finding(NamedTuple):
    """One claim and what became of it."""

    claim: str
    verdict: str
    why: str
    brief: str = ""
    """The number that decides, with its unit, for a list of few words."""


def findings_of(runs: Sequence[Run]) -> Iterator[Finding]:
    """Every claim about the parts that were run."""
    for part in GRPO:
        if any(run.part == part for run in runs):
            yield from _gap_findings(runs, part)
    if any(run.part == "sft" for run in runs):
        yield from _sft_findings(runs)


def _gap_findings(runs: Sequence[Run], part: str) -> Iterator[Finding]:
    exact = over_seeds(runs, part, EXACT, mean_gap)
    for naive in ("rightmost", "replay"):
        gap = spread(first_gap(run) for run in _started(runs, part, naive))
        yield Finding(
            f"{part}: `{naive}` inflates the train-rollout gap",
            larger(gap, exact),
            f"{_nats(gap)} on the first batch, before any training, against {_known(exact)} of "
            f"`{EXACT}` over all of its steps{_times(gap, exact)}",
        )
    yield Finding(f"{part}: exact training stays at the floor", _at_floor(exact), _nats(exact))
    yield _closing(runs, part, "sdcc", "rightmost")
    yield from _rewards(runs, part)
    yield _growth(runs, part)


def _sft_findings(runs: Sequence[Run]) -> Iterator[Finding]:
    for naive in ("rightmost", "replay", "sdcc", "sdcc_replay"):
        both = _at_same_step(runs, "sft", (EXACT, naive), "nll_true")
        exact, other = both[EXACT], both[naive]
        yield Finding(
            f"sft: exact training fits the true contexts better than `{naive}`",
            larger(other, exact),
            f"{_known(exact)} against {_known(other)} nats a token{_times(other, exact)}",
        )
    for pulled, naive in (("sdcc", "rightmost"), ("sdcc_replay", "replay")):
        both = _at_same_step(runs, "sft", (pulled, naive), "drift")
        lower, higher = both[pulled], both[naive]
        yield Finding(
            f"sft: `{pulled}` drifts less than `{naive}`",
            larger(higher, lower),
            f"mean over trained tokens {_known(lower)} against {_known(higher)} nats"
            f"{_times(higher, lower)}",
        )
        yield _closing(runs, "sft", pulled, naive)
    yield from _rewards(runs, "sft")
    yield _growth(runs, "sft")


def _closing(runs: Sequence[Run], part: str, pulled: str, naive: str) -> Finding:
    """Whether SDCC ends with less than half of the KL that its student alone ends with."""
    claim = f"{part}: `{pulled}` closes most of the gap of `{naive}`"
    both = _at_same_step(runs, part, (pulled, naive), "kl_diverging")
    found, other = both[pulled], both[naive]
    if found is None or other is None:
        return Finding(claim, OPEN, "no step that both arms reached")
    closed = f"{100 * (1 - found.mean / other.mean):.0f} % closed"
    gaps = [over_seeds(runs, part, arm, mean_gap) for arm in (pulled, naive)]
    beside = f"; the mean absolute gap is {gaps[0]} against {gaps[1]} nats" if all(gaps) else ""
    return Finding(
        claim,
        larger(other, found, by=2.0),
        f"KL on diverging tokens {found} against {other} nats: {closed}{_times(other, found)}, "
        f"most is x 2{beside}",
        brief=f"{closed}, in KL",
    )


def _at_same_step(
    runs: Sequence[Run], part: str, arms: Sequence[str], name: str
) -> dict[str, Spread | None]:
    """A field of the last look that all runs of some arms have, after training began."""
    here = [run for run in runs if run.part == part and run.arm in arms]
    number = at_look(name, shared_look(here))
    return {arm: over_seeds(here, part, arm, number) for arm in arms}


def _rewards(runs: Sequence[Run], part: str) -> Iterator[Finding]:
    """Exact training against each other layout, and SDCC against its student alone."""
    for naive in ("rightmost", "replay", "sdcc"):
        claim = f"{part}: exact training earns more reward on held-out questions than `{naive}`"
        yield _more_reward(runs, part, (EXACT, naive), claim)
    yield pulled_reward(runs, part)


def pulled_reward(runs: Sequence[Run], part: str) -> Finding:
    """Whether SDCC earns more than its student alone."""
    claim = f"{part}: `sdcc` earns more reward on held-out questions than `rightmost`"
    return _more_reward(runs, part, ("sdcc", "rightmost"), claim)


def _more_reward(runs: Sequence[Run], part: str, arms: tuple[str, str], claim: str) -> Finding:
    ended = [run for run in runs if run.part == part and run.arm in arms and run.ended]
    steps = sorted({step for run in ended if (step := answered_after(run)) is not None})
    one, other = (over_seeds(ended, part, arm, reward_of) for arm in arms)
    told = f"{one or 'none ended'} against {other or 'none ended'}"
    if one is None or other is None or len(steps) != 1:
        several = " after different numbers of steps" if len(steps) > 1 else ""
        return Finding(claim, OPEN, f"{told}{several}")
    noise = _binomial(ended, part, one, other)
    more = difference(one.values, other.values, noise=noise)
    why = f"{told}, after {steps[0]} steps: {more} more"
    brief = f"{100 * more.middle:+.0f} points of right answers"
    return Finding(claim, decided(more, beyond=0.0), why, brief=brief)


def _growth(runs: Sequence[Run], part: str) -> Finding:
    """Whether the naive view's KL is larger with several evictions after a token than with one."""
    claim = f"{part}: the divergence grows with evictions"
    here, step, when = _started(runs, part, "rightmost"), 0, "on the first batch"
    if part == "sft":
        # Before training all seeds are one and the same.
        here = [run for run in runs if (run.part, run.arm) == (part, "rightmost")]
        step = shared_look(here) or 0
        when = f"after {step} steps"
    several, one = (spread(kl_over(run, some, {step}) for run in here) for some in (SEVERAL, {1}))
    if several is None or one is None:
        return Finding(claim, OPEN, "too few rollouts with several evictions")
    curves = [kl_by_evictions(run, {step}) for run in here]
    shared = sorted(set.intersection(*map(set, curves)))
    told = ", ".join(f"{k}: {np.mean([curve[k] for curve in curves]):.2g}" for k in shared)
    return Finding(
        claim,
        larger(several, one),
        f"KL of `rightmost` {when}: {several} nats with several evictions after the token against "
        f"{one} with one{_times(several, one)}; by number of evictions, mean of the seeds, {told}",
    )


def _started(runs: Sequence[Run], part: str, arm: str) -> list[Run]:
    """A run a seed that looked at the first batch under this arm's row; SDCC scores `rightmost`."""
    rows = {"rightmost": ("rightmost", "sdcc")}.get(arm, (arm,))
    found: dict[int, Run] = {}
    for run in runs:
        if run.part == part and run.arm in rows and run.of("look"):
            found.setdefault(run.seed, run)
    return list(found.values())


def _known(number: Spread | None) -> str:
    return "nothing measured" if number is None else str(number)


def _nats(number: Spread | None) -> str:
    return "not measured" if number is None else f"{number} nats"


def _times(higher: Spread | None, lower: Spread | None) -> str:
    """The ratio of two arms, as far as both are known."""
    return "" if higher is None or lower is None else f"; x {ratio(higher, lower)}"


def _at_floor(exact: Spread | None) -> str:
    """Whether every seed's mean gap is what float32 rounds."""
    if exact is None:
        return OPEN
    if exact.high >= FLOOR:
        return NO
    return YES if exact.seeds > 1 else ONCE


def _binomial(runs: Sequence[Run], part: str, *arms: Spread) -> float:
    """Standard error of a difference of rewards that the number of questions alone makes."""
    asked = [
        sum(line["questions"] for line in run.of("reward"))
        for run in runs
        if run.part == part and run.of("reward")
    ]
    # Half an answer on each side: a share of 0 or 1 is not known without error.
    shares = [(one.mean * min(asked) + 0.5) / (min(asked) + 1) for one in arms]
    return math.sqrt(
        sum(p * (1 - p) / (min(asked) * one.seeds) for p, one in zip(shares, arms, strict=True))
    )
