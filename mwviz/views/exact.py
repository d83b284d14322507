"""Layouts in which every target keeps its true context: exact under re-prefill."""

from __future__ import annotations

import numpy as np

from mwviz.tree import EvictionTree
from mwviz.trie import Longs, segment_paths
from mwviz.views.view import Edges, MaskKind, Row

NO_QUERY = "nothing stands before the first token of an empty prompt"


def context_row(tree: EvictionTree, segments: Longs, edges: Edges) -> Row:
    """The causal row of one path of segments, at the positions the model saw."""
    return Row(
        first_node=tree.start[segments],
        length=tree.length[segments],
        first_position=tree.depth[segments],
        mask="causal",
        edges=edges,
    )


def unit_edges(query: Longs, target: Longs) -> Edges:
    """Edges of weight 1 for the pairs whose query exists."""
    kept = query >= 0
    return Edges(query[kept], target[kept], np.ones(int(kept.sum()), dtype=np.float32))


def call_by_call(tree: EvictionTree) -> tuple[Row, ...]:
    """One causal row a call, training its completion: the reference, and the slowest."""
    first = np.searchsorted(tree.call, np.arange(len(tree.tip) + 1))
    rows = []
    for call, segments in enumerate(tree.call_paths()):
        targets = np.arange(first[call], first[call + 1])
        query = tree.prompt_length[call] + tree.offset[targets] - 1
        rows.append(context_row(tree, segments, unit_edges(query, targets)))
    return tuple(rows)


def logit_tree(tree: EvictionTree) -> tuple[Row, ...]:
    """One causal row a branch; each target is trained on the first branch that holds it."""
    ends = tree.start[tree.leaves] + tree.length[tree.leaves] - 1
    branch = np.searchsorted(ends, tree.token)
    order = np.argsort(branch, kind="stable")
    first = np.searchsorted(branch[order], np.arange(len(ends) + 1))
    rows = []
    for leaf, segments in enumerate(segment_paths(tree.start, tree.parent, ends)):
        targets = order[first[leaf] : first[leaf + 1]]
        query = tree.position_of(tree.token[targets]) - 1
        rows.append(context_row(tree, segments, unit_edges(query, targets)))
    return tuple(rows)


def packed_mask(tree: EvictionTree) -> tuple[Row, ...]:
    """One row with every node once, depth-first; a query sees its ancestors and itself."""
    mask: MaskKind = "tree"
    edges = unit_edges(tree.query, np.arange(len(tree.token)))
    return (Row(tree.start, tree.length, tree.depth, mask, edges),) if tree.size else ()
