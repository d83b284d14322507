"""Which entries of a cache a prompt shows: what was kept of the context before, found by token ids.

A cache holds tokens in the order in which it was fed, and what left never returns. So a prompt is
some of the context before, in its order, then new text. Ids alone do not always say which: where
two readings are equally short, the tokens that they disagree on are counted as doubtful.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mwviz.prefix import common_prefix
from mwviz.runs import WINDOW, window_hashes
from mwviz.trie import Ints, Longs, expand


class Kept(NamedTuple):
    """What a prompt starts with. B tokens of the context before, K runs of it that stayed."""

    ranges: Longs
    """int64 (K, 2): `[start, end)` of the context before, ascending; one after another they are
    the start of the prompt, and all behind them is new."""
    doubtful: int = 0
    """Tokens of the prompt that may as well be other entries, or new."""

    @property
    def places(self) -> Longs:
        """int64: place in the context before of each token that the prompt starts with."""
        return expand(self.ranges[:, 0], self.ranges[:, 1] - self.ranges[:, 0])

    @property
    def lead(self) -> int:
        """Tokens at the start of the context before that stayed."""
        return int(self.ranges[0, 1]) if len(self.ranges) and self.ranges[0, 0] == 0 else 0


def whole(size: int) -> Kept:
    """All of a context of `size` tokens."""
    return Kept(np.array([(0, size)], dtype=np.int64)[: int(size > 0)])


def told_ranges(kept: Sequence[tuple[int, int]], before: Ints, prompt: Ints) -> Kept | None:
    """What the log says was kept; None if the prompt does not start with it.

    Args:
        kept: `[start, end)` of the context before.
        before: int32 (B,): that context.
        prompt: int32.
    """
    ranges = np.array(kept, dtype=np.int64).reshape(-1, 2)
    ascending = (np.diff(ranges.ravel()) >= 0).all() and (ranges[:, 0] < ranges[:, 1]).all()
    if not ascending or (len(ranges) and not 0 <= ranges[0, 0] <= ranges[-1, 1] <= len(before)):
        return None
    shown = np.concatenate([before[a:b] for a, b in ranges.tolist()] or [before[:0]])
    return Kept(_joined(ranges)) if np.array_equal(shown, prompt[: len(shown)]) else None


def kept_ranges(before: Ints, prompt: Ints) -> Kept:
    """What the token ids say was kept: the fewest runs of which the last ends the context before.

    Its newest token has not been fed yet, so it stays. If no reading ends with it, the longest runs
    of at least `WINDOW` tokens count, in their order.

    Args:
        before: int32 (B,): the context before.
        prompt: int32.
    """
    size = common_prefix(before, prompt)
    if size == len(before):
        return whole(size)
    tail = _tail(before, prompt, size)
    if tail is not None:
        runs, loose = [(0, size), tail.run], tail.doubtful
        if tail.run[1] - tail.run[0] < WINDOW and not loose:
            scattered = _scattered(before[size:], prompt[size:])
            loose = scattered if scattered > tail.run[1] - tail.run[0] else 0
    else:
        runs, loose = _runs(before, prompt, size)
    ranges = np.array([run for run in runs if run[0] < run[1]], dtype=np.int64).reshape(-1, 2)
    return Kept(ranges, loose + _sliding(before, ranges))


class _Tail(NamedTuple):
    run: tuple[int, int]
    doubtful: int


def _tail(before: Ints, prompt: Ints, at: int) -> _Tail | None:
    """The longest end of the context before that stands at one place of a prompt.

    Doubtful if one that is less than `WINDOW` tokens shorter stands there too.
    """
    rest = prompt[at:][: len(before) - at]
    sizes = 1 + np.flatnonzero(rest == before[-1]) if len(before) else np.empty(0, dtype=np.int64)
    sizes = sizes[before[len(before) - sizes] == rest[:1]] if len(rest) else sizes
    fits = [s for s in sizes.tolist() if np.array_equal(rest[:s], before[len(before) - s :])]
    if not fits:
        return None
    near = [size for size in fits[:-1] if fits[-1] - size < WINDOW]
    return _Tail((len(before) - fits[-1], len(before)), fits[-1] - near[0] if near else 0)


def _runs(before: Ints, prompt: Ints, size: int) -> tuple[list[tuple[int, int]], int]:
    """The longest runs one after another, and how many tokens may be something else."""
    runs, doubtful, last, at = [(0, size)], 0, size, size
    while at < len(prompt) and last < len(before):
        starts = last + np.flatnonzero(before[last:] == prompt[at])
        lengths = [common_prefix(before[start:], prompt[at:]) for start in starts.tolist()]
        longest = max(lengths, default=0)
        ends = [s + longest for s, n in zip(starts.tolist(), lengths, strict=True) if n == longest]
        if longest < WINDOW and (not ends or ends[-1] < len(before)):
            break
        if len(ends) > 1 and ends[-1] < len(before):
            doubtful += longest
        runs.append((ends[-1] - longest, ends[-1]))
        last, at = ends[-1], at + longest
    if last < len(before):
        doubtful += _scattered(before[last:], prompt[at:])
        old, new = window_hashes(before[last:]), window_hashes(prompt[at:])
        doubtful += int(np.isin(new, old).sum())
    return runs, doubtful


def _scattered(before: Ints, prompt: Ints) -> int:
    """The most tokens of a prompt that may be picked out of a context, its newest one the last."""
    found, at = 0, 0
    *older, newest = before.tolist()
    for count, token in enumerate(prompt.tolist(), start=1):
        found = count if token == newest else found
        try:
            at = older.index(token, at) + 1
        except ValueError:
            break
    return found


def _sliding(before: Ints, ranges: Longs) -> int:
    """Tokens at the end of a run that also stand in front of the run behind it."""
    count = 0
    for (start, end), (behind, _) in zip(ranges[:-1].tolist(), ranges[1:].tolist(), strict=True):
        size = min(end - start, behind - end)
        left, right = before[end - size : end][::-1], before[behind - size : behind][::-1]
        count += common_prefix(left, right)
    return count


def _joined(ranges: Longs) -> Longs:
    """Ranges without seams between those that follow on one another."""
    opens = np.ones(len(ranges), dtype=bool)
    opens[1:] = ranges[1:, 0] != ranges[:-1, 1]
    closes = np.append(opens[1:], True)[: len(ranges)]
    return np.stack((ranges[opens, 0], ranges[closes, 1]), axis=1)
