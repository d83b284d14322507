"""The layout of cache-level eviction: kept entries still carry what was evicted, in place.

Exact for `kv_orig` rollouts; under re-prefill its sets are right and its states are not (arXiv
2609.00865, eq. 7, as the theory reads it: section 3, fact 1).
"""

from __future__ import annotations

import numpy as np

from mwviz.errors import ViewError
from mwviz.tree import EvictionTree
from mwviz.trie import Longs, segment_paths
from mwviz.views.exact import unit_edges
from mwviz.views.view import Row


def union_mask(tree: EvictionTree) -> tuple[Row, ...]:
    """One row a cache: every token that it read once in birth order, seen while it is alive.

    Alive means: in the context of the token that the query predicts. Positions are birth indices,
    counted for each cache: text that another agent wrote has its place where this one first saw it.
    An agent has one cache, and another from each junction on that encodes its context anew where
    the rollout's others keep entries.

    Raises:
        ViewError: a context shows a younger token before an older one, a token returns, one state
            would have to predict from two caches, or the log does not tell which tokens stayed.
    """
    return tuple(row for row in held_rows(tree) if row.size)


def held_rows(tree: EvictionTree) -> tuple[Row, ...]:
    """The row of every cache, empty where it never read a token; see `union_mask`."""
    if tree.undecided:
        raise _refused(tree, tree.undecided)
    place = np.full(tree.size, -1, dtype=np.int64)
    caches = int(tree.cache.max(initial=-1)) + 1
    return tuple(_held(tree, cache, place) for cache in range(caches))


def _held(tree: EvictionTree, cache: int, place: Longs) -> Row:
    """The row of one cache; `place` is -1 for every node, before and after."""
    nodes, until = _alive_until(tree, np.flatnonzero(tree.cache == cache), place)
    _check_readers(tree, nodes, place)
    targets = np.flatnonzero(tree.cache[tree.call] == cache)
    above = tree.query[targets]
    query = np.where(above >= 0, place[tree.origin[above]], -1)
    place[tree.origin[nodes]] = -1
    starts = np.flatnonzero((np.diff(nodes, prepend=-2) != 1) | (np.diff(until, prepend=-1) != 0))
    length = np.diff(starts, append=len(nodes))
    edges = unit_edges(query, targets)
    return Row(nodes[starts], length, starts, until[starts], "alive", edges)


def cache_refusal(tree: EvictionTree) -> str:
    """Why no row can show what a cache of kept entries held; "" if `union_mask` does."""
    try:
        union_mask(tree)
    except ViewError as error:
        return str(error)
    return ""


def _alive_until(tree: EvictionTree, calls: Longs, place: Longs) -> tuple[Longs, Longs]:
    """The tokens that one cache ever held, and how long it did; writes `place` by origin.

    Args:
        tree: of the rollout.
        calls: int64: those of one cache.
        place: int64 (N,): -1 everywhere; then the place of every origin that the cache held.

    Returns:
        int64 (U,): node of each token where it was first seen, and int64 (U,): the first query, in
        that order, that no longer sees it.
    """
    until = np.full(tree.size, -1, dtype=np.int64)
    last = np.empty(0, dtype=np.int64)
    cache, nodes, born = [last], [last], 0
    paths = segment_paths(tree.start, tree.parent, tree.tip[calls])
    for call, segments in zip(calls.tolist(), paths, strict=True):
        goes_on = np.array_equal(segments[: len(last)], last)
        shown = tree.nodes_of(segments[len(last) :] if goes_on else segments)
        if goes_on and (place[tree.origin[shown]] >= 0).any():
            goes_on, shown = False, tree.nodes_of(segments)
        origin = tree.origin[shown]
        fresh = place[origin] < 0
        shown, unmet = shown[fresh], origin[fresh]
        place[unmet] = born + np.arange(len(unmet))
        context = place[origin]
        if (np.diff(context) <= 0).any():
            raise _refused(
                tree,
                f"call {call} shows younger text in front of older text, which no cache can hold",
            )
        kept, new = context[~fresh], context[fresh]
        if len(new) == 0:
            continue
        if not goes_on:
            held = np.concatenate(cache)
            if len(np.setdiff1d(kept, held, assume_unique=True)):
                raise _refused(tree, f"call {call} shows text again that had left the cache")
            reader = int(kept[-1]) if len(kept) else -1
            gone = np.setdiff1d(held, kept, assume_unique=True)
            until[gone] = np.where(gone < reader, reader, new[0])
            cache = []
        cache.append(context)
        nodes.append(shown)
        last, born = segments, born + len(new)
    until = until[:born]
    return np.concatenate(nodes), np.where(until < 0, born, until)


def _check_readers(tree: EvictionTree, nodes: Longs, place: Longs) -> None:
    """A token that new ones follow must always have had the same cache: one node of the tree.

    Contexts are in birth order, so two nodes of one token have different caches.
    """
    above = tree.parent_node[nodes]
    reads = np.zeros(tree.size, dtype=bool)
    reads[above[above >= 0]] = True
    uses = np.bincount(place[tree.origin[reads]])
    if (uses > 1).any():
        born = nodes[(uses > 1).argmax()]
        call = int(tree.first_call[tree.segment_of(born)])
        raise _refused(tree, f"a state of call {call} would have to predict from two caches")


def _refused(tree: EvictionTree, why: str) -> ViewError:
    instead = "take packed_mask, which encodes anew"
    if tree.keeps_entries:
        instead = "no other layout holds what a cache kept, so nothing is scored"
    return ViewError(f"union_mask cannot express this rollout: {why}; {instead}")
