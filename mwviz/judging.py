"""The class of every key for every target of a view, in blocks: the rules of the theory, section 4.

A block is the targets of one call that stand in one atom of the birth axis and in one stretch of a
row. What they see of any other atom is the same, so a class a key atom says it all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mwviz.births import BirthAxis, Cache, Placed
from mwviz.shown import Group, ShownRow, groups_of, stops, without_firsts
from mwviz.tainting import Bools, parted, saw_another_cache, tainted_in_context
from mwviz.tree import EvictionTree
from mwviz.trie import Longs
from mwviz.views.view import View

CLASSES = ("agree", "future", "erased", "stale", "foreign", "lost")
FLAGS = ("shifted", "duplicate", "tainted")
"""Marks on pairs; `shifted` and `tainted` ones are also counted in `agree`."""
COUNTED = CLASSES + FLAGS
AGREE, FUTURE, ERASED, STALE, FOREIGN, LOST = range(len(CLASSES))
SHIFTED, DUPLICATE, TAINTED = (COUNTED.index(flag) for flag in FLAGS)


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
    repeats: Longs
    """int64 (K,): further times that the row shows an agreeing atom."""
    tainted: Bools
    """bool (K,): agreeing atoms whose own keys, or those of a key they saw, are not true."""
    own_tainted: bool
    """Whether the earlier tokens of the targets' own atom are tainted."""
    start: int
    """True position of the targets' atom."""
    true: bool = False
    """Whether the keys are just the true context, each at its place and untainted."""


def blocks(axis: BirthAxis, view: View) -> Iterator[Block]:
    """Every target of a view, once for each edge, in blocks with one class a key atom."""
    tree = axis.tree
    judge = _Judge(axis)
    work = _edges_by_call(tree, view)
    last = {index: call for call, edges in sorted(work.items()) for index, _, _ in edges}
    shown: dict[int, ShownRow] = {}
    for call, context in enumerate(axis.contexts()):
        judge.meet(call, context)
        for index, query, target in work.get(call, ()):
            if index not in shown:
                shown[index] = ShownRow(axis, view.rows[index])
            groups = groups_of(axis, view.rows[index], query, target)
            yield from judge.classify(call, context, shown[index], groups)
            if last[index] == call:
                del shown[index]


def _edges_by_call(tree: EvictionTree, view: View) -> dict[int, list[tuple[int, Longs, Longs]]]:
    """Per call: (row, queries, targets) of the edges that train it, targets ascending."""
    work: dict[int, list[tuple[int, Longs, Longs]]] = {}
    for index, row in enumerate(view.rows):
        order = np.lexsort((row.edges.query, row.edges.target))
        query, target = row.edges.query[order], row.edges.target[order]
        calls = tree.call[target]
        first = np.flatnonzero(np.diff(calls, prepend=-1))
        for start, stop in zip(first, stops(first, target), strict=True):
            part = slice(start, stop)
            work.setdefault(int(calls[start]), []).append((index, query[part], target[part]))
    return work


