"""Cuts a row to what a model can hold: its tokens, positions, intervals and loss edges.

Causal rows may be joined: they then stand one behind the other, each a line of a batch. Letters: T
tokens of a row, or of all lines; B lines.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    lines: Longs | None = None
    """int64 (B,): first token of each of several causal rows, which do not see one another; None
    for one row."""

    @property
    def lengths(self) -> Longs:
        """int64 (B,): tokens of each line."""
        first = np.zeros(1, dtype=np.int64) if self.lines is None else self.lines
        return np.diff(first, append=len(self.ids))

    @property
    def longest(self) -> int:
        """Tokens of the longest line."""
        return int(self.lengths.max())

    @property
    def padded(self) -> int:
        """Tokens that are run: every line as long as the longest."""
        return self.longest * len(self.lengths)


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


def joined(parts: Sequence[Layout]) -> Layout | None:
    """The rows that train something as the lines of one batch; None if none does.

    Args:
        parts: rows; causal ones, if they are several.
    """
    parts = [part for part in parts if len(part.edges.target)]
    if len(parts) < 2:  # noqa: PLR2004
        return parts[0] if parts else None
    assert all(part.visible_until is None and part.lines is None for part in parts)
    size = np.array([len(part.ids) for part in parts], dtype=np.int64)
    first = np.cumsum(size) - size
    moved = [part.edges.query + start for part, start in zip(parts, first, strict=True)]
    return Layout(
        ids=np.concatenate([part.ids for part in parts]),
        positions=np.concatenate([part.positions for part in parts]),
        visible_until=None,
        edges=Edges(
            np.concatenate(moved),
            np.concatenate([part.edges.target for part in parts]),
            np.concatenate([part.edges.weight for part in parts]),
        ),
        cut=np.concatenate([part.cut for part in parts]),
        lines=first,
    )


def lines_between(part: Layout, first: int, last: int) -> Layout:
    """Some lines of a batch, the `last` one not among them."""
    assert part.lines is not None
    low, high = np.append(part.lines, len(part.ids))[[first, last]].tolist()
    query, target, weight = part.edges
    held = (query >= low) & (query < high)
    return Layout(
        ids=part.ids[low:high],
        positions=part.positions[low:high],
        visible_until=None,
        edges=Edges(query[held] - low, target[held], weight[held]),
        cut=part.cut,
        lines=part.lines[first:last] - low if last - first > 1 else None,
    )


def slides(model: Model, part: Layout) -> bool:
    """Whether some context of the row is longer than what a sliding layer sees."""
    window = model.capability.window
    return window is not None and int(part.positions.max(initial=0)) >= window
