"""Runs of text that a prompt shares with earlier contexts, by hashed windows of eight tokens.

The rule (theory, section 1): greedy longest common runs of at least `WINDOW` tokens, the latest
occurrence first, then the leftmost; each earlier token is claimed at most once a prompt.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

WINDOW = 8
"""Shortest run that counts, in tokens (theory, section 1)."""
CANDIDATES = 32
"""Latest occurrences of one window that are looked at: bounds the work on repetitive text."""

_FACTORS = np.random.default_rng(20260900).integers(1, 2**63, WINDOW, dtype=np.uint64) * 2 + 1


class Run(NamedTuple):
    """Consecutive new tokens that repeat consecutive earlier ones."""

    start: int
    """Index into the new tokens."""
    origins: Longs
    """int64 (length,): node that each of them repeats."""


class Hits(NamedTuple):
    """Windows of the new tokens that occurred before. H hits."""

    end: Longs
    """int64 (H,): index of the window's last token among the new tokens."""
    node: Longs
    """int64 (H,): node at which the same window ended."""


def window_hashes(ids: Ints) -> npt.NDArray[np.uint64]:
    """uint64 (len - WINDOW + 1,): one hash for every window of consecutive tokens."""
    count = len(ids) - WINDOW + 1
    hashes = np.zeros(max(count, 0), dtype=np.uint64)
    if count > 0:
        wide = ids.astype(np.uint64) + np.uint64(1)
        for i, factor in enumerate(_FACTORS):
            hashes = (hashes ^ (hashes >> np.uint64(29))) + wide[i : i + count] * factor
    return hashes


@dataclass(slots=True)
class WindowIndex:
    """Windows of all contexts seen so far, in sorted chunks that double in size."""

    chunks: list[tuple[npt.NDArray[np.uint64], Longs]] = field(default_factory=list)

    def add(self, hashes: npt.NDArray[np.uint64], nodes: Longs) -> None:
        """Record the windows that end at `nodes`, oldest first."""
        if len(hashes) == 0:
            return
        while self.chunks and len(self.chunks[-1][0]) <= 2 * len(hashes):
            older, older_nodes = self.chunks.pop()
            hashes = np.concatenate((older, hashes))
            nodes = np.concatenate((older_nodes, nodes))
        order = np.argsort(hashes, kind="stable")
        self.chunks.append((hashes[order], nodes[order]))

    def find(self, hashes: npt.NDArray[np.uint64]) -> Hits:
        """The latest `CANDIDATES` occurrences of each window, in every chunk."""
        ends: list[Longs] = [np.empty(0, dtype=np.int64)]
        nodes: list[Longs] = [np.empty(0, dtype=np.int64)]
        for known, at in self.chunks:
            right = np.searchsorted(known, hashes, side="right")
            count = np.minimum(right - np.searchsorted(known, hashes, side="left"), CANDIDATES)
            which = np.repeat(np.arange(len(hashes), dtype=np.int64), count)
            within = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
            ends.append(which + WINDOW - 1)
            nodes.append(at[np.repeat(right - count, count) + within])
        return Hits(np.concatenate(ends), np.concatenate(nodes))


class _Piece(NamedTuple):
    """Hits on one diagonal: new tokens `[first, last]` end windows at consecutive origins."""

    first: int
    last: int
    origin: int
    """Origin of the token at `first`."""
    node: int
    """A node where the window at `first` ends: its path gives the run's first tokens."""
    previous: int
    """Origin before the first token in that context, -1 if it continues nothing."""


def common_runs(hits: Hits, origin: Longs, parent: Longs) -> list[Run]:
    """Every maximal run that the hits spell out; they may overlap.

    Args:
        hits: windows found.
        origin: int64 (N,): origin of every node of earlier contexts.
        parent: int64 (N,): node before each node, -1 at a root.
    """
    by_diagonal: dict[int, list[tuple[_Piece, Run]]] = {}
    runs: list[Run] = []
    for piece in sorted(_pieces(hits, origin, parent), key=lambda piece: piece.first):
        own = np.arange(piece.origin, piece.origin + piece.last - piece.first + 1, dtype=np.int64)
        head = _head(by_diagonal, piece)
        if head is not None:
            kept = head.origins[: piece.first - head.start]
            run = Run(head.start, np.concatenate((kept, own)))
        else:
            lead = _path_origins(piece.node, origin, parent)
            run = Run(piece.first - WINDOW + 1, np.concatenate((lead, own)))
        by_diagonal.setdefault(piece.origin - piece.first, []).append((piece, run))
        runs.append(run)
    return runs


def _head(by_diagonal: dict[int, list[tuple[_Piece, Run]]], piece: _Piece) -> Run | None:
    """The run that a piece continues, from another diagonal; None if it starts one."""
    at = piece.first - 1
    for other, run in by_diagonal.get(piece.previous - at, ()):
        if piece.previous >= 0 and other.first <= at <= other.last:
            return run
    return None