class _Judge:
    """Decides the class of every key atom for a group of targets."""

    def __init__(self, axis: BirthAxis) -> None:
        atoms = len(axis.cut) - 1
        self.axis = axis
        self.size = axis.size
        self.true_at = np.full(atoms, -1, dtype=np.int64)
        self.in_view = np.zeros(atoms, dtype=bool)
        self.met = np.zeros((len(axis.tree.lineages), atoms), dtype=bool)

    def meet(self, call: int, context: Placed) -> None:
        """Note that a call's lineage has now seen what is in its context."""
        self.met[self.axis.tree.lineage[call], context.atom] = True

    def classify(
        self, call: int, context: Placed, shown: ShownRow, groups: Iterator[Group]
    ) -> Iterator[Block]:
        """The groups of one call in one row, with the class of every key.

        Args:
            call: the call that sampled the targets.
            context: its true context.
            shown: what the row shows.
            groups: its targets in the row.
        """
        self.true_at[context.atom] = context.position
        for group in groups if self.axis.caches is None else without_firsts(groups):
            yield self._block(call, context, shown, group)
        self.true_at[context.atom] = -1

    def _block(self, call: int, context: Placed, shown: ShownRow, group: Group) -> Block:
        lineage = int(self.axis.tree.lineage[call])
        which = int(self.axis.tree.cache[call])
        cache = None if self.axis.caches is None else self.axis.caches[which]
        placed = shown.placed
        seen = shown.seen(group.query, group.atom, group.before)
        atom = placed.atom[seen]
        start = int(self.true_at[group.atom])
        if self._true(context, shown, seen, group):
            none, sound = np.zeros(len(atom), dtype=np.int64), np.zeros(len(atom), dtype=bool)
            at = context.position[: len(atom)]
            return Block(
                group.targets, group.offset, atom, at, none, none, none, sound, False, start, True
            )
        true_at = self.true_at[atom]
        agree = (true_at >= 0) & (true_at < start)
        distance = start - true_at
        if cache is not None:
            distance = self._place_in_cache(cache, context, group, start) - cache.place[atom]
        apart = np.where(agree, group.position - placed.position[seen] - distance, 0)
        known = np.where(self.met[lineage, atom], STALE, FOREIGN)
        other = np.where(atom > group.atom, FUTURE, known)
        missing, repeated = self._missing(context, atom, start)
        gone = self.true_at[missing] >= self.axis.kept[call]
        tainted, own_tainted = self._tainted(which, context, shown, seen, group)
        block = Block(
            group.targets,
            group.offset,
            np.concatenate((atom, missing)),
            np.concatenate((np.where(agree, true_at, -1), self.true_at[missing])),
            np.concatenate((apart, np.zeros(len(missing), dtype=np.int64))),
            np.concatenate((np.where(agree, AGREE, other), np.where(gone, ERASED, LOST))),
            np.zeros(len(atom) + len(missing), dtype=np.int64),
            np.concatenate((tainted & agree, np.zeros(len(missing), dtype=bool))),
            own_tainted,
            start,
        )
        return _merged(block) if repeated else block

    def _true(self, context: Placed, shown: ShownRow, seen: Longs, group: Group) -> bool:
        """Whether what is seen is all of the true context at its distances, encoded anew."""
        size = len(seen)
        if self.axis.caches is not None or not shown.nested:
            return False
        if size >= len(context.atom) or context.atom[size] != group.atom:
            return False
        placed = shown.placed
        whole = size and seen[-1] == size - 1
        seen_at = placed.position[:size] if whole else placed.position[seen]
        atom = placed.atom[:size] if whole else placed.atom[seen]
        shift = group.position - context.position[size]
        return np.array_equal(atom, context.atom[:size]) and np.array_equal(
            seen_at, context.position[:size] + shift if shift else context.position[:size]
        )

    def _place_in_cache(self, cache: Cache, context: Placed, group: Group, start: int) -> int:
        """True position of the atom's first token, seen from the token that predicts the group."""
        before = int(np.searchsorted(context.position, start))
        if group.offset[0] or not before:
            return int(cache.place[group.atom])
        last = context.atom[before - 1]
        return int(cache.place[last] + self.size[last])

    def _missing(self, context: Placed, atom: Longs, start: int) -> tuple[Longs, bool]:
        """True atoms that the row does not show, and whether it shows any atom twice."""
        self.in_view[atom] = True
        true = context.atom[: np.searchsorted(context.position, start)]
        missing = true[~self.in_view[true]]
        repeated = int(np.count_nonzero(self.in_view)) < len(atom)
        self.in_view[atom] = False
        return missing, repeated

    def _tainted(
        self, which: int, context: Placed, shown: ShownRow, seen: Longs, group: Group
    ) -> tuple[Bools, bool]:
        """Which seen atoms were computed from other keys than the true ones, and the own atom."""
        start = int(self.true_at[group.atom])
        if self.axis.caches is None and shown.nested:
            true = int(np.searchsorted(context.position, start)) + 1
            first = parted(
                np.append(shown.placed.atom[seen], group.atom),
                np.append(shown.placed.position[seen], group.position),
                context.atom[:true],
                context.position[:true],
            )
            return self.true_at[shown.placed.atom[seen]] >= first, start >= first
        if self.axis.caches is None:
            tainted = tainted_in_context(shown.keys(group), self.true_at, self.size)
            return tainted[seen], bool(tainted[-1])
        if shown.as_held:
            return np.zeros(len(seen), dtype=bool), False
        cache, keys = self.axis.caches[which], shown.keys(group)
        own = len(keys.atom) - 1
        tainted = shown.in_cache(which, cache)
        return tainted[seen], saw_another_cache(keys, own, cache, tainted[:own])


def _merged(block: Block) -> Block:
    """Atoms that a row shows several times as one: the showing nearest its true distance."""
    order = np.lexsort((np.abs(block.apart), block.keys))
    keys, first, count = np.unique(block.keys[order], return_index=True, return_counts=True)
    chosen = order[first]
    agree = block.kind[chosen] == AGREE
    return block._replace(
        keys=keys,
        true_at=block.true_at[chosen],
        apart=block.apart[chosen],
        kind=block.kind[chosen],
        repeats=np.where(agree, count - 1, 0),
        tainted=block.tainted[chosen],
    )
