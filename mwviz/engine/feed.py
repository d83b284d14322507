"""Brings a row, or the lines of a batch, in the order, length and mask in which a kernel takes it.

What pads a line stands behind all that its tokens see. Letters: T tokens of a row, or of all lines;
B lines; S tokens of a line as it is fed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn.attention.flex_attention import BlockMask

from mwviz.engine import dense, flex, order, pieces
from mwviz.engine.kernels import BLOCKED, PIECED
from mwviz.engine.layout import Layout, slides
from mwviz.engine.model import Model
from mwviz.errors import ModelError
from mwviz.trie import Longs

MAX_DENSE = 8192
"""Tokens of a packed row that may get a dense mask: 268 MB in float32."""
FUSED_UNIT = 256
"""A compiled causal row is padded to a multiple of this: cuDNN plans each length anew."""


@dataclass(frozen=True, slots=True, eq=False)
class Feed:
    """Lines in the order and length in which a kernel takes them; almost always one."""

    ids: Longs
    """int64 (B, S), as the positions."""
    positions: Longs
    implementation: str
    """Name of the attention function."""
    mask: BlockMask | torch.Tensor | dict[str, torch.Tensor] | dict[str, BlockMask] | None
    """None if causal."""
    place: Longs | None = None
    """int64 (T,): where each token stands in all B x S; None if at its own index."""


def prepare(model: Model, part: Layout, kernel: str, *, compiled: bool) -> Feed:
    """The row as a kernel takes it, with its mask on the device.

    Args:
        model: Will run it.
        part: One row, or the lines of a batch.
        kernel: As `choose_kernel` gave it.
        compiled: Whether the layers will run compiled.

    Raises:
        ModelError: The row is too long for a dense mask.
    """
    if part.lines is not None:
        return _feed_lines(part, kernel, unit=FUSED_UNIT if compiled else 1)
    ids, positions, size = part.ids.astype(np.int64), part.positions, len(part.ids)
    if kernel in BLOCKED:
        return _feed_blocks(model, part, kernel)
    if part.visible_until is not None:
        if size > MAX_DENSE:
            raise ModelError(
                f"a packed row of {size} tokens needs a dense mask of more than "
                f"{MAX_DENSE} x {MAX_DENSE}; logit_tree gives the same scores"
            )
        name = dense.NAME if kernel == "sdpa" else kernel
        return Feed(ids[None], positions[None], name, dense.masks(model, part))
    longer = flex.padded(size, FUSED_UNIT) if compiled else size
    return Feed(_lengthened(ids, longer), _lengthened(positions, longer), kernel, None)


def _feed_lines(part: Layout, kernel: str, *, unit: int) -> Feed:
    """Each line padded behind its end to the longest one's length, a multiple of `unit`."""
    assert kernel not in BLOCKED
    assert part.visible_until is None
    lengths, longer = part.lengths, flex.padded(part.longest, unit)
    place = offsets(part) + np.repeat(np.arange(len(lengths)) * longer, lengths)
    both = np.zeros((2, len(lengths) * longer), dtype=np.int64)
    both[0, place], both[1, place] = part.ids, part.positions
    ids, positions = both.reshape(2, len(lengths), longer)
    return Feed(ids, positions, kernel, None, place)


def offsets(part: Layout) -> Longs:
    """int64 (T,): index of each token in its line."""
    first = 0 if part.lines is None else np.repeat(part.lines, part.lengths)
    return np.arange(len(part.ids)) - first


def _feed_blocks(model: Model, part: Layout, kernel: str) -> Feed:
    ids, positions, size = part.ids.astype(np.int64), part.positions, len(part.ids)
    sliding = slides(model, part)
    kernel = "flex" if sliding else kernel
    until, place = part.visible_until, None
    if until is None:
        until = np.full(size, size)
    else:
        heavy = order.heavy_first(until)
        kernel = "flex" if heavy is None else kernel
        if heavy is not None:
            ids, positions = ids[heavy.token], positions[heavy.token]
            until, place = heavy.visible_until, heavy.place
    longer = flex.padded(size)
    if not sliding:
        until = flex.lengthened(until)
    mask = _block_masks(model, until, positions, kernel=kernel, sliding=sliding)
    return Feed(_lengthened(ids, longer), _lengthened(positions, longer), flex.NAME, mask, place)


def _lengthened(values: Longs, size: int) -> Longs:
    """int64 (1, S): one line of values with zeros behind."""
    return np.concatenate((values, np.zeros(size - len(values), dtype=np.int64)))[None]


def _block_masks(
    model: Model, until: Longs, positions: Longs, *, kernel: str, sliding: bool
) -> BlockMask | dict[str, BlockMask]:
    """One block mask, or one for each layer type where sliding layers would see less."""
    can = model.capability
    taken = pieces.largest(until) if kernel in PIECED else ()
    full = partial(_block_mask, model, until, without=taken, gathered=kernel == "varlen")
    if not sliding:
        return full()
    windowed = _block_mask(model, until, positions=positions, window=can.window)
    if not can.masks_by_type:
        return windowed
    return {"full_attention": full(), "sliding_attention": windowed}


def _block_mask(model: Model, until: Longs, **rule: Any) -> BlockMask:
    def build(device: torch.device) -> BlockMask:
        return flex.block_mask(until, device=device, **rule)

    return flex.spread(build, model.device) if model.spread else build(model.device)
