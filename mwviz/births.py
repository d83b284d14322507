"""The birth axis: distinct tokens in order of appearance, cut where contexts and rows are.

Letters: U distinct tokens, A atoms. An atom is a stretch of the axis that no context, row or
junction splits, so it is present or absent as a whole, and in one piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mwviz.errors import ViewError
from mwviz.tree import EvictionTree
from mwviz.trie import Longs, expand
from mwviz.views.cache import held_rows
from mwviz.views.view import Row, View

NEVER = int(np.iinfo(np.int64).max)
"""A position or depth that nothing reaches."""


class Cache(NamedTuple):
    """What one cache of kept entries held, in tokens that it ever held."""

    place: Longs
    """int64 (A,): place in it of each atom's first token, -1 if it never held the atom."""
    alive_until: Longs
    """int64 (A,): place from which on it had left; -1 if it was never held."""


class Placed(NamedTuple):
    """Atoms that a context or row shows, with the place of each one's first token."""

    atom: Longs
    """int64: atoms in the order in which they are shown."""
    before: Longs
    """int64: how many tokens of the context or row stand before it."""
    position: Longs
    """int64: position id of its first token."""
    run: Longs
    """int64: which of the stretches shows it."""


@dataclass(frozen=True, slots=True, eq=False)
class BirthAxis:
    """The birth axis of one tree, cut finely enough for one view."""

    tree: EvictionTree
    length: Longs
    """int64 (S,): tokens of the tree's segments."""
    rank: Longs
    """int64 (N,): place on the axis of every node's origin."""
    cut: Longs
    """int64 (A + 1,): where atoms start; the last entry is U."""
    kept: Longs
    """int64 (C,): smallest branch depth of the lineage's junctions after each call.

    A context's tokens from there on were later removed or moved; `NEVER` if there are none.
    """
    piece_node: Longs
    """int64: first node of every stretch of nodes that shows one whole atom."""
    piece_atom: Longs
    """int64: the atom that each of them shows."""
    caches: tuple[Cache, ...] | None
    """What each cache held (`EvictionTree.cache`), where entries are kept: their positions and what
    they saw are then the truth. None where contexts are encoded anew, or no cache could have held
    them."""

    @property
    def size(self) -> Longs:
        """int64 (A,): tokens of each atom."""
        return np.diff(self.cut)

    def place(self, first_node: Longs, length: Longs, position: Longs) -> Placed:
        """The atoms shown by consecutive stretches of nodes of the tree.

        Args:
            first_node: int64 (K,): first node of each stretch.
            length: int64 (K,): its tokens.
            position: int64 (K,): position id of its first token.
        """
        first = np.searchsorted(self.piece_node, first_node)
        count = np.searchsorted(self.piece_node, first_node + length) - first
        count[first_node < 0] = 0
        pieces = expand(first, count)
        within = self.piece_node[pieces] - np.repeat(first_node, count)
        before = np.cumsum(length) - length
        return Placed(
            self.piece_atom[pieces],
            np.repeat(before, count) + within,
            np.repeat(position, count) + within,
            np.repeat(np.arange(len(count)), count),
        )

    def context(self, segments: Longs) -> Placed:
        """The atoms of a call's context, whose index and position are the same."""
        tree = self.tree
        return self.place(tree.start[segments], self.length[segments], tree.depth[segments])

    def contexts(self) -> Iterator[Placed]:
        """The atoms of every call's context, in call order; one that goes on is not made anew."""
        path = np.empty(0, dtype=np.int64)
        placed = self.context(path)
        for segments in self.tree.call_paths():
            if np.array_equal(segments[: len(path)], path):
                new = self.context(segments[len(path) :])
                new = new._replace(before=new.position, run=new.run + len(path))
                placed = Placed(*map(np.concatenate, zip(placed, new, strict=True)))
            else:
                placed = self.context(segments)
            path = segments
            yield placed

    def row(self, row: Row) -> Placed:
        """The atoms that a row shows, in the row's order and positions."""
        return self.place(row.first_node, row.length, row.first_position)


