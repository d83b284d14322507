"""Puts together what several kernels say of the same queries, by their log-sum-exp.

Each says it of other keys and of some queries that follow one another. Letters: T tokens of a
padded row, N of a part, H heads, D width of a head.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import reduce
from itertools import pairwise
from typing import NamedTuple

import torch
import torch._dynamo
from torch.utils.dlpack import from_dlpack

from mwviz.engine import fused

AT_ONCE = 4
"""Parts mixed in one pass: a graph is compiled for each number from 2 on, three for each width."""


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


def summed(
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
