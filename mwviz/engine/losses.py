"""The training loss of a view: one function for all methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from mwviz.engine import attention, check, partition, row_loss, vocabulary
from mwviz.engine.layout import Layout, joined, layout
from mwviz.engine.model import Model, memory_errors
from mwviz.engine.nll import Weigh, weighted_nll
from mwviz.engine.row_loss import Made, RowLoss
from mwviz.engine.vocabulary import Head
from mwviz.tree import EvictionTree
from mwviz.trie import Longs
from mwviz.views.view import View

Floats = npt.NDArray[np.float32]
Factor = Callable[[Longs, Floats], Floats]
"""From some targets and their log-probabilities in the row, nats, the factor of each: what the
objective makes of the weights as they are."""


def row_losses(
    tree: EvictionTree,
    view: View,
    model: Model,
    *,
    factor: Floats | Factor | None = None,
    kernel: str = "auto",
) -> Iterator[RowLoss]:
    """The loss of each row or batch of rows; their sum is the loss of the view.

    The loss is the sum over edges of factor x weight x negative log-likelihood in nats, divided by
    the number of targets the view trains, whatever their factors, and however many calls share a
    node. Call `backward` on each before asking for the next: the memory of one then suffices.

    Args:
        tree: The tree the view indexes.
        view: What to train.
        model: Its parameters get the gradient; `eval` and `train` mode are left as they are.
        factor: float32 (M,): of each target, as `mwviz.policy` gives it, or what gives it from
            the log-probabilities of the same pass; None is 1 for all.
        kernel: One of `kernels.KERNELS`.

    Raises:
        ModelError: The model cannot be trained on this view; names the method that works instead.
    """
    chosen, _floor = check.proved(model, view.rows, kernel=kernel)
    grouped = check.grouped(model, view.rows, kernel=chosen, train=True)
    targets = max(1, int(np.count_nonzero(view.multiplicity)))
    given = None if isinstance(factor, np.ndarray) else factor

    def run(part: Layout, again: bool) -> Made:
        loss = _row_loss(tree, part, model, given, how=(chosen, again)) / targets
        return Made(loss, loss.new_full((), torch.nan))

    def losses() -> Iterator[RowLoss]:
        for group in grouped.groups:
            part = joined([layout(tree, row, limit=model.max_positions) for row in group])
            if part is None:
                continue
            if isinstance(factor, np.ndarray):
                weight = part.edges.weight * factor[part.edges.target]
                part = replace(part, edges=part.edges._replace(weight=weight))
            parts = partition.fitting_parts(model, part, train=True)
            for found in row_loss.row_losses(parts, model, run):
                found.add(grouped.notes)
                yield found

    return losses()


def backward(
    tree: EvictionTree,
    view: View,
    model: Model,
    *,
    factor: Floats | Factor | None = None,
    kernel: str = "auto",
) -> float:
    """Adds the gradient of the view's loss to the parameters; gives the loss in nats a target.

    A batch that does not fit is run in smaller ones; a row that does not, with layers that run
    twice instead of keeping numbers, and one that does not even so in several rows with fewer
    branches each, whichever pass shows it. It ends there in the cases that `RowLoss.backward`
    names, and with either pass where processes share a layer's work.

    Raises:
        ModelError: It does not fit; gradients may then be incomplete and should be zeroed.
    """
    total = 0.0
    for part in row_losses(tree, view, model, factor=factor, kernel=kernel):
        part.backward()
        total += part.loss.item()
    return total


def _row_loss(
    tree: EvictionTree,
    part: Layout,
    model: Model,
    factor: Factor | None,
    *,
    how: tuple[str, bool],
) -> torch.Tensor:
    kernel, recompute = how
    out = vocabulary.head(model)
    # Sent before the layers are launched: a copy waits for all that was launched before it.
    query = torch.from_numpy(part.edges.query).to(model.device)
    asked = _asked(tree, part, out)
    hidden = attention.hidden_states(model, part, kernel, recompute=recompute)
    with memory_errors(model, len(part.ids)):
        return weighted_nll(out, hidden.index_select(0, query), *asked, _weigh(part, factor))


def edge_loss(
    tree: EvictionTree,
    part: Layout,
    model: Model,
    *,
    hidden: torch.Tensor,
    out: Head,
    factor: Factor | None = None,
) -> torch.Tensor:
    """Scalar with its graph: weight x negative log-likelihood in nats, summed over a row's edges.

    Args:
        tree: owns the target tokens.
        part: the row as it was fed.
        model: ran it.
        hidden: (E, H): final hidden state at each edge's query.
        out: the model's output head.
        factor: gives a further factor from the log-probabilities; None is 1 for all.
    """
    with memory_errors(model, len(part.ids)):
        return weighted_nll(out, hidden, *_asked(tree, part, out), _weigh(part, factor))


def _asked(tree: EvictionTree, part: Layout, out: Head) -> tuple[torch.Tensor, torch.Tensor]:
    """int64 (E,) tokens that a row's edges predict, and their weights (E,), on the device."""
    ids = tree.ids[tree.token[part.edges.target]].astype(np.int64)
    place = out.weight.device
    wide = torch.promote_types(out.weight.dtype, torch.float32)
    return torch.from_numpy(ids).to(place), torch.from_numpy(part.edges.weight).to(place, wide)


def _weigh(part: Layout, factor: Factor | None) -> Weigh | None:
    """A factor of targets as one of the row's loss terms."""
    if factor is None:
        return None

    def weigh(chunk: slice, logprob: torch.Tensor) -> torch.Tensor:
        found = factor(part.edges.target[chunk], logprob.float().cpu().numpy())
        return torch.from_numpy(found).to(logprob.device, logprob.dtype)

    return weigh
