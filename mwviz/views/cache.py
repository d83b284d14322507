"""The layout of cache-level eviction: kept entries still carry what was evicted, in place.

Exact for `kv_orig` rollouts; under re-prefill its sets are right and its states are not (arXiv
2609.00865, eq. 7, as the theory reads it: section 3, fact 1).
"""

from __future__ import annotations

import numpy as np

from mwviz.errors import ViewError
from mwviz.tree import EvictionTree
from mwviz.trie import Longs, expand
from mwviz.views.exact import unit_edges
from mwviz.views.view import Row


def union_mask(tree: EvictionTree) -> tuple[Row, ...]:
    """Every token once in birth order; a key is seen while it is alive.

    Alive means: in the context of the token that the query predicts. Positions are birth indices.

    Raises:
        ViewError: a context shows a younger token before an older one, a token returns, one state
            would have to predict from two caches, or several lineages share the row.
    """
    if len(tree.lineages) > 1:
        raise _refused(
            f"it has several lineages ({len(tree.lineages)} agents), each with a cache of its own, "
            "and one row shows one cache; record each agent as a rollout of its own"
        )
    birth = tree.birth
    if len(birth) == 0:
        return ()
    rank = np.empty(tree.size, dtype=np.int64)
    rank[birth] = np.arange(len(birth))
    rank = rank[tree.origin]
    until = _alive_until(tree, rank, len(birth))
    query = np.where(tree.query >= 0, rank[tree.query], -1)
    edges = unit_edges(query, np.arange(len(tree.token)))
    starts = np.flatnonzero((np.diff(birth, prepend=-2) != 1) | (np.diff(until, prepend=-1) != 0))
    length = np.diff(starts, append=len(birth))
    return (Row(birth[starts], length, starts, until[starts], "alive", edges),)


def cache_refusal(tree: EvictionTree) -> str:
    """Why no row can show what a cache of kept entries held; "" if `union_mask` does."""
    try:
        union_mask(tree)
    except ViewError as error:
        return str(error)
    return ""


def _alive_until(tree: EvictionTree, rank: Longs, count: int) -> Longs:
    """int64 (U,): first query, in birth order, that no longer sees each token."""
    _check_readers(tree, rank)
    until = np.full(count, count, dtype=np.int64)
    cache = np.empty(0, dtype=np.int64)
    length, born = tree.length, 0
    for call, segments in enumerate(tree.call_paths()):
        context = rank[expand(tree.start[segments], length[segments])]
        if (np.diff(context) <= 0).any():
            raise _refused(
                f"call {call} shows younger text in front of older text, which no cache can hold"
            )
        first_new = int(np.searchsorted(context, born))
        kept, new = context[:first_new], context[first_new:]
        if len(new) == 0:
            continue
        if len(np.setdiff1d(kept, cache, assume_unique=True)):
            raise _refused(f"call {call} shows text again that had left the cache")
        reader = int(kept[-1]) if len(kept) else -1
        gone = np.setdiff1d(cache, kept, assume_unique=True)
        until[gone] = np.where(gone < reader, reader, new[0])
        cache, born = context, int(new[-1]) + 1
    return until


def _check_readers(tree: EvictionTree, rank: Longs) -> None:
    """A token that new ones follow must always have had the same cache: one node of the tree.

    Contexts are in birth order, so two nodes of one token have different caches.
    """
    above = tree.parent_node[tree.birth]
    readers = np.unique(above[above >= 0])
    ranks, uses = np.unique(rank[readers], return_counts=True)
    if (uses > 1).any():
        born = tree.birth[ranks[uses > 1][0]]
        call = int(tree.first_call[tree.segment_of(born)])
        raise _refused(f"a state of call {call} would have to predict from two caches")


def _refused(why: str) -> ViewError:
    return ViewError(
        f"union_mask cannot express this rollout: {why}; take packed_mask, which encodes anew"
    )
