"""What later calls say again, word for word, of the text that a junction took away."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mwviz.junctions import Junction
from mwviz.tree import EvictionTree
from mwviz.trie import Ints, Longs

SHORTEST = 6
"""Tokens that a quote has at least: shorter runs recur by chance."""


class Quote(NamedTuple):
    """A stretch of sampled tokens that repeats evicted text."""

    call: int
    first: int
    """Index of its first target."""
    tokens: int
    shown: bool
    """Whether the same words also stand in the call's prompt: then they may come from there."""


def quotes(tree: EvictionTree, junction: Junction) -> tuple[Quote, ...]:
    """What the calls of the lineage, from the junction's on, sampled of what it evicted.

    Longest stretches of at least `SHORTEST` equal token ids, in the order of sampling. Empty where
    the evicted text is not recorded.
    """
    gone = _windows(_runs(tree, junction.evicted))
    if not gone:
        return ()
    found: list[Quote] = []
    first_target = np.searchsorted(tree.call, np.arange(len(tree.tip) + 1))
    for call in range(junction.call, len(tree.tip)):
        if tree.lineage[call] != tree.lineage[junction.call]:
            continue
        first, last = int(first_target[call]), int(first_target[call + 1])
        said = tree.ids[tree.token[first:last]]
        hits = [window in gone for window in _each(said)]
        if not any(hits):
            continue
        prompt = tree.ids[tree.context(call)[: tree.prompt_length[call]]]
        seen = _windows([prompt])
        for start, stop in _stretches(hits):
            words = said[start : stop + SHORTEST - 1]
            shown = all(window in seen for window in _each(words))
            found.append(Quote(call, first + start, len(words), shown))
    return tuple(found)


def _runs(tree: EvictionTree, nodes: Longs) -> list[Ints]:
    """Ids of evicted nodes, cut where they did not stand next to one another."""
    if not len(nodes):
        return []
    position = tree.position_of(nodes)
    cuts = np.flatnonzero(np.diff(position) != 1) + 1
    return [tree.ids[part] for part in np.split(nodes, cuts)]


def _windows(runs: list[Ints]) -> set[bytes]:
    return {window for run in runs for window in _each(run)}


def _each(ids: Ints) -> list[bytes]:
    """Every stretch of `SHORTEST` ids, as bytes."""
    if len(ids) < SHORTEST:
        return []
    windows = np.lib.stride_tricks.sliding_window_view(ids, SHORTEST)
    return [window.tobytes() for window in windows]


def _stretches(hits: list[bool]) -> list[tuple[int, int]]:
    """Start and stop of every run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], hits, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
