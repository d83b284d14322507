"""Who sees what: every (target, key) pair of a view by class, exactly, without an N x N array.

Classes and flags are those of the theory, section 4. All counts are integers: classes are constant
on blocks of one target atom by one key atom, except a block's own diagonal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mwviz.births import NEVER, BirthAxis, Placed, cut_birth_axis
from mwviz.tree import EvictionTree
from mwviz.trie import Longs
from mwviz.views.view import Row, View

CLASSES = ("agree", "future", "erased", "stale", "foreign", "lost")
FLAGS = ("shifted", "duplicate", "tainted")
"""Marks on pairs; `shifted` and `tainted` ones are also counted in `agree`."""
COUNTED = CLASSES + FLAGS

AGREE, FUTURE, ERASED, STALE, FOREIGN, LOST = range(len(CLASSES))
SHIFTED, DUPLICATE, TAINTED = (COUNTED.index(flag) for flag in FLAGS)

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pair counts of one view, over the targets it covers. M targets."""

    counts: Counts
    """int64 (M, len(COUNTED)): keys of each class per target; 0 where not covered."""
    diverging: npt.NDArray[np.bool_]
    """bool (M,): True where the ordered (origin, distance) list differs from the truth."""

    @property
    def totals(self) -> dict[str, int]:
        """Pairs of each class over all covered targets."""
        return dict(zip(COUNTED, self.counts.sum(axis=0).tolist(), strict=True))

    def of(self, name: str) -> Counts:
        """int64 (M,): keys of one class or flag per target."""
        return self.counts[:, COUNTED.index(name)]


class KeySpan(NamedTuple):
    """Consecutive keys of one class for one target."""

    name: str
    """The pair class."""
    first_node: int
    """Node at which the first of them was born."""
    tokens: int
    tokens_apart: int | None
    """Distance to the target in the view minus the true one; None where only one exists."""


class Block(NamedTuple):
    """Targets of one call that stand in one atom of one row, and the keys around them. K keys."""

    targets: Longs
    """int64: consecutive targets of the call."""
    offset: Longs
    """int64: index of each target within its atom; it sees the atom's earlier tokens as `agree`."""
    keys: Longs
    """int64 (K,): other atoms that the true context or the row shows before the targets."""
    true_at: Longs
    """int64 (K,): true position of each atom, -1 if the targets' context lacks it."""
    apart: Longs
    """int64 (K,): distance in the view minus true distance; 0 where only one exists."""
    kind: Longs
    """int64 (K,): index into `CLASSES`."""
    start: int
    """True position of the targets' atom."""
    parted: int
    """First true position at which the row's sequence parts from the context's."""


def count_pairs(tree: EvictionTree, view: View) -> Pairs:
    """All pairs of the targets that a view covers, by class."""
    axis = cut_birth_axis(tree, view)
    size = axis.size
    counts = np.zeros((view.targets, len(COUNTED)), dtype=np.int64)
    for block in blocks(axis, view):
        weight, agree = size[block.keys], block.kind == AGREE
        row = np.bincount(block.kind, weights=weight, minlength=len(COUNTED)).astype(np.int64)
        row[SHIFTED] = weight[agree & (block.apart != 0)].sum()
        row[TAINTED] = weight[agree & (block.true_at >= block.parted)].sum()
        counts[block.targets] = row
        own_tainted = block.start + block.offset - max(block.parted, block.start)
        counts[block.targets, AGREE] += block.offset
        counts[block.targets, TAINTED] += np.clip(own_tainted, 0, block.offset)
    parting = counts[:, [*range(FUTURE, len(CLASSES)), SHIFTED]]
    return Pairs(counts, (parting > 0).sum(axis=1) > 0)


def blocks(axis: BirthAxis, view: View) -> Iterator[Block]:
    """Every target of a view, once for each edge, in blocks with one class a key atom."""
    tree = axis.tree
    judge = _Judge(axis)
    work = _edges_by_call(tree, view)
    shown: dict[int, Placed] = {}
    for call, segments in enumerate(tree.call_paths()):
        context = axis.context(segments)
        judge.meet(call, context)
        for index, query, target in work.get(call, ()):
            row = view.rows[index]
            if row.mask == "tree":
                seen = axis.seen_by(row, segments)
            else:
                seen = shown[index] if index in shown else axis.seen_by(row, segments)
                shown[index] = seen
            groups = _groups(axis, row, query, target)
            yield from judge.classify(call, context, seen, groups)


