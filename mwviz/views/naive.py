"""Layouts that trainers use although they train tokens on contexts the agent never saw."""

from __future__ import annotations

import numpy as np

from mwviz.tree import EvictionTree
from mwviz.trie import Longs, expand, segment_paths
from mwviz.views.exact import causal_row, context_row, unit_edges
from mwviz.views.view import Row


def last_main_call(tree: EvictionTree) -> int:
    """The last call of the main lineage, -1 in a rollout without calls."""
    calls = np.flatnonzero(tree.lineage == tree.main_lineage)
    return int(calls[-1]) if len(calls) else -1


def rightmost(tree: EvictionTree) -> tuple[Row, ...]:
    """The last call's prompt and completion, training all that the main lineage sampled in it."""
    last = last_main_call(tree)
    if last < 0:
        return ()
    place = np.full(tree.size, -1, dtype=np.int64)
    context = tree.context(last)
    place[tree.origin[context]] = np.arange(len(context))
    targets = np.flatnonzero(tree.lineage[tree.call] == tree.main_lineage)
    query = place[tree.origin[tree.token[targets]]] - 1
    return (context_row(tree, _path(tree, last), unit_edges(query, targets)),)


def replay(tree: EvictionTree) -> tuple[Row, ...]:
    """Every token once in the order of its birth, nothing ever evicted."""
    birth = tree.birth
    if len(birth) == 0:
        return ()
    place = np.empty(tree.size, dtype=np.int64)
    place[birth] = np.arange(len(birth))
    starts = np.flatnonzero(np.diff(birth, prepend=-2) != 1)
    edges = unit_edges(place[tree.origin[tree.token]] - 1, np.arange(len(tree.token)))
    return (causal_row(birth[starts], np.diff(starts, append=len(birth)), edges),)


def branch_all(tree: EvictionTree) -> tuple[Row, ...]:
    """One causal row a branch, training every sampled token on it: shared ones several times."""
    order = np.argsort(tree.origin[tree.token], kind="stable")
    owners = tree.origin[tree.token[order]]
    rows = []
    ends = tree.start[tree.leaves] + tree.length[tree.leaves] - 1
    for segments in segment_paths(tree.start, tree.parent, ends):
        shown = tree.origin[expand(tree.start[segments], tree.length[segments])]
        first = np.searchsorted(owners, shown)
        count = np.searchsorted(owners, shown, side="right") - first
        query = np.repeat(np.arange(len(shown)) - 1, count)
        targets = order[expand(first, count)]
        rows.append(context_row(tree, segments, unit_edges(query, targets)))
    return tuple(rows)


def last_call(tree: EvictionTree) -> tuple[Row, ...]:
    """The last call's prompt and completion, training only the completion."""
    last = last_main_call(tree)
    if last < 0:
        return ()
    targets = np.flatnonzero(tree.call == last)
    query = tree.prompt_length[last] + tree.offset[targets] - 1
    return (context_row(tree, _path(tree, last), unit_edges(query, targets)),)


def _path(tree: EvictionTree, call: int) -> Longs:
    """int64: segments of a call's context."""
    for index, segments in enumerate(tree.call_paths()):
        if index == call:
            return segments
    return np.empty(0, dtype=np.int64)
