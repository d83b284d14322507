"""Takes the largest regular pieces of a packed row out of FlexAttention's hands.

Most visible pairs are whole rectangles, tokens of a branch against a shared path, or the causal
triangle of a long path. cuDNN's attention computes these twice as fast; the parts are merged by
their log-sum-exp, and each piece's backward pass runs with the output and log-sum-exp of the whole,
as ring attention does.
Letters: T tokens of a padded row, H heads, D width of a head, R pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
import torch._dynamo
from torch.utils.dlpack import from_dlpack

from mwviz.engine import fused, plain
from mwviz.engine.order import run_starts
from mwviz.trie import Longs

UNIT = 128
"""Pieces start and end on whole blocks."""
SMALLEST = 1 << 22
"""Pairs of a piece from which a kernel of its own pays."""
MOST = 12
"""Pieces of a row; each costs a launch in every layer."""
AT_ONCE = 4
"""Parts mixed in one pass: a graph is compiled for each number from 2 on, three for each width."""


class Piece(NamedTuple):
    """Queries that all see all of some keys; a causal triangle if both are the same tokens."""

    first_query: int
    last_query: int
    """One past it, like the next."""
    first_key: int
    last_key: int

    @property
    def pairs(self) -> int:
        """How many it holds; an empty one holds none."""
        queries = max(0, self.last_query - self.first_query)
        keys = max(0, self.last_key - self.first_key)
        return queries * (queries + 1) // 2 if self.causal else queries * keys

    @property
    def causal(self) -> bool:
        """Whether a query sees only the keys up to itself."""
        return self.first_query == self.first_key


def largest(visible_until: Longs) -> list[Piece]:
    """Disjoint pieces of what a row sees, the largest first.

    Args:
        visible_until: int64 (T,): of a row in heavy-path order, key k is seen by the queries
            `k <= q < visible_until[k]`.
    """
    found: list[Piece] = []
    starts = run_starts(visible_until).tolist()
    for first, last in paths(visible_until, starts):
        _add(Piece(first, last, first, last), found)
        _staircase(visible_until, (first, last), (last, int(visible_until[first])), found)
    return sorted(found, key=lambda one: -one.pairs)[:MOST]


def paths(until: Longs, starts: list[int]) -> list[tuple[int, int]]:
    """First and one past last token of each heavy path: it goes on while subtrees nest.

    Args:
        until: int64 (T,): ends of visibility of a row in heavy-path order.
        starts: First tokens of the runs of one end.
    """
    found: list[tuple[int, int]] = []
    first = 0
    for start in starts[1:]:
        # The next run goes on below this one unless the one before ended its subtree here.
        if until[start - 1] <= start:
            found.append((first, start))
            first = start
    return [*found, (first, len(until))] if len(until) else []


def _staircase(
    until: Longs, keys: tuple[int, int], queries: tuple[int, int], found: list[Piece]
) -> None:
    """Covers what a path's keys show to queries behind the path: the later a key, the fewer."""
    low, high = keys
    places = np.arange(_up(low), high + 1, UNIT)[1:]
    if not len(places):
        return
    reach = np.minimum(until[places - 1], queries[1])
    areas = (places - low) * np.maximum(reach - queries[0], 0)
    best = int(areas.argmax())
    split, stop = int(places[best]), int(reach[best]) // UNIT * UNIT
    if not _add(Piece(queries[0], stop, low, split), found):
        return
    _staircase(until, (split, high), queries, found)
    _staircase(until, (low, split), (stop, queries[1]), found)


def _add(one: Piece, found: list[Piece]) -> bool:
    """Keeps a piece, cut to whole blocks, if it is large."""
    last_query, last_key = one.last_query // UNIT * UNIT, one.last_key // UNIT * UNIT
    whole = Piece(_up(one.first_query), last_query, _up(one.first_key), last_key)
    if whole.pairs < SMALLEST:
        return False
    found.append(whole)
    return True


