"""Dense additive masks for rows of a bounded size, and the SDPA that takes them.

Letters: T tokens of a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from transformers import AttentionInterface

from mwviz.engine.layout import Layout, slides
from mwviz.engine.model import Model
from mwviz.errors import ModelError

CPU_BLOCK = 256
"""Queries of a packed row that share a gather of the keys they see; on the CPU that is faster."""
NAME = "mwviz_sdpa"
"""Name under which the attention function is registered."""

_SCORE_CHANGES = ("softcap", "s_aux", "position_bias")
"""Arguments of a model's attention that change scores and that SDPA cannot apply."""


def visible(part: Layout, *, window: int | None = None) -> npt.NDArray[np.bool_]:
    """The mask as bool (T, T): [q, k] True where q may attend to k; only for bounded rows.

    Args:
        part: A row with an explicit mask.
        window: Tokens of the context that a sliding layer sees, itself included, by depth.
    """
    assert part.visible_until is not None
    index = np.arange(len(part.ids))
    seen = (index[None, :] <= index[:, None]) & (index[:, None] < part.visible_until[None, :])
    if window is not None:
        seen &= part.positions[:, None] - part.positions[None, :] < window
    return seen


def masks(model: Model, part: Layout) -> torch.Tensor | dict[str, torch.Tensor]:
    """One additive mask, or one for each layer type where sliding layers would see less."""
    can = model.capability
    if not slides(model, part):
        return _additive(model, visible(part))
    windowed = _additive(model, visible(part, window=can.window))
    if not can.masks_by_type:
        return windowed
    return {"full_attention": _additive(model, visible(part)), "sliding_attention": windowed}


def _additive(model: Model, seen: npt.NDArray[np.bool_]) -> torch.Tensor:
    """(1, 1, T, T): 0 where visible, the lowest number elsewhere, in the model's dtype."""
    mask = torch.full(
        (1, 1, *seen.shape), torch.finfo(model.dtype).min, dtype=model.dtype, device=model.device
    )
    return mask.masked_fill_(torch.from_numpy(seen).to(model.device), 0.0)


def masked_sdpa(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **arguments: object,
) -> tuple[torch.Tensor, None]:
    """SDPA under an explicit mask; refuses a missing mask and anything it could not apply."""
    if not isinstance(attention_mask, torch.Tensor):
        raise ModelError(f"{type(module).__name__}: the packed mask did not reach this layer")
    lost = [name for name in _SCORE_CHANGES if arguments.get(name) is not None]
    if lost:
        raise ModelError(f"{type(module).__name__}: sdpa cannot apply {lost[0]}; take eager")
    dropout, scale = arguments.get("dropout", 0.0), arguments.get("scaling")
    assert isinstance(dropout, float)
    assert scale is None or isinstance(scale, float)
    groups = query.shape[1] // key.shape[1]

    def attend(
        queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        if groups > 1:
            keys, values = (part.repeat_interleave(groups, dim=1) for part in (keys, values))
        return torch.nn.functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, dropout_p=dropout, scale=scale
        )

    if query.device.type != "cpu" or query.shape[2] <= CPU_BLOCK:
        mixed = attend(query, key, value, attention_mask)
    else:
        parts = [
            attend(query[:, :, rows], key[:, :, seen], value[:, :, seen], mask)
            for rows, seen, mask in _blocks(attention_mask)
        ]
        mixed = torch.cat(parts, dim=2)
    return mixed.transpose(1, 2).contiguous(), None


class _Block(NamedTuple):
    """Some queries, the keys that any of them sees, and the mask between them."""

    rows: slice
    seen: torch.Tensor
    mask: torch.Tensor


def _blocks(mask: torch.Tensor) -> list[_Block]:
    """The blocks of a mask, found once and kept on it: every layer asks for them."""
    known: list[_Block] | None = getattr(mask, "blocks", None)
    if known is not None:
        return known
    blocks = []
    for start in range(0, mask.shape[-1], CPU_BLOCK):
        rows = slice(start, start + CPU_BLOCK)
        seen = (mask[0, 0, rows] == 0).any(dim=0).nonzero()[:, 0]
        blocks.append(_Block(rows, seen, mask[..., rows, :][..., seen]))
    vars(mask)["blocks"] = blocks
    return blocks


AttentionInterface.register(NAME, masked_sdpa)
