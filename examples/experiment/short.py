"""The experiment at a glance: what to use, what it costs, what did not show; from the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from examples.experiment.batched import EXACT
from examples.experiment.diagnosed import Pulled, diagnosed, pulled_alone, starts_from
from examples.experiment.findings import GRPO, Finding
from examples.experiment.job import CONTROL, PARTS
from examples.experiment.readings import (
    answered_steps,
    first_gap,
    mean_gap,
    reward_of,
    rounded_up,
    trained_seconds,
)
from examples.experiment.results import Run, Spread, mean_of, over_seeds
from examples.experiment.verdicts import NO, ONCE, OPEN, YES, ratio
from mwviz.wording import listed

EARNS = ": exact training earns more reward"
"""In the claims that compare it with another layout."""
PLAIN = "rightmost"
"""What most trainers do, and what the cost of the others is told beside."""


def in_short(runs: Sequence[Run], findings: Sequence[Finding]) -> Iterator[str]:
    """A list of few points, each as far as there are results for it, and the rewards beside it."""
    points = [*_use(runs, findings), *_gap(runs), *_cost(runs), *_missed(findings), *_pull(runs)]
    if points:
        yield "## In short"
        yield ""
        yield from (f"- {point}" for point in points)
        yield ""
    yield _counted(findings)
    yield ""
    yield from _rewards(runs)


def _answered(runs: Sequence[Run]) -> list[str]:
    """Parts whose agents were asked."""
    return [part for part in PARTS if answered_steps(runs, part)]


def _use(runs: Sequence[Run], findings: Sequence[Finding]) -> Iterator[str]:
    """Which layout earns most."""
    told, ahead = [], True
    for part in _answered(runs):
        shares = {
            arm: mean.mean
            for arm in PARTS[part]
            if arm != CONTROL and (mean := over_seeds(runs, part, arm, reward_of)) is not None
        }
        exact = shares.pop(EXACT, None)
        if exact is None or not shares:
            continue
        best = max(shares, key=lambda arm: shares[arm])
        ahead &= exact > shares[best]
        told.append(f"{exact:.0%} in {part} (next `{best}`, {shares[best]:.0%})")
    if not told:
        return
    head = (
        f"**Use an exact layout** (`{EXACT}` here): its mean share of right answers is the highest "
        "everywhere:"
        if ahead
        else "**No layout has the highest share of right answers everywhere**; the exact one, "
        f"`{EXACT}`, answers"
    )
    earned = [one for one in findings if EARNS in one.claim]
    counts = Counter(one.verdict for one in earned)
    against = f", {counts[NO]} against it" if counts[NO] else ""
    unclear = [_versus(one) for one in earned if one.verdict in (OPEN, ONCE)]
    rest = f"; undecided against {listed(unclear)}" if unclear else ""
    yield (
        f"{head} {listed(told)}. Of {len(earned)} comparisons with another layout the seeds decide "
        f"{counts[YES]} for it{against}{rest}."
    )


def _versus(found: Finding) -> str:
    """What it is compared with, and where."""
    return f"{found.claim.rpartition(' than ')[2]} in {found.claim.partition(':')[0]}"


def _gap(runs: Sequence[Run]) -> Iterator[str]:
    """How far training is from the rollout, exactly and as it is usually done."""
    exact = [over_seeds(runs, part, EXACT, mean_gap) for part in GRPO]
    plain = [over_seeds(runs, part, PLAIN, first_gap) for part in GRPO]
    known = [(one, two) for one, two in zip(exact, plain, strict=True) if one and two]
    if known:
        floor = max(one.high for one, _ in known)
        gaps = listed([f"{two.mean:.2g}" for _, two in known])
        yield (
            f"**Its train-rollout gap is rounding**: at most {rounded_up(floor)} nats a token in "
            f"any arm's mean, against {gaps} nats of `{PLAIN}` before any training."
        )


def _cost(runs: Sequence[Run]) -> Iterator[str]:
    """Time to train a step. Sampling goes by how many calls an agent makes, not by the layout."""
    told = []
    for part in PARTS:
        trained = [over_seeds(runs, part, arm, trained_seconds) for arm in (EXACT, PLAIN)]
        if None in trained:
            continue
        share = over_seeds(runs, part, PLAIN, _coverage)
        trains = f"trains {share.mean:.0%} of the tokens" if share else "may train fewer tokens"
        told.append(f"x {_times(trained)} in {part}, where `{PLAIN}` {trains}")
    if told:
        yield (
            f"**What it costs**: the time to train a step, without sampling and looks, over that "
            f"of `{PLAIN}`: {'; '.join(told)}. Measured with several arms a card."
        )


def _coverage(run: Run) -> float | None:
    """Share of the sampled tokens that it trains: of all its steps, or else of its looks."""
    of_steps = mean_of(run, "step", "coverage")
    return mean_of(run, "look", "coverage") if of_steps is None else of_steps


def _times(pair: Sequence[Spread | None]) -> str:
    one, other = pair
    return f"{ratio(one, other).middle:.2g}" if one and other else "?"


def _missed(findings: Sequence[Finding]) -> Iterator[str]:
    """What the seeds speak against."""
    missed = [
        f"{one.claim}{f' ({one.brief})' if one.brief else ''}"
        for one in findings
        if one.verdict == NO
    ]
    if missed:
        yield f"**Not reproduced**: {'; '.join(missed)}."


def _pull(runs: Sequence[Run]) -> Iterator[str]:
    """What SDCC's pull does to an agent that nothing else trains."""
    if not any(run.arm == "sdcc" for run in runs):
        return
    mine = [line for line in diagnosed() if starts_from(line, runs)]
    asked = [one for one in pulled_alone(mine) if one.rewards]
    if not asked:
        return
    steps = listed(sorted({str(one.last["step"]) for one in asked}), "or")
    told = [
        f"{_ends(asked, harness)} in `{harness}`"
        for harness in dict.fromkeys(a.harness for a in asked)
    ]
    yield (
        f"**SDCC's pull alone**, {steps} steps of it without any reward, took the share of right "
        f"answers {listed(told)}; [why](#what-sdcc-trains-and-what-that-does-to-reward)."
    )


