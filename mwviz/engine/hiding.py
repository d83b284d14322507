"""How to run one row many times, each time with some keys hidden, without running all of it again.

Letters: T tokens of the row.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mwviz.engine.layout import Layout
from mwviz.trie import Longs

BATCH_TOKENS = 4096
"""Tokens of the copies of a row that run in one pass: their mask is square in it."""
Pass = tuple[list[int], Layout, Longs]
"""Which sets of keys it runs; what is run; int64: the queries that predict the target, first with
all keys, then without each of the sets."""


def passes(part: Layout, until: Longs, hidden: list[Longs]) -> Iterator[Pass]:
    """What to run so that every set of keys is hidden once, in as few passes as fit.

    Args:
        part: a row; its start, as long as `until`, is run.
        until: int64 (T,): key k is seen by the queries `k <= q < until`; the last query is the
            target's, and always stays.
        hidden: int64 each: keys to hide together from all behind the stretch they stand in.
    """
    plan = _shared if (until >= len(until)).all() else _whole
    return plan(part, until, hidden)


def _whole(part: Layout, until: Longs, hidden: list[Longs]) -> Iterator[Pass]:
    """The row's start once for each set of hidden keys, and once whole, as many as fit."""
    size = len(until)
    step = max(1, BATCH_TOKENS // size - 1)
    for first in range(0, len(hidden), step):
        chosen = list(range(first, min(first + step, len(hidden))))
        masks = [until, *(_without(until, hidden[index]) for index in chosen)]
        last = np.arange(len(masks)) * size + size - 1
        yield chosen, _copies(part, masks), last


def _shared(part: Layout, until: Longs, hidden: list[Longs]) -> Iterator[Pass]:
    """The same of a row whose keys are never hidden: what stands in front of the first is run once.

    Sets come in descending order of their first key, so that a key of the row that is run whole is
    seen by those that follow at once, or not at all.
    """
    size = len(until)
    stretches = [_stretches(keys, size) for keys in hidden]
    order = sorted(range(len(hidden)), key=lambda index: -_starts(stretches[index], size)[0])
    while order:
        chosen, total = [order.pop(0)], size
        total += size - _starts(stretches[chosen[0]], size)[1]
        while order and total + size - _starts(stretches[order[0]], size)[1] <= BATCH_TOKENS:
            total += size - _starts(stretches[order[0]], size)[1]
            chosen.append(order.pop(0))
        yield (chosen, *_behind(part, size, [stretches[index] for index in chosen]))


def _stretches(keys: Longs, size: int) -> list[tuple[int, int]]:
    """[start, stop) of consecutive keys. One that ends at the last query hides nothing from it."""
    parts = np.split(keys, np.flatnonzero(np.diff(keys) != 1) + 1)
    found = [(int(one[0]), int(one[-1]) + 1) for one in parts if len(one)]
    return [one for one in found if one[1] < size]


def _starts(stretches: list[tuple[int, int]], size: int) -> tuple[int, int]:
    """The first key that is hidden, and the first token that is run again."""
    return stretches[0] if stretches else (size - 1, size - 1)


def _behind(part: Layout, size: int, chosen: list[list[tuple[int, int]]]) -> tuple[Layout, Longs]:
    """The row, then of each set what stands behind its first stretch of hidden keys."""
    until = np.full(size, size)
    ids, positions, seen = [part.ids[:size]], [part.positions[:size]], [until]
    last, end = [size - 1], size
    for stretches in chosen:
        first, again = _starts(stretches, size)
        start, end = end, end + size - again
        until[:first] = end
        own = np.full(size - again, end)
        for low, high in stretches[1:]:
            own[low - again : high - again] = start + high - again
        ids.append(part.ids[again:size])
        positions.append(part.positions[again:size])
        seen.append(own)
        last.append(end - 1)
    given = Layout(
        ids=np.concatenate(ids),
        positions=np.concatenate(positions),
        visible_until=np.concatenate(seen),
        edges=part.edges,
        cut=part.cut,
    )
    return given, np.array(last)


def _without(until: Longs, keys: Longs) -> Longs:
    """`until` with some keys seen by nothing behind the stretch of hidden keys they stand in."""
    changed = until.copy()
    for stretch in np.split(keys, np.flatnonzero(np.diff(keys) != 1) + 1):
        if len(stretch):
            changed[stretch] = np.minimum(changed[stretch], stretch[-1] + 1)
    return changed


def _copies(part: Layout, untils: list[Longs]) -> Layout:
    """The row's start once for each mask, one behind the other, none seeing another."""
    size, count = len(untils[0]), len(untils)
    shift = np.arange(count)[:, None] * size
    return Layout(
        ids=np.tile(part.ids[:size], count),
        positions=np.tile(part.positions[:size], count),
        visible_until=(np.stack(untils) + shift).ravel(),
        edges=part.edges,
        cut=part.cut,
    )
