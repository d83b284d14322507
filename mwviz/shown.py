"""What a row shows, in atoms of the birth axis, and the targets in it that see alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mwviz.births import NEVER, BirthAxis, Cache, Placed
from mwviz.tainting import Bools, Keys, tainted_in_cache
from mwviz.trie import Longs
from mwviz.views.view import Row


def stops(first: Longs, items: Longs) -> Longs:
    """End of every group of items, from where each starts."""
    return np.append(first, len(items))[1:]


class ShownRow:
    """A row as atoms, with the queries that see each of them."""

    def __init__(self, axis: BirthAxis, row: Row) -> None:
        self.placed: Placed = axis.place(row.first_node, row.length, row.first_position)
        self.until: Longs = row.until[self.placed.run]
        self.prefix_only = row.mask == "causal"
        self.nested = row.mask != "alive"
        """Whether a key saw nothing that a later query, seeing the key, does not see."""
        self.as_held = row.mask == "alive" and row.ids is None
        """Whether it shows each entry as a cache held it, so that none can be tainted there."""
        self._in_cache: dict[int, Bools] = {}

    def seen(self, query: int, atom: int, before: int) -> Longs:
        """int64: what a query sees, as indices of `placed`, but for the target's own atom."""
        placed = self.placed
        last = int(np.searchsorted(placed.before, query, side="right"))
        seen = np.arange(last)
        if not self.prefix_only:
            seen = seen[self.until[:last] > query]
        own = (placed.before[seen] == before) & (placed.atom[seen] == atom)
        return seen[~own] if own.any() else seen

    def in_cache(self, which: int, cache: Cache) -> Bools:
        """Bool: of every atom of the row, whether it saw another cache than a certain one."""
        if which not in self._in_cache:
            placed = self.placed
            keys = Keys(placed.before, self.until, placed.atom, placed.position)
            self._in_cache[which] = tainted_in_cache(keys, cache)
        return self._in_cache[which]

    def keys(self, group: Group) -> Keys:
        """All atoms up to a group's query, and its own atom last."""
        placed = self.placed
        last = int(np.searchsorted(placed.before, group.query, side="right"))
        return Keys(
            np.append(placed.before[:last], group.before),
            np.append(self.until[:last], NEVER),
            np.append(placed.atom[:last], group.atom),
            np.append(placed.position[:last], group.position),
        )


class Group(NamedTuple):
    """Targets whose place in the row follows from where their atom starts there."""

    targets: Longs
    offset: Longs
    atom: int
    query: int
    """Row index of the first target's query."""
    before: int
    """Tokens of the row before the atom."""
    position: int
    """Position id of the atom's first token in the row."""


def groups_of(axis: BirthAxis, row: Row, query: Longs, target: Longs) -> Iterator[Group]:
    """Some edges of a row, cut where atoms and stretches of the row end.

    Args:
        axis: the atoms.
        row: whose edges.
        query: int64: index into the row of each edge's query.
        target: int64: what each predicts, ascending.
    """
    rank = axis.rank[axis.tree.token[target]]
    atom = np.searchsorted(axis.cut, rank, side="right") - 1
    offset = rank - axis.cut[atom]
    starts = np.cumsum(row.length) - row.length
    run = np.searchsorted(starts, query, side="right") - 1
    before = query + 1 - offset
    position = row.first_position[run] + query - starts[run] + 1 - offset
    fresh = np.diff(atom, prepend=-1) != 0
    fresh[1:] |= (np.diff(before) != 0) | (np.diff(position) != 0) | (np.diff(offset) != 1)
    first = np.flatnonzero(fresh)
    for start, stop in zip(first, stops(first, target), strict=True):
        yield Group(
            target[start:stop],
            offset[start:stop],
            int(atom[start]),
            int(query[start]),
            int(before[start]),
            int(position[start]),
        )


def without_firsts(groups: Iterator[Group]) -> Iterator[Group]:
    """The groups with each atom's first token apart: another atom's token predicts it."""
    for group in groups:
        if group.offset[0] == 0 and len(group.targets) > 1:
            yield group._replace(targets=group.targets[:1], offset=group.offset[:1])
            query = group.query + 1
            yield group._replace(targets=group.targets[1:], offset=group.offset[1:], query=query)
        else:
            yield group
