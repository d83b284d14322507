"""What the results cannot say: few seeds, steps that were cut short, arms that broke off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from examples.experiment.diagnosed import seeds_listed, unrecorded
from examples.experiment.readings import answered_steps, asked_of, rounded_up
from examples.experiment.results import Run
from examples.experiment.scales import HELD_OUT, SCALES
from mwviz.sdcc import STRENGTH, strength_at
from mwviz.wording import listed

WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def seeds_told(runs: Sequence[Run]) -> str:
    """How many seeds an arm has, in words: `three or four seeds`."""
    arms: dict[tuple[str, str], int] = {}
    for run in runs:
        arms[run.part, run.arm] = arms.get((run.part, run.arm), 0) + 1
    counts = sorted(set(arms.values()))
    told = [WORDS[one] if one < len(WORDS) else str(one) for one in counts]
    return f"{listed(told, 'or')} seed{'' if counts == [1] else 's'}"


def limits(runs: Sequence[Run]) -> Iterator[str]:
    """The section."""
    over = [
        line["tv_over_bound"]
        for run in runs
        for line in run.of("look")
        if line.get("tv_over_bound") is not None
    ]
    yield "## Limits"
    yield ""
    yield (
        f"- One small model, one invented world, {seeds_told(runs)}: ranges over seeds say how far "
        "runs lie apart, not what another model would do."
    )
    yield from _short(runs)
    if told := unrecorded(runs):
        yield f"- {told}"
    yield (
        "- Each batch is trained once, at the weights that sampled it, so the gap of an exact arm "
        "is the numerical floor; with stale batches it would not be."
    )
    yield (
        "- Rows of many rollouts are padded into one batch (`examples/experiment/batched.py`), "
        "which a test holds to `mwviz.training` step by step."
    )
    yield (
        "- Looks measure no share of names copied right (`fact_copy`), which `mwviz train --world` "
        "does: what an agent copies shows in its reward alone."
    )
    if over:
        yield (
            "- Measured TV never exceeded its bound for a token by more than "
            f"{rounded_up(max(over))} (rounding)."
        )
    cut = [run for run in runs if not run.ended]
    if cut:
        yield (
            f"- {len(cut)} of {len(runs)} arms did not run to their end; what they had measured by "
            f"then is used: {', '.join(map(_broken_off, cut))}."
        )


def _short(runs: Sequence[Run]) -> Iterator[str]:
    """Where arms are compared after fewer steps than their schedule has, or answered less."""
    for part in SCALES:
        here = [run for run in runs if run.part == part]
        planned = max((int(run.start["steps"]) for run in here if "steps" in run.start), default=0)
        compared = answered_steps(here, part)
        reached = compared[0] if compared else max((run.steps for run in here), default=0)
        if here and reached < planned:
            yield _compared_early(part, here, reached, planned)
        if fewer := _answered_fewer(here):
            yield f"- {part}: of {HELD_OUT} held-out questions {fewer}."


def _answered_fewer(runs: Sequence[Run]) -> str:
    """Which arms answered how many, of those that answered some but not all; empty if none did."""
    seeds: dict[tuple[int, str], list[int]] = {}
    for run in runs:
        if 0 < (asked := asked_of(run)) < HELD_OUT:
            seeds.setdefault((asked, run.arm), []).append(run.seed)
    return listed(
        [f"`{a}` {seeds_listed(seeds[n, a])} answered the first {n}" for n, a in sorted(seeds)]
    )


def _compared_early(part: str, runs: Sequence[Run], step: int, planned: int) -> str:
    rising = sum(strength_at(number, planned) < STRENGTH for number in range(planned))
    further = max(run.steps for run in runs)
    single = f"; curves of single arms go on to step {further}" if further > step else ""
    return (
        f"- {part}: time on the card was short, so rewards are compared after step {step} of "
        f"{planned}. SDCC's strength goes by {planned} and is whole after {rising}. What more "
        f"steps would change is not known{single}."
    )


def _broken_off(run: Run) -> str:
    """Which arm, how far it came, and why if it could still say so."""
    reasons = [line["why"] for line in run.of("failed")]
    why = f", {reasons[-1]}" if reasons else ""
    return f"{run.part} `{run.arm}` seed {run.seed} ({run.steps} steps{why})"
