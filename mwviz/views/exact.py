"""Layouts in which every target keeps its true context: exact under re-prefill."""

from __future__ import annotations

import numpy as np

from mwviz.tree import EvictionTree
from mwviz.trie import Longs, segment_paths
from mwviz.views.view import Edges, Row

NO_QUERY = "nothing stands before the first token of an empty prompt"


def context_row(tree: EvictionTree, segments: Longs, edges: Edges) -> Row:
    """The causal row of one path of segments, at the positions the model saw."""
    return causal_row(tree.start[segments], tree.length[segments], edges)


def causal_row(first_node: Longs, length: Longs, edges: Edges) -> Row:
    """Stretches of nodes one after another, at positions 0, 1, ..., all seeing what is before.

    Stretches that follow on one another become one, so a context that was only ever extended is
    one run, however many calls it took.
    """
    opens = np.ones(len(length), dtype=bool)
    opens[1:] = (first_node[1:] != (first_node + length)[:-1]) | (first_node[1:] < 0)
    first_node = first_node[opens]
    if len(length):
        length = np.add.reduceat(length, np.flatnonzero(opens))
    positions = np.cumsum(length) - length
    until = np.full(len(length), length.sum(), dtype=np.int64)
    return Row(first_node, length, positions, until, "causal", edges)


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
    if not tree.size:
        return ()
    edges = unit_edges(tree.query, np.arange(len(tree.token)))
    return (Row(tree.start, tree.length, tree.depth, tree.exit, "tree", edges),)


def branch_packed(tree: EvictionTree) -> tuple[Row, ...]:
    """The branches of `logit_tree` in one row, each seeing only itself, positions restarting."""
    rows = logit_tree(tree)
    if not rows:
        return ()
    size = np.array([row.size for row in rows])
    start = np.cumsum(size) - size
    runs = [len(row.length) for row in rows]
    edges = [row.edges for row in rows]
    shifted = [edge.query + first for edge, first in zip(edges, start, strict=True)]
    return (
        Row(
            first_node=np.concatenate([row.first_node for row in rows]),
            length=np.concatenate([row.length for row in rows]),
            first_position=np.concatenate([row.first_position for row in rows]),
            until=np.repeat(start + size, runs),
            mask="blocks",
            edges=Edges(
                np.concatenate(shifted),
                np.concatenate([edge.target for edge in edges]),
                np.concatenate([edge.weight for edge in edges]),
            ),
        ),
    )
