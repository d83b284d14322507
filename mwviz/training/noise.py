"""The floor of everything that is watched: what two exact layouts of one rollout differ by.

Both feed every token what it was sampled from, so whatever lies between them is arithmetic: sums in
another order, another kernel. A number of an arm below its floor says nothing of the arm.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mwviz.analysis import Analysis
from mwviz.engine.divergence import diverge
from mwviz.engine.feed import MAX_DENSE
from mwviz.engine.floors import floor_of
from mwviz.engine.model import Model
from mwviz.engine.score import score
from mwviz.engine.scores import Scores
from mwviz.training.arms import arm_view
from mwviz.training.known import known_largest
from mwviz.training.learner import Learner
from mwviz.training.pauses import Pausing, paused
from mwviz.training.probe import Gradient, angle, gradient

PACKED, SEPARATE = "packed_mask", "logit_tree"
"""The two layouts: both exact, one row or many."""


class Noise(NamedTuple):
    """What noise alone explains. None: two exact layouts cannot be run here, or do not fit."""

    drift: float
    """Nats: `Floor.threshold` of the two."""
    layout: str = ""
    """The second of the two; "" without."""
    kl: float | None = None
    """Largest KL of a target between the two, nats."""
    tv: float | None = None
    """Largest total variation."""
    flips: float | None = None
    """Share of targets whose most likely token differs."""
    entropy: float | None = None
    """Largest difference of entropies, nats."""
    cosine: float | None = None
    """Of their gradients; 1 without noise."""
    error: float | None = None
    """|one gradient - the other| / |one|."""


def measure_noise(
    learner: Learner, probe: Analysis | None, true: Scores | None, exact: Gradient | None
) -> Pausing[Noise]:
    """The floors on one rollout, with the weights as they are.

    Args:
        learner: whose weights.
        probe: the rollout; None takes what the model's self-check measured.
        true: its scores under one exact layout; the other one is scored here.
        exact: the gradient of that layout.
    """
    model = learner.model
    other = "" if probe is None or true is None else second_layout(model, probe, true.method)
    if probe is None or true is None or not other:
        return Noise(max((floor.threshold for floor in model.proofs.values()), default=0.0))
    again = yield from paused(score(probe.tree, arm_view(probe, model, other), model))
    apart = yield from paused(diverge(true, again, model))
    both = ~np.isnan(apart.kl)
    lies = angle(exact, None if exact is None else gradient(learner, probe, other))
    return Noise(
        layout=other,
        drift=floor_of(true.logprob.astype(np.float64) - again.logprob).threshold,
        kl=known_largest(apart.kl),
        tv=known_largest(apart.tv),
        flips=float(apart.flip[both].mean()) if both.any() else None,
        entropy=known_largest(np.abs(true.entropy - again.entropy)),
        cosine=lies.cosine,
        error=lies.error,
    )


def second_layout(model: Model, analysis: Analysis, first: str) -> str:
    """The exact layout that is run beside `first` to see noise; "" where only one can be."""
    tree = analysis.tree
    if tree.semantics != "re_prefill" or model.capability.refusals or tree.size > MAX_DENSE:
        return ""
    return SEPARATE if first == PACKED else PACKED
