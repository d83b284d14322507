"""Token sequences to a compressed trie: which calls share which prefixes.

Letters: N nodes (tokens), S segments, C sequences. A segment is a maximal run of tokens that the
same sequences pass, so it ends where sequences part and where one of them ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mwviz.prefix import common_prefix

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Trie:
    """A token trie, depth-first, children in the order in which sequences first took them."""

    ids: Ints
    """int32 (N,): token ids."""
    start: Longs
    """int64 (S,): first node of each segment."""
    parent: Longs
    """int64 (S,): parent segment, -1 for a root."""
    depth: Longs
    """int64 (S,): tokens above the segment."""
    exit: Longs
    """int64 (S,): one past the last node below the segment."""
    first_call: Longs
    """int64 (S,): the sequence that first passed it."""
    tip: Longs
    """int64 (C,): last node of each sequence, -1 if it is empty."""


def expand(first: Longs, length: Longs) -> Longs:
    """int64 (sum of lengths,): the runs `first[i], first[i] + 1, ...` one after another."""
    before = np.cumsum(length) - length
    shift: Longs = np.repeat(first - before, length)
    return np.arange(len(shift), dtype=np.int64) + shift


def node_parents(start: Longs, length: Longs, parent: Longs) -> Longs:
    """int64 (N,): the node before each one, -1 at a root.

    Args:
        start: int64 (S,): first node of each segment.
        length: int64 (S,): its tokens.
        parent: int64 (S,): parent segment, -1 for a root.
    """
    nodes = np.arange(int(length.sum()), dtype=np.int64) - 1
    nodes[start] = np.where(parent >= 0, (start + length)[parent] - 1, -1)
    return nodes


def segment_paths(start: Longs, parent: Longs, tips: Longs) -> Iterator[Longs]:
    """int64: segments from the root to each tip, one array a tip; empty for tip -1.

    A tip's path reuses the part it shares with the one before it.
    """
    level = np.zeros(len(start), dtype=np.int64)
    for segment, above in enumerate(parent):
        if above >= 0:
            level[segment] = level[above] + 1
    path = np.empty(0, dtype=np.int64)
    last = np.where(tips >= 0, np.searchsorted(start, tips, side="right") - 1, -1)
    for segment in last.tolist():
        own: list[int] = []
        while segment >= 0:
            at = level[segment]
            if at < len(path) and path[at] == segment:
                break
            own.append(segment)
            segment = int(parent[segment])
        kept = level[segment] + 1 if segment >= 0 else 0
        path = np.concatenate((path[:kept], np.array(own[::-1], dtype=np.int64)))
        yield path


class Step(NamedTuple):
    """A sequence, told by what it adds to the one before it."""

    shared: int
    """Tokens at its start that are known to be those of the sequence before; more may be."""
    rest: Ints
    """int32: the tokens behind these."""


def build_trie(sequences: Iterable[Ints]) -> Trie:
    """The trie of the sequences; linear in their length, never quadratic."""
    return grown(Step(0, sequence) for sequence in sequences)


def grown(steps: Iterable[Step]) -> Trie:
    """The trie of sequences that go on from one another; linear in the tokens that are told."""
    growing = _Growing()
    for step in steps:
        growing.insert(step.shared, step.rest)
    return growing.finish()


@dataclass(slots=True)
class _Growing:
    """The trie while it grows: segments in order of creation, split as sequences part."""

    tokens: list[Ints] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    first_call: list[int] = field(default_factory=list)
    children: list[dict[int, int]] = field(default_factory=list)
    roots: dict[int, int] = field(default_factory=dict)
    tips: list[int] = field(default_factory=list)

    def insert(self, shared: int, rest: Ints) -> None:
        """Add one sequence; the search starts where it is known to leave the previous one."""
        current, child = self._start(shared)
        within = shared - self._end(current)
        matched = 0
        while matched < len(rest) or within:
            found = child if within else self._children_of(current).get(int(rest[matched]))
            if found is None:
                current = self._append(current, rest[matched:].copy(), shared + matched)
                break
            tokens = self.tokens[found]
            size = within + common_prefix(tokens[within:], rest[matched:])
            current = found if size == len(tokens) else self._split(found, size)
            matched, within = matched + size - within, 0
        self.tips.append(current)

    def _start(self, shared: int) -> tuple[int, int]:
        """The last segment of the previous sequence whose end is shared, and the one behind it."""
        behind, segment = -1, self.tips[-1] if self.tips else -1
        while segment >= 0 and self._end(segment) > shared:
            behind, segment = segment, self.parent[segment]
        return segment, behind

    def _end(self, segment: int) -> int:
        """Tokens up to the end of a segment; 0 for -1."""
        return self.depth[segment] + len(self.tokens[segment]) if segment >= 0 else 0

    def _children_of(self, segment: int) -> dict[int, int]:
        return self.children[segment] if segment >= 0 else self.roots

    def _append(self, parent: int, tokens: Ints, depth: int, *, first_call: int = -1) -> int:
        self.tokens.append(tokens)
        self.parent.append(parent)
        self.depth.append(depth)
        self.first_call.append(len(self.tips) if first_call < 0 else first_call)
        self.children.append({})
        new = len(self.tokens) - 1
        self._children_of(parent)[int(tokens[0])] = new
        return new

    def _split(self, segment: int, size: int) -> int:
        """Cut the first `size` tokens off into a new parent; the tips at its end stay with it."""
        tokens, parent, depth = self.tokens[segment], self.parent[segment], self.depth[segment]
        upper = self._append(parent, tokens[:size], depth, first_call=self.first_call[segment])
        self.children[upper][int(tokens[size])] = segment
        self.tokens[segment] = tokens[size:]
        self.parent[segment] = upper
        self.depth[segment] = depth + size
        return upper

    def finish(self) -> Trie:
        """Number segments and nodes depth-first."""
        order = self._depth_first()
        rank = np.full(len(order) + 1, -1, dtype=np.int64)
        rank[order] = np.arange(len(order))
        length = np.array([len(self.tokens[s]) for s in order], dtype=np.int64)
        start = np.cumsum(length) - length
        parent = rank[np.array([self.parent[s] for s in order], dtype=np.int64)]
        tips = np.array(self.tips, dtype=np.int64)
        end_of = np.append(start + length, 0)
        return Trie(
            ids=np.concatenate(
                [np.empty(0, dtype=np.int32), *(self.tokens[s] for s in order)], dtype=np.int32
            ),
            start=start,
            parent=parent,
            depth=np.array([self.depth[s] for s in order], dtype=np.int64),
            exit=_exits(parent, start + length),
            first_call=np.array([self.first_call[s] for s in order], dtype=np.int64),
            tip=end_of[rank[tips]] - 1,
        )

    def _depth_first(self) -> list[int]:
        order: list[int] = []
        waiting = list(reversed(self.roots.values()))
        while waiting:
            segment = waiting.pop()
            order.append(segment)
            waiting.extend(reversed(self.children[segment].values()))
        return order


def _exits(parent: Longs, end: Longs) -> Longs:
    """End of each segment's subtree: parents come first, so one backward pass is enough."""
    exits = end.copy()
    for segment in range(len(parent) - 1, -1, -1):
        above = parent[segment]
        if above >= 0:
            exits[above] = max(exits[above], exits[segment])
    return exits