def _path_origins(node: int, origin: Longs, parent: Longs) -> Longs:
    """Origins of the `WINDOW - 1` tokens before a node."""
    lead = np.empty(WINDOW - 1, dtype=np.int64)
    for i in range(WINDOW - 2, -1, -1):
        node = int(parent[node])
        lead[i] = origin[node]
    return lead


def _pieces(hits: Hits, origin: Longs, parent: Longs) -> list[_Piece]:
    """Group hits by diagonal; a hit whose context comes from another diagonal starts a piece."""
    if len(hits.end) == 0:
        return []
    of = origin[hits.node]
    before = origin[parent[hits.node]]
    straight = before == of - 1
    order = np.lexsort((~straight, hits.end, of - hits.end))
    end, of, before, straight = hits.end[order], of[order], before[order], straight[order]
    node = hits.node[order]
    same = np.zeros(len(end), dtype=bool)
    same[1:] = (end[1:] == end[:-1]) & (of[1:] == of[:-1])
    alternatives = np.flatnonzero(same & ~straight)
    unique = np.flatnonzero(~same)
    follows = np.zeros(len(unique), dtype=bool)
    follows[1:] = (
        straight[unique[1:]]
        & (end[unique[1:]] == end[unique[:-1]] + 1)
        & (of[unique[1:]] == of[unique[:-1]] + 1)
    )
    starts = np.flatnonzero(~follows)
    stops = np.append(starts[1:], len(unique)) - 1
    pieces = [
        _Piece(
            int(end[unique[a]]),
            int(end[unique[b]]),
            int(of[unique[a]]),
            int(node[unique[a]]),
            int(before[unique[a]]),
        )
        for a, b in zip(starts, stops, strict=True)
    ]
    piece_of = np.repeat(np.arange(len(starts)), stops - starts + 1)
    rank = np.searchsorted(unique, alternatives, side="right") - 1
    for hit, piece in zip(alternatives, piece_of[rank], strict=True):
        last = pieces[piece].last
        pieces.append(_Piece(int(end[hit]), last, int(of[hit]), int(node[hit]), int(before[hit])))
    return pieces


def kept_tail(runs: list[Run], last: int) -> list[Run]:
    """The parts of runs that end with the origin `last`: a tail kept from the previous context."""
    tails = []
    for run in runs:
        at = np.flatnonzero(run.origins == last)
        if len(at) and at[0] + 1 >= WINDOW:
            tails.append(Run(run.start, run.origins[: int(at[0]) + 1]))
    return sorted(tails, key=lambda run: -len(run.origins))[:1]


def choose(
    runs: list[Run], free: Bools, claimed: Bools, latest: Callable[[int], int]
) -> Iterator[Run]:
    """The runs that count, longest first; marks `free` and `claimed` as it goes.

    Args:
        runs: candidates, which may overlap.
        free: bool (new tokens,): True where no origin was found yet.
        claimed: bool (N,): True for origins this prompt already shows.
        latest: the last call whose context held an origin; breaks ties between equal lengths.
    """
    heap = [(-len(run.origins), i, run) for i, run in enumerate(runs)]
    heapq.heapify(heap)
    serial = len(heap)
    while heap:
        ties: list[Run] = []
        size = heap[0][0]
        while heap and heap[0][0] == size:
            run = heapq.heappop(heap)[2]
            parts = _usable(run, free, claimed)
            if len(parts) == 1 and len(parts[0].origins) == -size:
                ties.append(run)
                continue
            for part in parts:
                heapq.heappush(heap, (-len(part.origins), serial, part))
                serial += 1
        ties = _distinct(ties)
        if not ties:
            continue
        best = ties[0] if len(ties) == 1 else _preferred(ties, latest)
        yield best
        free[best.start : best.start + len(best.origins)] = False
        claimed[best.origins] = True
        for run in ties:
            if run is not best:
                heapq.heappush(heap, (size, serial, run))
                serial += 1


def _distinct(ties: list[Run]) -> list[Run]:
    return list({(run.start, run.origins.tobytes()): run for run in ties}.values())


def _preferred(ties: list[Run], latest: Callable[[int], int]) -> Run:
    ends = [int(run.origins[-1]) for run in ties]
    if len({run.start for run in ties}) == len(ties) == len(set(ends)):
        claims = np.concatenate([run.origins for run in ties])
        spans = sorted((run.start, len(run.origins)) for run in ties)
        apart = all(a + n <= b for (a, n), (b, _) in pairwise(spans))
        if apart and len(np.unique(claims)) == len(claims):
            return ties[0]
    return min(ties, key=lambda run: (-latest(int(run.origins[-1])), run.start))


def _usable(run: Run, free: Bools, claimed: Bools) -> list[Run]:
    """The parts of a run, at least `WINDOW` long, that are neither assigned nor claimed."""
    window = free[run.start : run.start + len(run.origins)] & ~claimed[run.origins]
    edges = np.flatnonzero(np.diff(window.astype(np.int8), prepend=0, append=0))
    return [
        Run(run.start + int(a), run.origins[a:b])
        for a, b in zip(edges[::2], edges[1::2], strict=True)
        if b - a >= WINDOW
    ]
