"""Cuts a row to what a model can hold: its tokens, positions, intervals and loss edges.

Letters: T tokens of a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mwviz.engine.model import Model
from mwviz.tree import EvictionTree
from mwviz.trie import Longs
from mwviz.views.view import Edges, Row


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A row as the model is fed it, cut to the contexts the model can hold."""

    ids: npt.NDArray[np.int32]
    """int32 (T,)."""
    positions: Longs
    """int64 (T,): position ids."""
    visible_until: Longs | None
    """int64 (T,): key k is seen by the queries `k <= q < visible_until[k]`; None if causal."""
    edges: Edges
    """Loss terms with positive weight whose query is in the row."""
    cut: Longs
    """int64: targets left out because their context exceeds the model's limit."""


def layout(
    tree: EvictionTree, row: Row, *, limit: int | None, keep: npt.NDArray[np.bool_] | None = None
) -> Layout:
    """The row without what does not fit.

    Args:
        tree: The tree the row indexes.
        row: What to feed.
        limit: Longest context in tokens; None if there is none.
        keep: bool (T,): positions of a `tree` row to run, closed under ancestors; None runs all.
    """
    positions = row.positions
    fits = np.ones(row.size, dtype=bool) if limit is None else positions < limit
    if row.mask in {"causal", "alive"}:
        fits = np.logical_and.accumulate(fits)
    kept = fits if keep is None else fits & keep
    trained = row.edges.weight > 0
    edges = Edges(row.edges.query[trained], row.edges.target[trained], row.edges.weight[trained])
    if kept.all():
        until = None if row.mask == "causal" else row.visible_until
        return Layout(row.token_ids(tree), positions, until, edges, cut=edges.target[:0])
    query, target, weight = edges
    held = kept[query]
    index = np.cumsum(kept)
    visible_until = None
    if row.mask != "causal":
        before = np.concatenate(([0], index))
        visible_until = before[row.visible_until][kept]
    return Layout(
        ids=row.token_ids(tree)[kept],
        positions=positions[kept],
        visible_until=visible_until,
        edges=Edges(index[query[held]] - 1, target[held], weight[held]),
        cut=target[~fits[query]],
    )


def kept(part: Layout, keep: npt.NDArray[np.bool_], *, trained: npt.NDArray[np.bool_]) -> Layout:
    """Some tokens of a row with an explicit mask.

    Args:
        part: the row.
        keep: bool (T,): tokens to run, closed under ancestors.
        trained: bool (T,): queries whose loss terms stay.
    """
    assert part.visible_until is not None
    index = np.cumsum(keep)
    query, target, weight = part.edges
    held = trained[query]
    return Layout(
        ids=part.ids[keep],
        positions=part.positions[keep],
        visible_until=np.concatenate(([0], index))[part.visible_until][keep],
        edges=Edges(index[query[held]] - 1, target[held], weight[held]),
        cut=part.cut,
    )


def slides(model: Model, part: Layout) -> bool:
    """Whether some context of the row is longer than what a sliding layer sees."""
    window = model.capability.window
    return window is not None and int(part.positions.max(initial=0)) >= window
