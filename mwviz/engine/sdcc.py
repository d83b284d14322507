"""The SDCC loss: a naive row, pulled to what the same weights say in the true contexts.

`L = task loss + strength x sum over C of KL(teacher || student) / loss tokens of the student row`.
The sum is arXiv 2609.00865, eq. 8-10; dividing it by the student's number of loss tokens is ours,
as the paper gives no normaliser. Letters: E tokens of C, H width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.checkpoint import checkpoint

from mwviz.engine import attention, check, losses, partition, row_loss, vocabulary
from mwviz.engine.choice import choose_exact
from mwviz.engine.layout import Layout, joined, layout
from mwviz.engine.losses import Factor, edge_loss
from mwviz.engine.model import Model, memory_errors
from mwviz.engine.row_loss import Made, RowLoss
from mwviz.engine.vocabulary import Head
from mwviz.tree import EvictionTree
from mwviz.trie import Longs
from mwviz.views import Row, View, build_view
from mwviz.views.view import Edges

FULL = "KL(true context || student), full vocabulary"


@dataclass(frozen=True, slots=True, eq=False)
class Consistency:
    """How far a student row is from the true contexts on C."""

    targets: Longs
    """int64 (E,): the targets of C that both could be run on."""
    kl: npt.NDArray[np.float32]
    """float32 (E,): KL(true context || student) in nats, or a lower bound of it; 0 is best."""
    label: str
    """Says which."""


class _Teacher(NamedTuple):
    """What the true contexts give for some targets, without a graph."""

    target: Longs
    hidden: torch.Tensor
    """(E, H)."""


def sdcc_losses(
    tree: EvictionTree,
    view: View,
    model: Model,
    *,
    consistency: Longs,
    strength: float,
    factor: Factor | None = None,
) -> Iterator[RowLoss]:
    """The loss of each row of the student, or of several that run together.

    Call `backward` on each before asking for the next.

    Without consistency targets, or at strength 0, it is exactly the student's loss. The teacher is
    one pass without gradient over the cheapest exact layout; it runs before the first row.

    Args:
        tree: The tree the view indexes.
        view: The student's rows.
        model: Teacher and student; only the student's side gets a gradient.
        consistency: int64: C, as `mwviz.sdcc.consistency_targets` gives it.
        strength: Factor of the KL, as `mwviz.sdcc.strength_at` gives it.
        factor: Of the task loss's terms, from the log-probabilities in the row.

    Raises:
        ModelError: The model cannot run the student's row.
    """
    if strength == 0 or len(consistency) == 0:
        return losses.row_losses(tree, view, model, factor=factor)
    kernel = check.proved(model, view.rows).kernel
    teacher = _teach(tree, model, consistency)
    return _losses(tree, view, model, teacher, (strength, kernel, factor))


def backward(
    tree: EvictionTree, view: View, model: Model, *, consistency: Longs, strength: float
) -> float:
    """Adds the gradient of the SDCC loss to the parameters; gives the loss in nats a target."""
    total = 0.0
    for part in sdcc_losses(tree, view, model, consistency=consistency, strength=strength):
        part.backward()
        total += part.loss.item()
    return total


@torch.no_grad()
def measure_consistency(
    tree: EvictionTree, view: View, model: Model, *, consistency: Longs, top: int | None = None
) -> Consistency:
    """The KL that the loss would add, target by target.

    Args:
        tree: The tree the view indexes.
        view: The student's rows.
        model: Teacher and student.
        consistency: int64: C.
        top: None for the full vocabulary; else the teacher's `top` most likely tokens are kept
            apart and all others are one bucket, which bounds the KL from below.
    """
    kernel = check.proved(model, view.rows).kernel
    teacher = _teach(tree, model, consistency)
    out = vocabulary.head(model)
    found = np.full(len(tree.token), np.nan, dtype=np.float32)
    for row in view.rows:
        part = layout(tree, row, limit=model.max_positions)
        pairs = _matched(teacher.target, part.edges)
        if len(pairs.edge) == 0:
            continue
        student = attention.hidden_states(model, part, kernel)
        student = student[_index(part.edges.query[pairs.edge], model)]
        taught = teacher.hidden[_index(pairs.taught, model)]
        for chunk in out.chunks(len(pairs.edge)):
            kl = _kl(out, taught[chunk], student[chunk], top)
            found[part.edges.target[pairs.edge[chunk]]] = kl.float().cpu().numpy()
    targets = np.flatnonzero(~np.isnan(found))
    label = FULL if top is None else f"lower bound of {FULL}: top {top} tokens and one bucket"
    return Consistency(targets, found[targets], label)


def _losses(
    tree: EvictionTree,
    view: View,
    model: Model,
    teacher: _Teacher,
    how: tuple[float, str, Factor | None],
) -> Iterator[RowLoss]:
    strength, kernel, factor = how
    targets = max(1, int(np.count_nonzero(view.multiplicity)))

    def run(part: Layout, again: bool) -> Made:
        out = vocabulary.head(model)
        hidden = attention.hidden_states(model, part, kernel, recompute=again)
        hidden = hidden[_index(part.edges.query, model)]
        loss = edge_loss(tree, part, model, hidden=hidden, out=out, factor=factor)
        total = loss.new_zeros(())
        pairs = _matched(teacher.target, part.edges)
        student = hidden[_index(pairs.edge, model)]
        taught = teacher.hidden[_index(pairs.taught, model)]
        with memory_errors(model, len(part.ids)):
            for c in out.chunks(len(pairs.edge)):
                kl = checkpoint(_summed_kl, out, taught[c], student[c], use_reentrant=False)
                loss = loss + strength * kl
                total += kl.detach()
        return Made(loss / targets, total)

    grouped = check.grouped(model, view.rows, kernel=kernel, train=True)
    for group in grouped.groups:
        part = joined([layout(tree, row, limit=model.max_positions) for row in group])
        parts = [] if part is None else partition.fitting_parts(model, part, train=True)
        for found in row_loss.row_losses(parts, model, run):
            found.add(grouped.notes)
            yield found


class _Matched(NamedTuple):
    edge: Longs
    """Edges of the student's row whose target is taught."""
    taught: Longs
    """Index of each of them in the teacher's targets."""


