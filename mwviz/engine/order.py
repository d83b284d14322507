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


def heavy_first(visible_until: Longs) -> Order | None:
    """The order, or None if the intervals do not nest and the row is thus no tree.

    Args:
        visible_until: int64 (T,): key k is seen by the queries `k <= q < visible_until[k]`.
    """
    size = len(visible_until)
    start = np.flatnonzero(np.diff(visible_until, prepend=-1))
    until = visible_until[start]
    parent = _parents(start, until)
    if parent is None:
        return None
    length = np.diff(start, append=size)
    runs = _depth_first(parent, weight=until - start)
    token = expand(start[runs], length[runs])
    place = np.empty(size, dtype=np.int64)
    place[token] = np.arange(size)
    # What a run's subtree holds does not change, only where it starts.
    below = np.repeat((until - start)[runs], length[runs])
    first = np.repeat(place[start[runs]], length[runs])
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
