"""Finds the largest regular pieces of what the tokens of a packed row see.

Most visible pairs are whole rectangles, tokens of a branch against a shared path, or the causal
triangle of a long path. Letters: T tokens of a padded row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mwviz.engine.order import run_starts
from mwviz.trie import Longs

UNIT = 128
"""Pieces start and end on whole blocks."""
SMALLEST = 1 << 22
"""Pairs of a piece from which a kernel of its own pays."""
MOST = 12
"""Pieces of a row; each costs a launch in every layer."""


class Piece(NamedTuple):
    """Queries that all see all of some keys; a causal triangle if both are the same tokens."""

    first_query: int
    last_query: int
    """One past it, like the next."""
    first_key: int
    last_key: int

    @property
    def pairs(self) -> int:
        """How many it holds; an empty one holds none."""
        queries = max(0, self.last_query - self.first_query)
        keys = max(0, self.last_key - self.first_key)
        return queries * (queries + 1) // 2 if self.causal else queries * keys

    @property
    def causal(self) -> bool:
        """Whether a query sees only the keys up to itself."""
        return self.first_query == self.first_key


def largest(visible_until: Longs) -> list[Piece]:
    """Disjoint pieces of what a row sees, the largest first.

    Args:
        visible_until: int64 (T,): of a row in heavy-path order, key k is seen by the queries
            `k <= q < visible_until[k]`.
    """
    found: list[Piece] = []
    starts = run_starts(visible_until).tolist()
    for first, last in paths(visible_until, starts):
        _add(Piece(first, last, first, last), found)
        _staircase(visible_until, (first, last), (last, int(visible_until[first])), found)
    return sorted(found, key=lambda one: -one.pairs)[:MOST]


def paths(until: Longs, starts: list[int]) -> list[tuple[int, int]]:
    """First and one past last token of each heavy path: it goes on while subtrees nest.

    Args:
        until: int64 (T,): ends of visibility of a row in heavy-path order.
        starts: First tokens of the runs of one end.
    """
    found: list[tuple[int, int]] = []
    first = 0
    for start in starts[1:]:
        # The next run goes on below this one unless the one before ended its subtree here.
        if until[start - 1] <= start:
            found.append((first, start))
            first = start
    return [*found, (first, len(until))] if len(until) else []


def _staircase(
    until: Longs, keys: tuple[int, int], queries: tuple[int, int], found: list[Piece]
) -> None:
    """Covers what a path's keys show to queries behind the path: the later a key, the fewer."""
    low, high = keys
    places = np.arange(_up(low), high + 1, UNIT)[1:]
    if not len(places):
        return
    reach = np.minimum(until[places - 1], queries[1])
    areas = (places - low) * np.maximum(reach - queries[0], 0)
    best = int(areas.argmax())
    split, stop = int(places[best]), int(reach[best]) // UNIT * UNIT
    if not _add(Piece(queries[0], stop, low, split), found):
        return
    _staircase(until, (split, high), queries, found)
    _staircase(until, (low, split), (stop, queries[1]), found)


def _add(one: Piece, found: list[Piece]) -> bool:
    """Keeps a piece, cut to whole blocks, if it is large."""
    last_query, last_key = one.last_query // UNIT * UNIT, one.last_key // UNIT * UNIT
    whole = Piece(_up(one.first_query), last_query, _up(one.first_key), last_key)
    if whole.pairs < SMALLEST:
        return False
    found.append(whole)
    return True


def _up(place: int) -> int:
    return -(-place // UNIT) * UNIT
