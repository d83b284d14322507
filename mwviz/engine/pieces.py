"""Takes the largest regular pieces of a packed row out of FlexAttention's hands.

Most visible pairs are whole rectangles, tokens of a branch against a shared path, or the causal
triangle of a long path. cuDNN's attention computes these twice as fast; the parts are merged by
their log-sum-exp, and each piece's backward pass runs with the output and log-sum-exp of the whole,
as ring attention does.
Letters: T tokens of a padded row, H heads, D width of a head, R pieces.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from mwviz.engine import plain
from mwviz.trie import Longs

Bools = npt.NDArray[np.bool_]

UNIT = 128
"""Pieces start and end on whole blocks."""
SMALLEST = 1 << 22
"""Pairs of a piece from which a kernel of its own pays."""
MOST = 12
"""Pieces of a row; each costs a launch in every layer."""


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
    starts = np.flatnonzero(np.diff(visible_until, prepend=-1)).tolist()
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
        part, total, share, other = _forward(rest_sum, query, key, value, pieces, scale)
        mixed = rest.float() * share[..., None] + part.float() * other[..., None]
        merged: torch.Tensor = mixed.to(rest.dtype)
        ctx.save_for_backward(rest, share, query, key, value, pieces, merged, total)
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
        nothing = query.new_full(query.shape[:3], -torch.inf, dtype=torch.float32)
        held = _forward(nothing, query, key, value, pieces, scale)
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
def _forward(  # an operator takes tensors one by one
    rest_sum: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    pieces: torch.Tensor,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Output (1, H, T, D) of the pieces, 0 without one, and three numbers (1, H, T) a query.

    They are the log-sum-exp of everything, and the shares that the rest and the pieces have in it:
    made here, once a query, because a compiled graph would make them for every number of the sum.
    """
    out, sums = covered(query, key, value, pieces, scale)
    total = torch.logaddexp(rest_sum.contiguous(), sums)
    return out, total, (rest_sum - total).exp().contiguous(), (sums - total).exp()


def covered(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    pieces: torch.Tensor,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output (1, H, T, D) and log-sum-exp float32 (1, H, T) of pieces; 0 and -inf without one."""
    out = torch.empty_like(query)
    sums = query.new_full(query.shape[:3], -torch.inf, dtype=torch.float32)
    done = np.zeros(query.shape[2] // UNIT, dtype=bool)
    for low, high, first, last in pieces.tolist():
        part, part_sum = plain.attention(
            (query[:, :, low:high], key[:, :, first:last], value[:, :, first:last]),
            scale,
            causal=low == first,
        )
        rows = slice(low, high)
        blocks = done[low // UNIT : high // UNIT]
        if blocks.any():
            _clear(out, blocks, low)
            fold(out[:, :, rows], sums[:, :, rows], part, part_sum)
        else:
            out[:, :, rows] = part
            sums[:, :, rows] = part_sum
        blocks[:] = True
    _clear(out, done, 0)
    return out, sums


@_forward.register_fake
def _(
    rest_sum: torch.Tensor,  # noqa: ARG001
    query: torch.Tensor,
    key: torch.Tensor,  # noqa: ARG001
    value: torch.Tensor,  # noqa: ARG001
    pieces: torch.Tensor,  # noqa: ARG001
    scale: float,  # noqa: ARG001
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    shape = query.shape[:3]
    total, share, other = (query.new_empty(shape, dtype=torch.float32) for _ in range(3))
    return torch.empty_like(query), total, share, other


def fold(out: torch.Tensor, sums: torch.Tensor, part: torch.Tensor, part_sum: torch.Tensor) -> None:
    """Adds a part to the output and log-sum-exp that some queries have already, in place."""
    total = torch.logaddexp(sums, part_sum)
    mix = _mixed if out.device.type == "cuda" else _mix
    mix(out, (sums - total).exp(), part, (part_sum - total).exp())
    sums.copy_(total)


def _mix(out: torch.Tensor, share: torch.Tensor, part: torch.Tensor, other: torch.Tensor) -> None:
    out.copy_(out * share[..., None] + part * other[..., None])


_mixed = torch.compile(_mix, dynamic=True)


def _clear(whole: torch.Tensor, done: Bools, start: int) -> None:
    """Zeroes the units of `whole` (1, H, T, D) from token `start` on that are not done."""
    edges = np.flatnonzero(np.diff(~done, prepend=False, append=False)) * UNIT + start
    for low, high in edges.reshape(-1, 2).tolist():
        whole[:, :, low:high] = 0


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
    gradients = [torch.empty_like(part) for part in (query, key, value)]
    size = query.shape[2] // UNIT
    filled = [np.zeros(size, dtype=bool) for _ in gradients]
    for low, high, first, last in pieces.tolist():
        rows, columns = slice(low, high), slice(first, last)
        parts = plain.attention_backward(
            (outer[:, :, rows], merged[:, :, rows], total[:, :, rows]),
            (query[:, :, rows], key[:, :, columns], value[:, :, columns]),
            scale,
            causal=low == first,
        )
        places = (rows, columns, columns)
        for gradient, part, place, held in zip(gradients, parts, places, filled, strict=True):
            blocks = held[place.start // UNIT : place.stop // UNIT]
            if blocks.any():
                _clear(gradient, blocks, place.start)
                gradient[:, :, place] += part
            else:
                gradient[:, :, place] = part
            blocks[:] = True
    for gradient, held in zip(gradients, filled, strict=True):
        _clear(gradient, held, 0)
    return gradients[0], gradients[1], gradients[2]


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
