"""The charts of a training: what each shows, and what noise alone explains of it; no drawing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pandas as pd

from mwviz.training.world import world_columns
from mwviz.wording import digits


class Curve(NamedTuple):
    """What one chart shows."""

    table: str
    """`steps` or `watch`."""
    column: str
    title: str
    """With its unit."""
    group: str = "Essentials"
    """One of `GROUPS`: the charts that are looked at together."""
    floor: str = ""
    """Column of `watch` that holds what noise alone explains of it, drawn as a line; "" if none."""
    floor_said: str = ""
    """Where no line can be drawn: what noise means for it; `{floor}` and other columns in it."""
    logarithmic: bool = False
    help: str = ""
    """What it means and which way is better, in one sentence."""

    def noise(self, floors: Mapping[str, float]) -> str:
        """What noise explains of this number, in a sentence.

        Args:
            floors: the largest of each floor column; a missing one was not measured.
        """
        if self.floor:
            unknown = "Floor not measured: two exact layouts cannot be run on the probe."
            return "" if self.floor in floors else unknown
        names = ("floor", "floor_entropy", "floor_error")
        words = {
            name: digits(floors[name], 1) if name in floors else "an unmeasured amount"
            for name in names
        }
        return self.floor_said.format(**words)


GROUPS = ("Essentials", "Distributions", "Layout and gradient")
CLOSER = "Floor: arms that lie closer together than {floor} nats do not differ."
ENTROPY = "Floor: noise moves a token's entropy by at most {floor_entropy} nats."
COUNTED = "No floor: a count."

CURVES = (
    Curve(
        "steps",
        "nll",
        "training loss (nats a token)",
        floor_said=CLOSER,
        help="Lower fits the batch better.",
    ),
    Curve(
        "steps",
        "gap",
        "gap on the batch, mean |log p - recorded| (nats)",
        floor="floor",
        logarithmic=True,
        help="What a trainer measures: the arm's layout against the sampler.",
    ),
    Curve(
        "watch",
        "drift_diverging",
        "drift, diverging tokens, mean |d| (nats)",
        floor="floor",
        logarithmic=True,
        help="Held out: how far the layout is from the true contexts. An exact arm has none.",
    ),
    Curve(
        "watch",
        "loss_true",
        "loss in the true contexts (nats a token)",
        floor_said=CLOSER,
        help="Held out, as the agent will run: lower is better.",
    ),
    Curve(
        "watch",
        "kl",
        "KL(true context || view), mean (nats)",
        floor="floor_kl",
        logarithmic=True,
        help="Held out, over all tokens that the view covers: 0 is best.",
    ),
    Curve(
        "watch",
        "cosine",
        "cosine with the exact gradient",
        floor="floor_cosine",
        help="On one fixed rollout: 1 pulls the weights the way that the truth does.",
    ),
    Curve(
        "watch",
        "tv",
        "total variation, mean (0 to 1)",
        "Distributions",
        floor="floor_tv",
        logarithmic=True,
        help="Held out: probability that lies on other tokens than in the true contexts.",
    ),
    Curve(
        "watch",
        "flips",
        "other top tokens (share)",
        "Distributions",
        floor="floor_flips",
        help="Held out: how often the most likely token is another one: 0 is best.",
    ),
    Curve(
        "watch",
        "drift",
        "drift, covered tokens, mean |d| (nats)",
        "Distributions",
        floor="floor",
        logarithmic=True,
        help="Held out, over all tokens that the view covers.",
    ),
    Curve(
        "watch",
        "entropy_true",
        "entropy in the true contexts (nats)",
        "Distributions",
        floor_said=ENTROPY,
        help="Held out: how unsure the model is where it will run.",
    ),
    Curve(
        "watch",
        "entropy_view",
        "entropy in the view (nats)",
        "Distributions",
        floor_said=ENTROPY,
        help="Held out: how unsure it is where it is trained; compare with the true contexts.",
    ),
    Curve(
        "watch",
        "drift_trained",
        "drift as trained, mean |d| (nats)",
        "Distributions",
        floor="floor",
        logarithmic=True,
        help="Held out: each token as often as the layout trains it.",
    ),
    Curve(
        "watch",
        "error",
        "error of the gradient, over the exact one",
        "Layout and gradient",
        floor="floor_error",
        logarithmic=True,
        help="On one fixed rollout: |arm's gradient - exact| / |exact|, 0 is best.",
    ),
    Curve(
        "steps",
        "grad_norm",
        "norm of the gradient",
        "Layout and gradient",
        floor_said="Floor: noise turns or stretches it by {floor_error} of its size.",
        help="On the batch, before it is cut.",
    ),
    Curve(
        "watch",
        "moved",
        "distance from the start weights (over their norm)",
        "Layout and gradient",
        floor_said="No floor: the weights themselves are compared, and start at 0.",
        help="How far training has taken the model.",
    ),
    Curve(
        "watch",
        "coverage",
        "coverage (share of the sampled tokens)",
        "Layout and gradient",
        floor_said=COUNTED,
        help="Held out: what the layout trains at all; 1 is best.",
    ),
    Curve(
        "steps",
        "clipped",
        "clipped share of the targets",
        "Layout and gradient",
        floor_said=f"{COUNTED} Log-ratios within {{floor}} nats of the clip fall either way.",
        help="Policy gradient only: tokens that the clip keeps from training.",
    ),
    Curve(
        "steps",
        "kl",
        "KL that SDCC pulls on, mean (nats)",
        "Layout and gradient",
        floor="floor_kl",
        logarithmic=True,
        help="On the batch, over the pulled tokens; only sdcc and sdcc_replay have it.",
    ),
)
"""The charts of the train lab."""


def world_curves(columns: Iterable[str]) -> tuple[Curve, ...]:
    """Charts of what the caller of the library measured beside it (reward, accuracy of copies).

    Args:
        columns: of the table `watch`.
    """
    said = "No floor of noise: a score of the world's, as sure as its tasks are many."
    return tuple(
        Curve("watch", name, name, "Measured beside it", floor_said=said)
        for name in world_columns(columns)
    )


def floors(watched: pd.DataFrame) -> dict[str, float]:
    """The largest of each floor column over all looks (of the cosine's the smallest), where known.

    Args:
        watched: the table `watch`; runs of earlier versions have `floor` alone.
    """
    found = {}
    for name in watched.columns:
        if str(name).startswith("floor") and not watched[name].isna().all():
            known = watched[name]
            found[str(name)] = float(known.min() if name == "floor_cosine" else known.max())
    return found
