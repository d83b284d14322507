"""The benchmark's trees, read from node lists, as eviction trees with random token ids.

A file lists nodes in the order they were made: `parent` (index or null) and `spans`, each a number
of tokens and whether they were sampled.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mwviz.errors import TraceError
from mwviz.tree import EvictionTree
from mwviz.trie import Longs

SEED = 11


@dataclass(frozen=True, slots=True)
class Workload:
    """A tree to run, with its name."""

    name: str
    tree: EvictionTree


def read_workload(path: Path, *, vocabulary: int, scale: float = 1.0) -> Workload:
    """The tree of one file.

    Args:
        path: JSON with `name` and `nodes`.
        vocabulary: Token ids are drawn below this.
        scale: Factor of every span's tokens; small trees keep the shape for correctness runs.

    Raises:
        TraceError: The file cannot be read or is not such a list.
    """
    try:
        listed = json.loads(path.read_text())
        nodes = [_spans(node["spans"], scale) for node in listed["nodes"]]
        parents = [
            -1 if node["parent"] is None else int(node["parent"]) for node in listed["nodes"]
        ]
        name = str(listed["name"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise TraceError(f"{path}: not a workload: {error}") from error
    return Workload(name, _tree(parents, nodes, vocabulary))


def _spans(spans: list[list[int]], scale: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each token of a node was sampled."""
    return np.concatenate(
        [np.full(max(1, round(tokens * scale)), bool(trained)) for tokens, trained in spans]
    )


def _tree(
    parents: list[int],
    sampled: list[np.ndarray[tuple[int], np.dtype[np.bool_]]],
    vocabulary: int,
) -> EvictionTree:
    order = _depth_first(parents)
    rank = {node: segment for segment, node in enumerate(order)}
    parent = np.array([rank.get(parents[node], -1) for node in order])
    length = np.array([len(sampled[node]) for node in order])
    start = np.cumsum(length) - length
    depth, leaf = np.zeros_like(start), np.zeros_like(start)
    leaves = np.setdiff1d(np.arange(len(order)), parent)
    for segment, above in enumerate(parent):
        depth[segment] = depth[above] + length[above] if above >= 0 else 0
        leaf[segment] = np.searchsorted(leaves, segment)
    end = start + length
    leave = end.copy()
    for segment in range(len(order) - 1, -1, -1):
        if parent[segment] >= 0:
            leave[parent[segment]] = max(leave[parent[segment]], leave[segment])
    token = np.flatnonzero(np.concatenate([sampled[node] for node in order]))
    within = np.searchsorted(start, token, side="right") - 1
    before = np.where(token > start[within], token - 1, end[parent[within]] - 1)
    return _evictions(
        ids=np.random.default_rng(SEED).integers(0, vocabulary, int(length.sum())),
        segments=(start, parent, depth, leave, leaf),
        targets=(token, before, leaf[within]),
        tip=end[leaves] - 1,
    )


def _evictions(
    *, ids: Longs, segments: tuple[Longs, ...], targets: tuple[Longs, ...], tip: Longs
) -> EvictionTree:
    start, parent, depth, leave, leaf = segments
    token, before, call = targets
    first = np.searchsorted(call, np.arange(len(tip)))
    return EvictionTree(
        ids=ids.astype(np.int32),
        origin=np.arange(len(ids)),
        start=start,
        parent=parent,
        depth=depth,
        exit=leave,
        first_call=leaf,
        prompt_length=np.zeros(len(tip), dtype=np.int64),
        tip=tip,
        lineage=np.zeros(len(tip), dtype=np.int64),
        lineages=("main",),
        query=before,
        token=token,
        call=call,
        offset=np.arange(len(token)) - first[call],
        logprob=np.full(len(token), np.nan, dtype=np.float32),
        cache=np.zeros(len(tip), dtype=np.int64),
    )


def _depth_first(parents: list[int]) -> list[int]:
    children: dict[int, list[int]] = {}
    for node, above in enumerate(parents):
        children.setdefault(above, []).append(node)
    found: list[int] = []
    waiting = children[-1][::-1]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += children.get(node, [])[::-1]
    return found
