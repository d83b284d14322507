"""Which charts the report has: each with unit and floor, and how to read it in a line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from examples.experiment.batched import EXACT
from examples.experiment.charts import by_arm, by_count, over_steps, with_floor
from examples.experiment.findings import GRPO
from examples.experiment.job import CONTROL, PARTS
from examples.experiment.readings import (
    answered_steps,
    asked_of,
    kl_by_evictions,
    kl_over,
    mean_gap,
    per_look,
    per_step,
    reward_of,
    smooth,
)
from examples.experiment.results import Run, over_seeds, spread

HELD_OUT = "held-out"
"""The chart that stands at the head of the page."""


class Drawing(NamedTuple):
    """One chart."""

    name: str
    caption: str
    figure: go.Figure


def gallery(runs: Sequence[Run]) -> list[Drawing]:
    """All that the results have numbers for."""
    made = [*_held_out(runs)]
    for part in GRPO:
        if any(run.part == part for run in runs):
            made += [_gap(runs, part), _evictions(runs, part), _reward(runs, part)]
    if any(run.part == "sft" for run in runs):
        made += _sft(runs)
    return made


def _held_out(runs: Sequence[Run]) -> Iterator[Drawing]:
    parts = {
        part: f"{part}, {'/'.join(map(str, steps))} steps"
        for part in PARTS
        if (steps := answered_steps(runs, part))
    }
    asked = min((one for run in runs if (one := asked_of(run))), default=0)
    if asked:
        yield Drawing(
            HELD_OUT,
            f"Higher is better. No floor: a share of {asked} questions is sure to about "
            f"{100 * 0.98 / math.sqrt(asked):.0f} points.",
            by_arm(
                runs,
                parts,
                reward_of,
                title="held-out questions answered right",
                axis="share answered right",
            ),
        )


def _gap(runs: Sequence[Run], part: str) -> Drawing:
    exact = over_seeds(runs, part, EXACT, mean_gap)
    return Drawing(
        f"gap-{part}",
        "Lower is better; at the floor training sees what the rollout saw.",
        with_floor(
            over_steps(
                runs,
                part,
                per_step("gap"),
                title=f"{part}: train-rollout gap on the current batch",
                axis="mean |gap|, nats a token",
                log=True,
            ),
            exact and exact.mean,
            "float32, exact layout",
        ),
    )


def _evictions(runs: Sequence[Run], part: str) -> Drawing:
    return Drawing(
        f"evictions-{part}",
        "Over all looks, by the evictions that a view gets wrong: those before a token for "
        "`replay`, those after it for the others. An exact layout gets none wrong: its KL is 0, "
        "drawn at the lower edge.",
        with_floor(
            by_count(
                runs,
                part,
                kl_by_evictions,
                title=f"{part}: KL of the view from the true contexts, by evictions",
                axis="KL(true || view), nats a token",
            ),
            _none_wrong(runs, part),
            "no eviction is wrong",
        ),
    )


def _none_wrong(runs: Sequence[Run], part: str) -> float | None:
    """KL where a view is right, and only rounding parts it from the truth."""
    here = [run for run in runs if run.part == part and run.arm != EXACT]
    found = spread(kl_over(run, {0}) for run in here)
    return found and found.mean


def _reward(runs: Sequence[Run], part: str) -> Drawing:
    figure = over_steps(
        runs,
        part,
        smooth("reward"),
        title=f"{part}: reward on the questions of training, mean of 5 steps",
        axis="share answered right",
    )
    figure.update_yaxes(range=[-0.04, 1.04], tickformat=".0%")
    return Drawing(
        f"reward-{part}",
        "Higher is better. No floor: questions differ from step to step, and arms of a seed are "
        "asked the same.",
        figure,
    )


def _sft(runs: Sequence[Run]) -> Iterator[Drawing]:
    yield Drawing(
        "sft-nll",
        "Lower is better: how likely the expert's words are in the contexts in which they were "
        "said. No floor is known.",
        over_steps(
            runs,
            "sft",
            per_look("nll_true"),
            title="sft: held-out loss in the true contexts",
            axis="nats a token",
            log=True,
        ),
    )
    yield Drawing(
        "sft-kl",
        f"Lower is closer, not better. `{EXACT}` has no diverging token, and so no line; "
        f"`{CONTROL}` is looked at in the row of `rightmost`.",
        with_floor(
            over_steps(
                runs,
                "sft",
                per_look("kl_diverging"),
                title="sft: KL of the view from the true contexts, diverging tokens",
                axis="KL(true || view), nats a token",
                log=True,
            ),
            _none_wrong(runs, "sft"),
            "no eviction is wrong",
        ),
    )
