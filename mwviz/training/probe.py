"""The gradient of an arm beside the exact one, on one rollout at the present weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

from mwviz.analysis import Analysis
from mwviz.engine.model import MemoryShortageError
from mwviz.training.arms import arm_losses, arm_view
from mwviz.training.learner import Learner

Gradient = Sequence[torch.Tensor]
"""One tensor a trained parameter, in the learner's order."""


class Angle(NamedTuple):
    """How an arm's gradient lies to the exact one; None where one is zero or does not fit."""

    cosine: float | None
    """-1 to 1; 1 is best."""
    error: float | None
    """|arm - exact| / |exact|; 0 is best."""


def angle(exact: Gradient | None, own: Gradient | None) -> Angle:
    """How two gradients lie to each other. Sums are in float64: float32 was 2 % off.

    Args:
        exact: what `own` is judged by; None where it does not fit in memory.
        own: the gradient to judge.
    """
    if exact is None or own is None:
        return Angle(None, None)
    inner = truth = size = apart = 0.0
    for one, two in zip(exact, own, strict=True):
        one, two = one.double(), two.double()
        inner += float((one * two).sum())
        truth += float(one.square().sum())
        size += float(two.square().sum())
        apart += float((two - one).square().sum())
    return Angle(
        inner / math.sqrt(truth * size) if truth and size else None,
        math.sqrt(apart / truth) if truth else None,
    )


def probe_of(analyses: Sequence[Analysis]) -> int | None:
    """Index of the smallest rollout that has a target, on which gradients are compared."""
    able = [place for place, one in enumerate(analyses) if len(one.tree.token)]
    return min(able, key=lambda place: analyses[place].tree.size, default=None)


def gradient(learner: Learner, analysis: Analysis, method: str) -> Gradient | None:
    """The gradient of one rollout under a method; none is left behind in the learner.

    None if it does not fit in memory: an arm may well fit where the exact layout does not, and is
    then trained unjudged.
    """
    model = learner.model
    view = arm_view(analysis, model, method)
    learner.optimizer.zero_grad(set_to_none=True)
    try:
        for part in arm_losses(analysis, view, model, strength=learner.recipe.strength):
            part.backward()
    except MemoryShortageError:
        learner.optimizer.zero_grad(set_to_none=True)
        return None
    found = [
        torch.zeros_like(part) if part.grad is None else part.grad for part in learner.parameters
    ]
    learner.optimizer.zero_grad(set_to_none=True)
    return found