def _edges_by_call(tree: EvictionTree, view: View) -> dict[int, list[tuple[int, Longs, Longs]]]:
    """Per call: (row, queries, targets) of the edges that train it, targets ascending."""
    work: dict[int, list[tuple[int, Longs, Longs]]] = {}
    for index, row in enumerate(view.rows):
        order = np.argsort(row.edges.target, kind="stable")
        query, target = row.edges.query[order], row.edges.target[order]
        calls, first = np.unique(tree.call[target], return_index=True)
        for call, start, stop in zip(calls, first, _stops(first, target), strict=True):
            part = slice(start, stop)
            work.setdefault(int(call), []).append((index, query[part], target[part]))
    return work


def _stops(first: Longs, items: Longs) -> Longs:
    """End of every group of items, from where each starts."""
    return np.append(first, len(items))[1:]


class _Group(NamedTuple):
    """Targets whose place in the row follows from where their atom starts there."""

    targets: Longs
    offset: Longs
    atom: int
    before: int
    """Tokens of the row before the atom."""
    position: int
    """Position id of the atom's first token in the row."""


def _groups(axis: BirthAxis, row: Row, query: Longs, target: Longs) -> Iterator[_Group]:
    rank = axis.rank[axis.tree.token[target]]
    atom = np.searchsorted(axis.cut, rank, side="right") - 1
    offset = rank - axis.cut[atom]
    if row.mask == "causal":
        starts = np.cumsum(row.length) - row.length
        run = np.searchsorted(starts, query, side="right") - 1
        index, within = query, query - starts[run]
    else:
        run = axis.tree.segment_of(query)
        index, within = axis.tree.position_of(query), query - axis.tree.start[run]
    anchor = index + 1 - offset
    position = row.first_position[run] + within + 1 - offset
    fresh = np.diff(atom, prepend=-1) != 0
    fresh[1:] |= (np.diff(anchor) != 0) | (np.diff(position) != 0)
    first = np.flatnonzero(fresh)
    for start, stop in zip(first, _stops(first, target), strict=True):
        yield _Group(
            target[start:stop],
            offset[start:stop],
            int(atom[start]),
            int(anchor[start]),
            int(position[start]),
        )


class _Judge:
    """Decides the class of every key atom for a group of targets."""

    def __init__(self, axis: BirthAxis) -> None:
        atoms = len(axis.cut) - 1
        self.axis = axis
        self.true_at = np.full(atoms, -1, dtype=np.int64)
        self.before = np.full(atoms, -1, dtype=np.int64)
        self.position = np.zeros(atoms, dtype=np.int64)
        self.met = np.zeros((len(axis.tree.lineages), atoms), dtype=bool)

    def meet(self, call: int, context: Placed) -> None:
        """Note that a call's lineage has now seen what is in its context."""
        self.met[self.axis.tree.lineage[call], context.atom] = True

    def classify(
        self, call: int, context: Placed, shown: Placed, groups: Iterator[_Group]
    ) -> Iterator[Block]:
        """The groups of one call in one row, with the class of every key.

        Args:
            call: the call that sampled the targets.
            context: its true context.
            shown: what the row shows.
            groups: its targets in the row.
        """
        self.true_at[context.atom] = context.position
        self.before[shown.atom], self.position[shown.atom] = shown.before, shown.position
        keys = np.union1d(context.atom, shown.atom)
        true_at, before, position = self.true_at[keys], self.before[keys], self.position[keys]
        met = self.met[self.axis.tree.lineage[call], keys]
        parted = _parted(context, shown)
        for group in groups:
            start = int(self.true_at[group.atom])
            in_truth = (true_at >= 0) & (true_at < start)
            in_view = (before >= 0) & (before < group.before)
            younger = keys > group.atom
            gone = true_at >= self.axis.kept[call]
            kind = np.select(
                [in_view & in_truth, in_view & younger, in_view & met, in_view, gone],
                [AGREE, FUTURE, STALE, FOREIGN, ERASED],
                LOST,
            )
            apart = (group.position - position) - (start - true_at)
            used = in_view | in_truth
            yield Block(
                group.targets,
                group.offset,
                keys[used],
                np.where(in_truth, true_at, -1)[used],
                np.where(in_view & in_truth, apart, 0)[used],
                kind[used],
                start,
                parted,
            )
        self.true_at[context.atom] = -1
        self.before[shown.atom] = -1


def _parted(context: Placed, shown: Placed) -> int:
    """First true position at which a row's sequence differs, by token or by distance."""
    size = min(len(context.atom), len(shown.atom))
    drift = shown.position[:size] - context.position[:size]
    differs = (context.atom[:size] != shown.atom[:size]) | (drift != drift[:1])
    if differs.any():
        return int(context.position[differs.argmax()])
    return int(context.position[size]) if size < len(context.atom) else NEVER