def _matched(taught: Longs, edges: Edges) -> _Matched:
    edge = np.flatnonzero(np.isin(edges.target, taught))
    return _Matched(edge, np.searchsorted(taught, edges.target[edge]))


@torch.no_grad()
def _teach(tree: EvictionTree, model: Model, targets: Longs) -> _Teacher:
    """Final hidden states in the true contexts; no node that these targets do not see is run."""
    cached = tree.keeps_entries
    method = "union_mask" if cached else choose_exact(tree, model).method
    rows = [_narrowed(row, targets) for row in build_view(tree, method).rows]
    kernel = check.proved(model, rows).kernel
    # Under a kept cache a token's state depends on what has left since: nothing can be spared.
    keep = np.full(tree.size, cached)
    for node in np.unique(tree.query[targets]):
        keep[tree.path(int(node))] = True

    def run(part: Layout) -> torch.Tensor:
        hidden = attention.hidden_states(model, part, kernel)
        return hidden[_index(part.edges.query, model)]

    def laid_out(row: Row) -> Layout:
        kept = keep[row.nodes] if row.mask != "causal" else None
        return layout(tree, row, limit=model.max_positions, keep=kept)

    found: list[torch.Tensor] = []
    taught: list[Longs] = []
    for group in check.grouped(model, rows, kernel=kernel, train=False).groups:
        whole = joined([laid_out(row) for row in group])
        for fitted in partition.fitting([] if whole is None else [whole], model, run):
            found.append(fitted.result)
            taught.append(fitted.part.edges.target)
    if not found:
        width = vocabulary.head(model).weight.shape[1]
        return _Teacher(np.empty(0, dtype=np.int64), torch.empty(0, width, device=model.device))
    target = np.concatenate(taught)
    order = np.argsort(target)
    return _Teacher(target[order], torch.cat(found)[_index(order, model)])


def _narrowed(row: Row, targets: Longs) -> Row:
    """The row with the edges of some targets only."""
    kept = np.isin(row.edges.target, targets)
    query, target, weight = row.edges
    return replace(row, edges=Edges(query[kept], target[kept], weight[kept]))


def _index(places: Longs, model: Model) -> torch.Tensor:
    return torch.from_numpy(places).to(model.device)


def _summed_kl(out: Head, teacher: torch.Tensor, student: torch.Tensor) -> torch.Tensor:
    """Recomputed in the backward pass, so that no logits are kept."""
    return _kl(out, teacher, student, None).sum()


def _kl(out: Head, teacher: torch.Tensor, student: torch.Tensor, top: int | None) -> torch.Tensor:
    """(E,): KL(teacher || student) in nats; no gradient reaches the teacher's side."""
    with torch.no_grad():
        # The head belongs to the weights as well: its use by the teacher is held back too.
        log_p = out.log_softmax(teacher).clamp_min(-1e30)
    log_q = out.log_softmax(student).clamp_min(-1e30)
    if top is not None:
        log_p, log_q = _bucketed(log_p, log_q, top)
    return (log_p.exp() * (log_p - log_q)).sum(1)


def _bucketed(
    log_p: torch.Tensor, log_q: torch.Tensor, top: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both distributions over the first one's `top` tokens and one bucket for all others."""
    best = log_p.topk(min(top, log_p.shape[1] - 1), dim=1).indices
    rest = torch.ones_like(log_p, dtype=torch.bool).scatter(1, best, value=False)
    both = []
    for side in (log_p, log_q):
        tail = side.masked_fill(~rest, -1e30).logsumexp(1, keepdim=True)
        both.append(torch.cat((side.gather(1, best), tail), dim=1))
    return both[0], both[1]