def cut_birth_axis(tree: EvictionTree, view: View) -> BirthAxis:
    """The birth axis, cut wherever a context, a completion, a junction or a row of a view ends."""
    birth, size = tree.birth, tree.size
    rank_of_owner = np.empty(size, dtype=np.int64)
    rank_of_owner[birth] = np.arange(len(birth))
    rank = rank_of_owner[tree.origin]
    kept = _kept_by_later_junctions(tree)

    border = np.zeros(size + 1, dtype=bool)
    border[:-1] = np.diff(rank, prepend=-2) != 1
    border[tree.start] = True
    border[_call_borders(tree, kept)] = True
    for row in view.rows:
        aligned = row.first_node >= 0
        border[row.first_node[aligned]] = True
        border[(row.first_node + row.length)[aligned]] = True

    inner = np.flatnonzero(border[:size])
    is_cut = np.zeros(len(birth) + 1, dtype=bool)
    is_cut[rank[inner]] = True
    is_cut[rank[inner[1:] - 1] + 1] = True
    is_cut[[0, -1]] = True
    held = kept_rows(tree)
    places = [rank[row.nodes] for row in held or ()]
    for row, ranks in zip(held or (), places, strict=True):
        is_cut[ranks[row.first_position]] = True
        is_cut[ranks[row.first_position + row.length - 1] + 1] = True
        is_cut[ranks[row.until[row.until < row.size]]] = True
    pieces = np.flatnonzero(border[:size] | is_cut[rank])
    cut = np.flatnonzero(is_cut)
    shown = np.searchsorted(cut, rank[pieces])
    caches = None
    if held is not None:
        size = len(birth)
        caches = tuple(
            _cache(row, ranks, cut[:-1], size) for row, ranks in zip(held, places, strict=True)
        )
    return BirthAxis(tree, tree.length, rank, cut, kept, pieces, shown, caches)


def _cache(row: Row, ranks: Longs, first: Longs, size: int) -> Cache:
    """A cache's row in atoms.

    Args:
        row: every token that it ever held, in the order of their places.
        ranks: int64 (T,): place of each on the birth axis.
        first: int64 (A,): place on the birth axis of each atom's first token.
        size: tokens of the birth axis.
    """
    place, until = np.full(size, -1, dtype=np.int64), np.full(size, -1, dtype=np.int64)
    place[ranks], until[ranks] = np.arange(row.size), row.visible_until
    return Cache(place[first], until[first])


def kept_rows(tree: EvictionTree) -> tuple[Row, ...] | None:
    """The row of every cache that shows each entry as it was held.

    None where nothing was kept, or no row can show it.
    """
    if not tree.keeps_entries:
        return None
    try:
        return held_rows(tree)
    except ViewError:
        return None


def _call_borders(tree: EvictionTree, kept: Longs) -> Longs:
    """Nodes at which a completion starts, or what a later junction removed."""
    lengths = tree.context_length
    nodes: list[int] = []
    for call, segments in enumerate(tree.call_paths()):
        for at in (tree.prompt_length[call], kept[call]):
            if at < lengths[call]:
                last = segments[np.searchsorted(tree.depth[segments], at, side="right") - 1]
                nodes.append(int(tree.start[last] + at - tree.depth[last]))
    return np.array(nodes, dtype=np.int64)


def _kept_by_later_junctions(tree: EvictionTree) -> Longs:
    kept = np.full(len(tree.tip), NEVER, dtype=np.int64)
    depth, broken = tree.kept, set(tree.junction_calls.tolist())
    previous = tree.previous
    for call in range(len(tree.tip) - 1, -1, -1):
        before = previous[call]
        if before >= 0:
            own = depth[call] if call in broken else NEVER
            kept[before] = min(kept[call], own)
    return kept
