"""Attention of a packed row by large pieces and by calls for many branches of any length.

No block mask is read: each stretch of a branch has its keys gathered, and the parts are merged by
their log-sum-exp. Letters: T tokens of a padded row, H heads, G heads of keys, D width of a head, N
queries of a call, K keys of a call.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch

from mwviz.engine import pieced, plain
from mwviz.engine.merging import Part, merge
from mwviz.engine.plain import Vectors
from mwviz.engine.remainder import Call, Calls, listed


def attend(vectors: Vectors, taken: torch.Tensor, calls: Calls, scale: float) -> torch.Tensor:
    """(1, H, T, D): attention where pieces and calls together hold all that is seen.

    Args:
        vectors: Queries (1, H, T, D), keys and values (1, G, T, D).
        taken: Pieces, as `pieced.table` gives them.
        calls: The rest, as `remainder.calls_of` gives it.
        scale: Factor of the scores.
    """
    out = _Attend.apply(*vectors, taken, *calls, scale)  # type: ignore[no-untyped-call]
    assert isinstance(out, torch.Tensor)
    return out


class _Attend(torch.autograd.Function):
    """Each part's backward pass runs with the output and log-sum-exp of the whole."""

    @staticmethod
    def forward(  # noqa: PLR0913, PLR0917  # the shape that torch gives it
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        taken: torch.Tensor,
        table: torch.Tensor,
        bounds: torch.Tensor,
        keys: torch.Tensor,
        scale: float,
    ) -> torch.Tensor:
        held = _forward(query, key, value, taken, table, bounds, keys, scale)
        out: torch.Tensor = held[0]
        ctx.save_for_backward(query, key, value, taken, table, bounds, keys, out, held[1])
        ctx.scale = scale
        return out

    @staticmethod
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        *given, out, total = ctx.saved_tensors
        return *_backward(outer, out, total, *given, ctx.scale), None, None, None, None, None


@torch.library.custom_op("mwviz::branches", mutates_args=())
def _forward(  # noqa: PLR0913, PLR0917  # an operator takes tensors one by one
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    taken: torch.Tensor,
    table: torch.Tensor,
    bounds: torch.Tensor,
    keys: torch.Tensor,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output (1, H, T, D) and log-sum-exp float32 (1, H, T)."""
    parts = pieced.parts_of(query, key, value, taken, scale)
    for call in listed(table, bounds, keys):
        vectors = query[:, :, call.first : call.last], *_gathered(key, value, call)
        parts.append(Part(call.first, call.last, *_call(vectors, call, scale)))
    return merge(parts, query)


@_forward.register_fake
def _(  # noqa: PLR0913, PLR0917
    query: torch.Tensor,
    key: torch.Tensor,  # noqa: ARG001
    value: torch.Tensor,  # noqa: ARG001
    taken: torch.Tensor,  # noqa: ARG001
    table: torch.Tensor,  # noqa: ARG001
    bounds: torch.Tensor,  # noqa: ARG001
    keys: torch.Tensor,  # noqa: ARG001
    scale: float,  # noqa: ARG001
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(query), query.new_empty(query.shape[:3], dtype=torch.float32)


@torch.library.custom_op("mwviz::branches_backward", mutates_args=())
def _backward(  # noqa: PLR0913, PLR0917  # an operator takes tensors one by one
    outer: torch.Tensor,
    out: torch.Tensor,
    total: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    taken: torch.Tensor,
    table: torch.Tensor,
    bounds: torch.Tensor,
    keys: torch.Tensor,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of queries, keys and values."""
    of_query, *of_keys = pieced.slopes(outer, out, total, query, key, value, taken, scale)
    wide = torch.promote_types(key.dtype, torch.float32)
    # A key of the trunk gets a term from every branch: summed up before it is rounded.
    sums = [part.to(wide) for part in of_keys]
    for call in listed(table, bounds, keys):
        rows = slice(call.first, call.last)
        whole = outer[:, :, rows], out[:, :, rows], total[:, :, rows]
        vectors = query[:, :, rows], *_gathered(key, value, call)
        found = _call_backward(whole, vectors, call, scale)
        of_query[:, :, rows] += found[0]
        for sum_, part in zip(sums, found[1:], strict=True):
            sum_.index_add_(2, call.keys, part.to(wide))
    return of_query, sums[0].to(key.dtype), sums[1].to(value.dtype)


@_backward.register_fake
def _(  # noqa: PLR0913, PLR0917
    outer: torch.Tensor,  # noqa: ARG001
    out: torch.Tensor,  # noqa: ARG001
    total: torch.Tensor,  # noqa: ARG001
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    taken: torch.Tensor,  # noqa: ARG001
    table: torch.Tensor,  # noqa: ARG001
    bounds: torch.Tensor,  # noqa: ARG001
    keys: torch.Tensor,  # noqa: ARG001
    scale: float,  # noqa: ARG001
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def _gathered(
    key: torch.Tensor, value: torch.Tensor, call: Call
) -> tuple[torch.Tensor, torch.Tensor]:
    """(1, G, K, D): keys and values of a call's stretches, one after another."""
    return key.index_select(2, call.keys), value.index_select(2, call.keys)


def _call(vectors: Vectors, call: Call, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Output (1, H, N, D) and log-sum-exp (1, H, N) of a call."""
    if vectors[0].device.type == "cuda":
        run = torch.ops.aten._flash_attention_forward
        given = *_flat(vectors), call.queries, call.held, *call.longest
        found = run(*given, 0.0, call.causal, False, scale=scale)
        return found[0].transpose(0, 1)[None], found[1][None]
    parts = [plain.attention(one, scale, causal=call.causal) for one in _cut(vectors, call)]
    return torch.cat([part for part, _ in parts], 2), torch.cat([part for _, part in parts], 2)


def _call_backward(whole: Vectors, vectors: Vectors, call: Call, scale: float) -> Vectors:
    """Gradients (1, H, N, D), (1, G, K, D) and (1, G, K, D) of a call."""
    if vectors[0].device.type == "cuda":
        outer, out, total = whole
        run = torch.ops.aten._flash_attention_backward
        state = torch.zeros(2, dtype=torch.uint64, device=outer.device)
        given = *_flat(vectors), *_flat((out,)), total[0].contiguous()
        lengths = call.queries, call.held, *call.longest
        unused = torch.empty(0, device=outer.device)
        found = run(
            *_flat((outer,)), *given, *lengths, 0.0, call.causal, state, unused, scale=scale
        )
        first, second, third = (part.transpose(0, 1)[None] for part in found)
        return first, second, third
    ends = call.queries.tolist()
    found = []
    for (low, high), one in zip(pairwise(ends), _cut(vectors, call), strict=True):
        outer, out, total = (of[:, :, low:high] for of in whole)
        found.append(plain.attention_backward((outer, out, total), one, scale, causal=call.causal))
    first, second, third = (torch.cat(column, 2) for column in zip(*found, strict=True))
    return first, second, third


def _flat(vectors: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """(N, H, D) of each (1, H, N, D)."""
    return [part[0].transpose(0, 1) for part in vectors]


def _cut(vectors: Vectors, call: Call) -> list[Vectors]:
    """Queries, keys and values of each stretch."""
    query, key, value = vectors
    bounds = zip(pairwise(call.queries.tolist()), pairwise(call.held.tolist()), strict=True)
    return [
        (query[:, :, low:high], key[:, :, first:last], value[:, :, first:last])
        for (low, high), (first, last) in bounds
    ]
