"""Heavy-path order of a packed row: each node is followed by its heaviest child.

A long shared path then lies in one piece, so that a branch sees whole blocks of keys instead of
many stretches with unseen siblings between them. Letters: T tokens of a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mwviz.trie import Longs, expand


class Order(NamedTuple):
    """A row's tokens in another order in which each subtree still lies in one piece."""

    token: Longs
    """int64 (T,): old index of each new place."""
    place: Longs
    """int64 (T,): new place of each old index."""
    visible_until: Longs
    """int64 (T,): in new places, key k is seen by the queries `k <= q < visible_until[k]`."""


class Runs(NamedTuple):
    """Stretches of tokens with one end of visibility: a tree's segments or more at once."""

    start: Longs
    """int64 (R,): first token."""
    length: Longs
    """int64 (R,): tokens."""
    until: Longs
    """int64 (R,): one past the last query that sees them."""
    parent: Longs
    """int64 (R,): run above, -1 for none."""


def runs(visible_until: Longs) -> Runs | None:
    """The runs of a row, or None if the intervals do not nest and it is thus no tree.

    Args:
        visible_until: int64 (T,): key k is seen by the queries `k <= q < visible_until[k]`.
    """
    start = run_starts(visible_until)
    until = visible_until[start]
    parent = _parents(start, until)
    length = np.diff(start, append=len(visible_until))
    return None if parent is None else Runs(start, length, until, parent)


def run_starts(visible_until: Longs) -> Longs:
    """int64 (R,): the first token of each stretch with one end of visibility."""
    first = np.ones(len(visible_until), dtype=bool)
    np.not_equal(visible_until[1:], visible_until[:-1], out=first[1:])
    return np.flatnonzero(first)


def heavy_first(visible_until: Longs) -> Order | None:
    """The order, or None if the intervals do not nest and the row is thus no tree.

    Args:
        visible_until: int64 (T,): key k is seen by the queries `k <= q < visible_until[k]`.
    """
    size, found = len(visible_until), runs(visible_until)
    if found is None:
        return None
    start, length, until, parent = found
    taken = _depth_first(parent, weight=until - start)
    token = expand(start[taken], length[taken])
    place = np.empty(size, dtype=np.int64)
    place[token] = np.arange(size)
    # What a run's subtree holds does not change, only where it starts.
    below = np.repeat((until - start)[taken], length[taken])
    first = np.repeat(place[start[taken]], length[taken])
    return Order(token, place, first + below)


def _parents(start: Longs, until: Longs) -> Longs | None:
    """int64: the run around each run, -1 for none; None if two overlap."""
    parent = np.full(len(start), -1, dtype=np.int64)
    around: list[int] = []
    for run, (first, end) in enumerate(zip(start.tolist(), until.tolist(), strict=True)):
        while around and until[around[-1]] <= first:
            around.pop()
        if around:
            if end > until[around[-1]]:
                return None
            parent[run] = around[-1]
        around.append(run)
    return parent


def _depth_first(parent: Longs, *, weight: Longs) -> Longs:
    """int64: runs from roots to leaves, of siblings the heaviest first."""
    children: dict[int, list[int]] = {}
    for run, above in enumerate(parent.tolist()):
        children.setdefault(above, []).append(run)
    runs: list[int] = []
    waiting = _lightest_first(children.get(-1, []), weight)
    while waiting:
        run = waiting.pop()
        runs.append(run)
        waiting += _lightest_first(children.get(run, []), weight)
    return np.array(runs, dtype=np.int64)


def _lightest_first(runs: list[int], weight: Longs) -> list[int]:
    return sorted(runs, key=lambda run: (int(weight[run]), -run))
