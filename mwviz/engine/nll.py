"""The vocabulary loss a chunk at a time, its gradient made in the same pass.

Each chunk's logits are turned into their gradient at once and never stored or computed again: three
products where checkpointing needs four. Letters: E targets, H width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from mwviz.engine import fused
from mwviz.engine.vocabulary import Head, product

COMPILE_FROM = 4096
"""Targets on CUDA from which fusing the softmax's passes (seconds to compile, once) pays."""

Weigh = Callable[[slice, torch.Tensor], torch.Tensor]
"""From some of the targets and their log-probabilities (E,), in nats, a factor (E,) of each term's
weight; no gradient flows through it."""


def weighted_nll(
    head: Head,
    hidden: torch.Tensor,
    tokens: torch.Tensor,
    weights: torch.Tensor,
    weigh: Weigh | None = None,
) -> torch.Tensor:
    """Scalar with its graph: the sum of weight x negative log-likelihood, in nats.

    Args:
        head: The output head.
        hidden: (E, H): final hidden states.
        tokens: int64 (E,): what each of them should predict.
        weights: (E,): factor of each term.
        weigh: gives a further factor once the log-probabilities are known; None is 1 for all.
    """
    fixed = _Fixed(head, tokens, weights, weigh)
    loss = _WeightedNll.apply(hidden, head.weight, head.bias, fixed)  # type: ignore[no-untyped-call]
    assert isinstance(loss, torch.Tensor)
    return loss


class _Fixed(NamedTuple):
    """What gets no gradient."""

    head: Head
    tokens: torch.Tensor
    weights: torch.Tensor
    weigh: Weigh | None


class _WeightedNll(torch.autograd.Function):
    """Keeps the gradients of a loss of 1; the backward pass only scales them."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        fixed: _Fixed,
    ) -> torch.Tensor:
        head, tokens, weights, weigh = fixed
        wide = torch.promote_types(weight.dtype, torch.float32)
        total = torch.zeros((), dtype=wide, device=hidden.device)
        wanted = ctx.needs_input_grad
        of_hidden = torch.empty_like(hidden) if wanted[0] else None
        of_weight = torch.zeros_like(weight, dtype=wide) if wanted[1] else None
        of_bias = torch.zeros_like(bias, dtype=wide) if bias is not None and wanted[2] else None
        for chunk in head.chunks(len(tokens)):
            states = hidden[chunk].to(weight)
            logits = product(states, weight)
            if bias is not None:
                logits += bias
            factor = weights[chunk]
            if weigh is not None:
                factor = factor * weigh(chunk, _logprob(logits, tokens[chunk], head))
            loss, slope = _slopes(logits, tokens[chunk], factor, head)
            total += loss
            if of_bias is not None:
                of_bias += slope.sum(0, dtype=wide)
            if of_hidden is not None:
                of_hidden[chunk] = slope @ weight
            if of_weight is not None:
                _add_product_(of_weight, slope.T, states)
        kept = (of_hidden, of_weight, of_bias)
        ctx.save_for_backward(*(part for part in kept if part is not None))
        ctx.present = tuple(part is not None for part in kept)
        ctx.dtypes = (hidden.dtype, weight.dtype, None if bias is None else bias.dtype)
        return total

    @staticmethod
    def backward(ctx: Any, outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        saved = iter(ctx.saved_tensors)
        gradients = [
            (next(saved) * outer).to(dtype) if present else None
            for present, dtype in zip(ctx.present, ctx.dtypes, strict=True)
        ]
        return (*gradients, None)


def _add_product_(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """Adds left @ right in place, in the total's dtype."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total += product(left, right.T)


def _logprob(logits: torch.Tensor, tokens: torch.Tensor, head: Head) -> torch.Tensor:
    """(E,): what raw logits (E, V) say about each target, in nats."""
    out = logits if head.scale == 1.0 else logits * head.scale
    out = out if head.cap is None else head.cap * torch.tanh(out / head.cap)
    return out.gather(1, tokens[:, None])[:, 0] - out.logsumexp(1)


def _slopes(
    logits: torch.Tensor, tokens: torch.Tensor, weights: torch.Tensor, head: Head
) -> tuple[torch.Tensor, torch.Tensor]:
    """The chunk's loss, and its gradient by the raw logits (E, V) in the head's dtype."""
    fast = logits.device.type == "cuda" and len(tokens) * logits.shape[1] >= COMPILE_FROM**2
    made: tuple[torch.Tensor, torch.Tensor] = (_compiled_slope if fast else _slope)(
        logits, tokens, weights, head.scale, head.cap, head.weight.dtype
    )
    return made


def _slope(  # numbers that a compiled graph can take
    logits: torch.Tensor,
    tokens: torch.Tensor,
    weights: torch.Tensor,
    scale: float,
    cap: float | None,
    dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:
    raw = logits if scale == 1.0 else logits * scale
    flat = None if cap is None else torch.tanh(raw / cap)
    out = raw if flat is None or cap is None else flat * cap
    chosen = out.gather(1, tokens[:, None])
    total = out.logsumexp(1, keepdim=True)
    loss = (weights * (total - chosen)[:, 0]).sum()
    # Compared, not scattered: one pass writes the gradient as the products take it.
    taken = tokens[:, None] == torch.arange(logits.shape[1], device=logits.device)
    slope = ((out - total).exp() - taken.to(out.dtype)) * weights[:, None]
    if flat is not None:
        slope = slope * (1 - flat * flat)
    return loss, (slope if scale == 1.0 else slope * scale).to(dtype)


_compiled_slope = fused.compile_within_limits(_slope, dynamic=True)