def _up(place: int) -> int:
    return -(-place // UNIT) * UNIT


def table(pieces: list[Piece]) -> torch.Tensor:
    """int64 (R, 4) on the CPU: read there at every launch, so that graphs need not know it."""
    return torch.tensor(pieces, dtype=torch.int64).view(-1, 4)


def attend_with(
    rest: tuple[torch.Tensor, torch.Tensor],
    vectors: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    pieces: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """(1, H, T, D): attention over the rest and over all pieces together.

    Args:
        rest: Output (1, H, T, D) and log-sum-exp float32 (1, H, T) of all other pairs.
        vectors: Queries, keys and values.
        pieces: As `table` gives them.
        scale: Factor of the scores.
    """
    merged = _Merged.apply(*rest, *vectors, pieces, scale)  # type: ignore[no-untyped-call]
    assert isinstance(merged, torch.Tensor)
    return merged


class _Merged(torch.autograd.Function):
    """The rest's gradients come from its share of the whole; the pieces' from their own kernels."""

    @staticmethod
    def forward(  # noqa: PLR0913, PLR0917  # the shape that torch gives it
        ctx: Any,
        rest: torch.Tensor,
        rest_sum: torch.Tensor,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        pieces: torch.Tensor,
        scale: float,
    ) -> torch.Tensor:
        found = _forward_with(rest, rest_sum, query, key, value, pieces, scale)
        merged: torch.Tensor = found[0]
        ctx.save_for_backward(rest, found[2], query, key, value, pieces, merged, found[1])
        ctx.scale = scale
        return merged

    @staticmethod
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rest, share, query, key, value, pieces, merged, total = ctx.saved_tensors
        vectors = _backward(outer, merged, total, query, key, value, pieces, ctx.scale)
        of_rest = outer.float() * share[..., None]
        of_sum = (of_rest * (rest.float() - merged.float())).sum(-1)
        return of_rest.to(rest.dtype), of_sum, *vectors, None, None


def attend(
    vectors: tuple[torch.Tensor, torch.Tensor, torch.Tensor], pieces: torch.Tensor, scale: float
) -> torch.Tensor:
    """(1, H, T, D): attention where the pieces hold all that is seen."""
    out = _Alone.apply(*vectors, pieces, scale)  # type: ignore[no-untyped-call]
    assert isinstance(out, torch.Tensor)
    return out


class _Alone(torch.autograd.Function):
    """The pieces without a rest."""

    @staticmethod
    def forward(  # the shape that torch gives it
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        pieces: torch.Tensor,
        scale: float,
    ) -> torch.Tensor:
        held = _forward(query, key, value, pieces, scale)
        out: torch.Tensor = held[0]
        ctx.save_for_backward(query, key, value, pieces, out, held[1])
        ctx.scale = scale
        return out

    @staticmethod
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        query, key, value, pieces, out, total = ctx.saved_tensors
        vectors = _backward(outer, out, total, query, key, value, pieces, ctx.scale)
        return *vectors, None, None


@torch.library.custom_op("mwviz::pieces", mutates_args=())
def _forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    pieces: torch.Tensor,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output (1, H, T, D) and log-sum-exp (1, H, T) of the pieces."""
    return merge(parts_of(query, key, value, pieces, scale), query)


@_forward.register_fake
def _(
    query: torch.Tensor,
    key: torch.Tensor,  # noqa: ARG001
    value: torch.Tensor,  # noqa: ARG001
    pieces: torch.Tensor,  # noqa: ARG001
    scale: float,  # noqa: ARG001
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(query), query.new_empty(query.shape[:3], dtype=torch.float32)


@torch.library.custom_op("mwviz::pieces_and_rest", mutates_args=())
def _forward_with(  # noqa: PLR0913, PLR0917  # an operator takes tensors one by one
    rest: torch.Tensor,
    rest_sum: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    pieces: torch.Tensor,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Output (1, H, T, D), log-sum-exp (1, H, T) and the rest's share in it (1, H, T)."""
    whole = Part(0, query.shape[2], rest, rest_sum)
    out, total = merge([whole, *parts_of(query, key, value, pieces, scale)], query)
    return out, total, (rest_sum - total).exp().to(total.dtype).contiguous()


@_forward_with.register_fake
def _(  # noqa: PLR0913, PLR0917
    rest: torch.Tensor,  # noqa: ARG001
    rest_sum: torch.Tensor,  # noqa: ARG001
    query: torch.Tensor,
    key: torch.Tensor,  # noqa: ARG001
    value: torch.Tensor,  # noqa: ARG001
    pieces: torch.Tensor,  # noqa: ARG001
    scale: float,  # noqa: ARG001
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    total, share = (query.new_empty(query.shape[:3], dtype=torch.float32) for _ in range(2))
    return torch.empty_like(query), total, share


class Part(NamedTuple):
    """What some queries that follow one another say of some of the keys they see."""

    first: int
    """First query."""
    last: int
    """One past the last query."""
    out: torch.Tensor
    """(1, H, N, D)."""
    total: torch.Tensor
    """Log-sum-exp (1, H, N)."""


def parts_of(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    pieces: torch.Tensor,
    scale: float,
) -> list[Part]:
    """Attention of each piece by itself."""
    found = []
    for low, high, first, last in pieces.tolist():
        vectors = query[:, :, low:high], key[:, :, first:last], value[:, :, first:last]
        found.append(Part(low, high, *plain.attention(vectors, scale, causal=low == first)))
    return found


def merge(parts: Sequence[Part], like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Output (1, H, T, D) and log-sum-exp float32 (1, H, T) of parts; 0 and -inf without one.

    Up to `AT_ONCE` parts of a query are mixed in one pass, each number read and written once.
    """
    out = torch.empty_like(like)
    total = like.new_full(like.shape[:3], -torch.inf, dtype=torch.float32)
    spans = [(part.first, part.last) for part in parts]
    for low, high, over in _stretches(like.shape[2], spans):
        rows = slice(low, high)
        cuts = [slice(low - parts[one].first, high - parts[one].first) for one in over]
        outs = [parts[one].out[:, :, cut] for one, cut in zip(over, cuts, strict=True)]
        sums = [parts[one].total[:, :, cut] for one, cut in zip(over, cuts, strict=True)]
        if len(over) > 1:
            whole = reduce(torch.logaddexp, sums)
            shares = [(one - whole).exp() for one in sums]
            _blend(out[:, :, rows], outs, shares)
            total[:, :, rows] = whole
        elif over:
            out[:, :, rows] = outs[0]
            total[:, :, rows] = sums[0]
        else:
            out[:, :, rows] = 0
    return out, total


def _stretches(size: int, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, list[int]]]:
    """First, one past last, and which spans lie over it, of each stretch from 0 to `size`."""
    bounds = sorted({0, size, *(bound for span in spans for bound in span)})
    for low, high in pairwise(bounds):
        over = [one for one, (first, last) in enumerate(spans) if first <= low and high <= last]
        yield low, high, over


def _blend(out: torch.Tensor, parts: list[torch.Tensor], shares: list[torch.Tensor]) -> None:
    """Writes the sum of parts (1, H, N, D) by their shares (1, H, N) to `out` (1, H, N, D).

    At most `AT_ONCE` in a pass, in their order: the sum of a pass is a part of the next, with
    share 1. It has memory of its own, for a graph knows which of its tensors share theirs.
    """
    place, by_query = out[0].transpose(0, 1), [part[0].transpose(0, 1) for part in parts]
    weights = [share[0].T for share in shares]
    on_card = out.device.type == "cuda"
    mix = _mixed_in_place if on_card else _mix
    # Tensors leave and enter through dlpack on the current card alone.
    with torch.cuda.device(out.device) if on_card else nullcontext():
        while len(by_query) > AT_ONCE:
            held = torch.empty_like(place)
            mix(held, by_query[:AT_ONCE], weights[:AT_ONCE])
            by_query = [held, *by_query[AT_ONCE:]]
            weights = [torch.ones_like(weights[0]), *weights[AT_ONCE:]]
        mix(place, by_query, weights)


def _mixed_in_place(
    out: torch.Tensor, parts: list[torch.Tensor], shares: list[torch.Tensor]
) -> None:
    """`_mix` in one kernel, compiled once for each number of parts, 2 to `AT_ONCE`, and width.

    Left open is only N, which comes first as it does in memory; a kernel that must count with any H
    and D takes four times as long. A graph would be made for each pattern of views' first places
    too: without a copy, a tensor from elsewhere has none.
    """
    one, *several = (from_dlpack(each.detach()) for each in (out, *parts))
    for each in (one, *several, *shares):
        torch._dynamo.maybe_mark_dynamic(each, 0)
        torch._dynamo.mark_static(each, list(range(1, each.dim())))
    _mixed(one, several, shares)


def _mix(out: torch.Tensor, parts: list[torch.Tensor], shares: list[torch.Tensor]) -> None:
    """Writes the sum of parts (N, H, D) by their shares (N, H) to `out` (N, H, D)."""
    weighted = (part * share[..., None] for part, share in zip(parts, shares, strict=True))
    out.copy_(reduce(torch.add, weighted))


_mixed = fused.compile_within_limits(_mix)


@torch.library.custom_op("mwviz::pieces_backward", mutates_args=())
def _backward(  # noqa: PLR0913, PLR0917  # an operator takes tensors one by one
    outer: torch.Tensor,
    merged: torch.Tensor,
    total: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    pieces: torch.Tensor,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What the pieces add to the gradients of queries, keys and values."""
    return slopes(outer, merged, total, query, key, value, pieces, scale)


def slopes(  # noqa: PLR0913, PLR0917  # as the operator
    outer: torch.Tensor,
    merged: torch.Tensor,
    total: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    pieces: torch.Tensor,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of queries, keys and values by pieces; 0 without one."""
    found: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
    spans: list[tuple[tuple[int, int], tuple[int, int]]] = []
    for low, high, first, last in pieces.tolist():
        rows, columns = slice(low, high), slice(first, last)
        parts = plain.attention_backward(
            (outer[:, :, rows], merged[:, :, rows], total[:, :, rows]),
            (query[:, :, rows], key[:, :, columns], value[:, :, columns]),
            scale,
            causal=low == first,
        )
        found.append(parts)
        spans.append(((low, high), (first, last)))
    of_queries, of_keys = ([span[which] for span in spans] for which in (0, 1))
    return (
        _summed(of_queries, [one[0] for one in found], query),
        _summed(of_keys, [one[1] for one in found], key),
        _summed(of_keys, [one[2] for one in found], value),
    )


def _summed(
    spans: Sequence[tuple[int, int]], parts: Sequence[torch.Tensor], like: torch.Tensor
) -> torch.Tensor:
    """(1, H, T, D): the sum of parts (1, H, N, D) that lie where the spans say."""
    whole = torch.empty_like(like)
    for low, high, over in _stretches(like.shape[2], spans):
        place = whole[:, :, low:high]
        cuts = [parts[one][:, :, low - spans[one][0] : high - spans[one][0]] for one in over]
        if len(cuts) > 1:
            torch.add(*cuts[:2], out=place)
            for part in cuts[2:]:
                place += part
        elif cuts:
            place.copy_(cuts[0])
        else:
            place.zero_()
    return whole


@_backward.register_fake
def _(  # noqa: PLR0913, PLR0917
    outer: torch.Tensor,  # noqa: ARG001
    merged: torch.Tensor,  # noqa: ARG001
    total: torch.Tensor,  # noqa: ARG001
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    pieces: torch.Tensor,  # noqa: ARG001
    scale: float,  # noqa: ARG001
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
