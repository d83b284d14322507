"""An arm of a comparison: how a rollout is laid out, and the loss of its rows, for every method."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mwviz.analysis import Analysis
from mwviz.engine.choice import choose_exact
from mwviz.engine.losses import Factor
from mwviz.engine.model import Model
from mwviz.engine.row_loss import RowLoss
from mwviz.engine.sdcc import sdcc_losses
from mwviz.errors import ViewError
from mwviz.scorer import EXACT, STUDENTS
from mwviz.sdcc import consistency_targets
from mwviz.training.recipe import OWN
from mwviz.trie import Longs
from mwviz.views import View


def arm_view(analysis: Analysis, model: Model, method: str) -> View:
    """How an arm lays a rollout out: a method, the cheapest exact one, or a trainer's own batch.

    Raises:
        ViewError: no method has this name, or it cannot lay this rollout out, which is then named.
        TraceError: the own batch cannot be read.
    """
    if method.startswith(OWN):
        path = Path(method.removeprefix(OWN))
        if path.name not in analysis.batches:
            analysis.add_batch(path)
        return analysis.view(path.name)
    if method == EXACT and analysis.tree.semantics == "re_prefill":
        return analysis.view(choose_exact(analysis.tree, model, train=True).method)
    name = analysis.resolve(model, method)
    try:
        return analysis.view(name)
    except ViewError as error:  # Of many rollouts, which one it is.
        raise ViewError(f"rollout {analysis.rollout.id!r}: {error}") from error


def pulled_targets(analysis: Analysis, view: View) -> Longs:
    """int64: the targets that SDCC pulls to their true contexts; none under any other method."""
    if view.method not in STUDENTS:
        return np.empty(0, dtype=np.int64)
    return consistency_targets(view, analysis.pairs(view.method))


def arm_losses(
    analysis: Analysis,
    view: View,
    model: Model,
    *,
    strength: float,
    factor: Factor | None = None,
) -> Iterator[RowLoss]:
    """The loss of each row, in nats a target of the view; send one backward before the next.

    Args:
        analysis: whose rollout.
        view: as `arm_view` gives it.
        model: gets the gradient.
        strength: factor of the KL, where the method pulls targets.
        factor: of the loss terms, from the log-probabilities of the same pass.
    """
    return sdcc_losses(
        analysis.tree,
        view,
        model,
        consistency=pulled_targets(analysis, view),
        strength=strength,
        factor=factor,
    )
