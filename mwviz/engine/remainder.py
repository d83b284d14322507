"""Plans what the largest pieces of a packed row leave: a few attention calls for many branches.

A call takes queries that follow one another, cut into stretches of one branch each; a stretch sees
the keys of its path that no piece gives it, and mostly its own tokens up to each query. Letters: T
tokens of a padded row, S stretches of a call, K keys of all its stretches.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch

from mwviz.engine.order import run_starts
from mwviz.engine.pieces import Piece, paths
from mwviz.trie import Longs, expand

Range = tuple[int, int]
"""First token and one past the last."""


class Stretch(NamedTuple):
    """Queries that follow one another on one path."""

    first: int
    last: int
    """One past it."""
    keys: list[Range]
    """Tokens that no piece gives them, in the order of the path."""
    causal: bool
    """Whether the last of the keys are the queries themselves, each seen up to itself."""


class Calls(NamedTuple):
    """Tensors that describe all calls, as an operator takes them."""

    table: torch.Tensor
    """int64 (7 x calls,) on the CPU: what `Call` names, without tensors."""
    bounds: torch.Tensor
    """int32: for each call (S + 1,) ends of its stretches' queries, then (S + 1,) of their keys."""
    keys: torch.Tensor
    """int64: for each call (K,) the tokens that are its stretches' keys."""


class Call(NamedTuple):
    """One variable-length attention call."""

    first: int
    """First query."""
    last: int
    """One past the last query."""
    causal: bool
    """Whether a stretch's last query sees all of its keys, the one before all but the last."""
    longest: tuple[int, int]
    """Most queries and keys of a stretch."""
    queries: torch.Tensor
    """int32 (S + 1,): where stretches end, from the first query on."""
    held: torch.Tensor
    """int32 (S + 1,): the same of their keys."""
    keys: torch.Tensor
    """int64 (K,): tokens of the row."""


COLUMNS = 7
"""Numbers of a call in the table: the first four of `Call`, `longest` as two, S and K."""


def plan(visible_until: Longs, taken: Sequence[Piece]) -> list[list[Stretch]]:
    """The stretches of each call; none if the pieces hold all that is seen.

    Args:
        visible_until: int64 (T,): of a row in heavy-path order, key k is seen by the queries
            `k <= q < visible_until[k]`.
        taken: Disjoint pieces that something else computes.
    """
    calls: list[list[Stretch]] = []
    for stretch in _stretches(visible_until, taken):
        before = calls[-1][-1] if calls else None
        if before and (before.last, before.causal) == (stretch.first, stretch.causal):
            calls[-1].append(stretch)
        else:
            calls.append([stretch])
    return calls


def _stretches(until: Longs, taken: Sequence[Piece]) -> list[Stretch]:
    start = run_starts(until)
    end = np.append(start[1:], len(until))
    found = []
    for first, last in paths(until, start.tolist()):
        seen = (start < first) & (until[start] > first)
        above = list(zip(start[seen].tolist(), end[seen].tolist(), strict=True))
        bounds = {bound for one in taken for bound in (one.first_query, one.last_query)}
        cuts = [first, *sorted(bound for bound in bounds if first < bound < last), last]
        for low, high in pairwise(cuts):
            stretch = _stretch((low, high), first, above, taken)
            if stretch.keys:
                found.append(stretch)
    return found


def _stretch(rows: Range, path: int, above: list[Range], taken: Sequence[Piece]) -> Stretch:
    low, high = rows
    over = [one for one in taken if one.first_query <= low and high <= one.last_query]
    triangle = next((one for one in over if one.causal), None)
    keys = above if triangle is None else [*above, (path, triangle.first_key)]
    for one in over:
        if not one.causal:
            keys = [part for range_ in keys for part in _without(range_, one)]
    if triangle is None:
        keys = [*keys, (path, high)]
    return Stretch(low, high, [(a, b) for a, b in keys if a < b], causal=triangle is None)


def _without(range_: Range, piece: Piece) -> list[Range]:
    """A range of keys without those of a piece."""
    first, last = range_
    return [(first, min(last, piece.first_key)), (max(first, piece.last_key), last)]


def calls_of(visible_until: Longs, taken: Sequence[Piece], *, device: torch.device) -> Calls | None:
    """The plan on a device; None if the pieces hold all that is seen."""
    planned = plan(visible_until, taken)
    if not planned:
        return None
    table: list[int] = []
    bounds: list[Longs] = []
    places: list[Longs] = []
    for stretches in planned:
        ranges = np.array([range_ for one in stretches for range_ in one.keys])
        keys = expand(ranges[:, 0], ranges[:, 1] - ranges[:, 0])
        queries = np.array([one.last - one.first for one in stretches])
        held = np.array([sum(last - first for first, last in one.keys) for one in stretches])
        first, last, causal = stretches[0].first, stretches[-1].last, stretches[0].causal
        table += (first, last, causal, int(queries.max()), int(held.max()), len(queries), len(keys))
        bounds += [np.cumsum(np.append(0, queries)), np.cumsum(np.append(0, held))]
        places.append(keys)
    return Calls(
        torch.tensor(table),
        torch.from_numpy(np.concatenate(bounds).astype(np.int32)).to(device),
        torch.from_numpy(np.concatenate(places)).to(device),
    )


def listed(table: torch.Tensor, bounds: torch.Tensor, keys: torch.Tensor) -> list[Call]:
    """The calls that the tensors describe."""
    found = []
    bound = key = 0
    for first, last, causal, queries, held, stretches, count in table.view(-1, COLUMNS).tolist():
        middle, stop = bound + stretches + 1, bound + 2 * (stretches + 1)
        ends = bounds[bound:middle], bounds[middle:stop]
        call = Call(first, last, bool(causal), (queries, held), *ends, keys[key : key + count])
        found.append(call)
        bound, key = stop, key + count
    return found
