"""Attention over the largest pieces of a packed row, without FlexAttention.

cuDNN's attention computes a rectangle or a triangle twice as fast; the parts are merged by their
log-sum-exp, and each piece's backward pass runs with the output and log-sum-exp of the whole, as
ring attention does. Letters: T tokens of a padded row, H heads, D width of a head, R pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from mwviz.engine import plain
from mwviz.engine.merging import Part, merge, summed
from mwviz.engine.pieces import Piece


def table(pieces: Sequence[Piece]) -> torch.Tensor:
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
        summed(of_queries, [one[0] for one in found], query),
        summed(of_keys, [one[1] for one in found], key),
        summed(of_keys, [one[2] for one in found], value),
    )


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
