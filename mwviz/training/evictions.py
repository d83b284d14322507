"""The evictions that a layout gets wrong, token by token. Numpy only. Letters: M targets."""

from __future__ import annotations

import numpy as np

from mwviz.analysis import Analysis
from mwviz.pairs import Pairs
from mwviz.trie import Longs


def wrong_evictions(analysis: Analysis, pairs: Pairs) -> Longs:
    """int64 (M,): evictions of its lineage that a layout gets wrong for each target.

    A layout of a later context undoes those after the token: it lacks what they removed, or shows
    what came in its place. One that evicts nothing undoes those up to the token. A target that
    trains in the context that it was sampled from has none.

    Args:
        analysis: whose rollout.
        pairs: of the layout.
    """
    tree = analysis.tree
    before = np.zeros(len(tree.tip), dtype=np.int64)
    every = np.zeros(len(tree.tip), dtype=np.int64)
    calls = np.arange(len(tree.tip))
    for junction in analysis.junction_list:
        if junction.is_eviction:
            own = tree.lineage == tree.lineage[junction.call]
            before += own & (calls >= junction.call)
            every += own
    later = (pairs.of("erased") > 0) | (pairs.of("future") > 0)
    earlier = pairs.of("stale") > 0
    after = (every - before)[tree.call]
    return np.where(later, after, np.where(earlier, before[tree.call], 0))