def _ends(asked: Sequence[Pulled], harness: str) -> str:
    """Right answers before and after; a range where teachers differ."""
    pairs = [one.rewards for one in asked if one.harness == harness and one.rewards]
    before, after = (sorted({f"{pair[end]:.0%}" for pair in pairs}) for end in (0, 1))
    return f"from {listed(before, 'or')} to {listed(after, 'or')}"


def _counted(findings: Sequence[Finding]) -> str:
    """The page in a sentence."""
    counts = Counter(found.verdict for found in findings)
    told = ", ".join(f"{counts[one]} {one}" for one in (YES, ONCE, NO, OPEN) if counts[one])
    return f"Of {len(findings)} claims: {told}. No claim rests on more than one small model."


def _rewards(runs: Sequence[Run]) -> Iterator[str]:
    """What the trained agents answer, at a glance: a row an arm, a column a part."""
    parts = _answered(runs)
    if not parts:
        return
    yield (
        "Held-out questions answered right after training on each layout, mean of the seeds and "
        f"in brackets the smallest and the largest; `{EXACT}` is exact, `{CONTROL}` is trained on "
        "rollouts without evictions and asked without them; `-` where none came to answer:"
    )
    yield ""
    yield f"| trained on | {' | '.join(_column(runs, part) for part in parts)} |"
    yield "|---|" + "---|" * len(parts)
    for arm in dict.fromkeys(arm for part in parts for arm in PARTS[part]):
        found = [over_seeds(runs, part, arm, reward_of) for part in parts]
        if any(found):
            yield f"| `{arm}` | {' | '.join(map(_share, found))} |"
    yield ""
    yield from _repeated(runs)


def _repeated(runs: Sequence[Run]) -> Iterator[str]:
    """Controls that are one and the same: without evictions the parts of GRPO do not differ."""
    one, other = (
        {run.seed: [line["reward"] for line in run.of("step")] for run in controls}
        for controls in (
            [run for run in runs if (run.part, run.arm) == (part, CONTROL)] for part in GRPO
        )
    )
    same = [
        seed
        for seed in sorted(one.keys() & other.keys())
        if all(a == b for a, b in zip(one[seed], other[seed], strict=False))
        and one[seed]
        and other[seed]
    ]
    if same:
        first, second = (answered_steps(runs, part) for part in GRPO)
        asked = "; answers of the repeated ones differ by the step after which they were asked"
        yield (
            f"`{CONTROL}` of {GRPO[1]} repeats that of {GRPO[0]}: no evictions, so the same "
            f"harness, and with the same seed ({listed(list(map(str, same)))}) the same training "
            f"reward at every step that both took. Of {len(runs)} arms {len(runs) - len(same)} are "
            f"distinct{asked if first != second else ''}."
        )
        yield ""


def _share(found: Spread | None) -> str:
    if found is None:
        return "-"
    ends = f" [{found.low:.0%}, {found.high:.0%}]" if found.seeds > 1 else ""
    return f"{found.mean:.0%}{ends}"


def _column(runs: Sequence[Run], part: str) -> str:
    return f"{part}, after {' or '.join(map(str, answered_steps(runs, part)))} steps"
