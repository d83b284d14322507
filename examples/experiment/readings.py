"""Numbers and curves of one run, for tables, charts and claims."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable
from decimal import ROUND_CEILING, Context

import numpy as np

from examples.experiment.batched import EXACT
from examples.experiment.results import Run, mean_of

EVERY = range(sys.maxsize)
"""All steps, or all numbers of evictions."""
LEAST = 30
"""Targets behind a mean by evictions."""
Number = Callable[[Run], float | None]


def first_gap(run: Run) -> float | None:
    """Mean |gap| on the first batch, at the weights that sampled it.

    An exact view gives what was recorded to 1e-6 there, so an arm that broke off before its first
    step is read from its first look: the gap is then the drift.
    """
    naive = run.arm not in (EXACT, "control")
    for kind, name in (("step", "gap"), ("look", "drift"))[: 1 + naive]:
        first = run.of(kind)[:1]
        if first and first[0][name] is not None:
            return float(first[0][name])
    return None


def mean_gap(run: Run) -> float | None:
    """Mean |gap| over all of its steps."""
    return mean_of(run, "step", "gap")


def trained_seconds(run: Run) -> float | None:
    """Mean seconds of a step without those of sampling; None where no step tells them.

    The first step also builds what recurs, and a GRPO step looks within its own seconds: steps that
    looked are left out.
    """
    looked = {line["step"] for line in run.of("look")}
    steps = [line for line in run.of("step")[1:] if line["step"] not in looked]
    seconds = [line["seconds"] - line.get("sampling", 0.0) for line in steps]
    return float(np.mean(seconds)) if seconds else None


def rounded_up(number: float) -> str:
    """Two digits that are never below the number, for `at most`."""
    up = Context(prec=2, rounding=ROUND_CEILING)
    return f"{float(up.create_decimal(str(float(number)))):g}"


def reward_of(run: Run, harness: str | None = None) -> float | None:
    """Share of the held-out questions that were answered right.

    Args:
        run: of all its harnesses, unless one is named.
        harness: the only one that counts.
    """
    lines = [line for line in run.of("reward") if harness in (None, line["harness"])]
    right = sum(line["reward"] * line["questions"] for line in lines)
    return right / sum(line["questions"] for line in lines) if lines else None


def asked_of(run: Run) -> int:
    """Held-out questions that were answered in each of the arm's harnesses."""
    lines = run.of("reward")
    harnesses = {line["harness"] for line in lines}
    return sum(int(line["questions"]) for line in lines) // max(len(harnesses), 1)


def answered_after(run: Run) -> int | None:
    """The step after which the held-out questions were answered: the same for compared arms."""
    lines = run.of("reward")
    return lines[-1]["step"] if lines else None


def answered_steps(runs: Iterable[Run], part: str) -> list[int]:
    """The steps after which arms of a part answered, in order: one where they are comparable."""
    here = (answered_after(run) for run in runs if run.part == part)
    return sorted({step for step in here if step is not None})


def tv_share(step: int | None) -> Number:
    """Measured mean TV over its bound, at the look after a step; above 1 would be a bug."""

    def share(run: Run) -> float | None:
        tv, bound = (at_look(name, step)(run) for name in ("tv", "tv_bound"))
        return None if tv is None or not bound else tv / bound

    return share


def per_step(name: str) -> Callable[[Run], dict[int, float]]:
    """A field of the steps, by step."""
    return lambda run: {
        line["step"]: line[name] for line in run.of("step") if line.get(name) is not None
    }


def smooth(name: str) -> Callable[[Run], dict[int, float]]:
    """The same as the mean of up to five steps."""

    def points(run: Run) -> dict[int, float]:
        values = [line[name] for line in run.of("step")]
        return {at: float(np.mean(values[max(0, at - 4) : at + 1])) for at in range(len(values))}

    return points


def per_look(name: str) -> Callable[[Run], dict[int, float]]:
    """A field of the looks, by step."""
    return lambda run: {
        line["step"]: line[name] for line in run.of("look") if line.get(name) is not None
    }


def shared_look(runs: Iterable[Run]) -> int | None:
    """The last step, after training began, that all runs looked after; None if there is none.

    A run that never came to look is not counted.
    """
    steps = [{line["step"] for line in run.of("look")} for run in runs if run.of("look")]
    return max(set.intersection(*steps) - {0}, default=None) if steps else None


def at_look(name: str, step: int | None) -> Number:
    """A field of the look after a step."""
    return lambda run: None if step is None else per_look(name)(run).get(step)


def kl_over(run: Run, evictions: Container[int], steps: Container[int] = EVERY) -> float | None:
    """Mean KL of the targets with some numbers of evictions, over the looks at some steps.

    None where too few targets stand behind it.
    """
    found = [
        (mean, targets)
        for line in run.of("junctions")
        if line["step"] in steps
        for number, (mean, targets) in line["kl"].items()
        if int(number) in evictions
    ]
    count = sum(targets for _, targets in found)
    return sum(mean * targets for mean, targets in found) / count if count >= LEAST else None


def kl_by_evictions(run: Run, steps: Container[int] = EVERY) -> dict[int, float]:
    """The same for every number of evictions that has targets enough."""
    here = [line["kl"] for line in run.of("junctions") if line["step"] in steps]
    numbers = sorted({int(number) for by_number in here for number in by_number})
    found = {number: kl_over(run, {number}, steps) for number in numbers}
    return {number: mean for number, mean in found.items() if mean is not None}
