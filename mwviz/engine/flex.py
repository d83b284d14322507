"""FlexAttention for packed rows: a block mask straight from the ends of the keys' intervals.

No T x T array is ever made: a block of keys is judged by the smallest and largest end of its
keys. Letters: T tokens of a row, padded to whole blocks; B blocks of `BLOCK` tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, flex_attention
from transformers import AttentionInterface

from mwviz.engine import fused, pieced, remainder, varlen
from mwviz.engine.pieces import Piece
from mwviz.errors import ModelError
from mwviz.trie import Longs

BLOCK = 128
"""Queries and keys of a block: what FlexAttention's kernels skip or take whole."""
NAME = "mwviz_flex"
"""Name under which the attention function is registered."""
MIN_HEAD = 16
"""Smallest width of a head that FlexAttention's CUDA kernels take."""

_WHOLE: dict[str, Any] = {"IS_DIVISIBLE": True}
"""True by construction: rows are padded to whole blocks, so kernels need no edge checks."""
_TUNED: dict[str, Any] = {
    "fwd_BLOCK_M": 128,
    "fwd_BLOCK_N": 64,
    "fwd_num_warps": 8,
    "fwd_num_stages": 3,
    "fwd_USE_TMA": True,
}
"""Fastest forward kernel measured on an H200 for 16-bit heads of 128."""
_TUNED_HEAD = 128
_LISTS = ("kv", "full_kv", "q", "full_q")
"""Lists of a block mask: some pairs and all pairs of a block seen, by queries and by keys."""

Mask = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def padded(size: int, unit: int = BLOCK) -> int:
    """Tokens of a row rounded up to whole units."""
    return -(-size // unit) * unit


def lengthened(visible_until: Longs) -> Longs:
    """The ends of a row filled up to whole blocks with tokens that go on with its last branch.

    Nobody reads what the filling says, and no token sees it; as part of a branch it leaves no
    block half full and so no leftover beside the large pieces.
    """
    size, full = len(visible_until), padded(len(visible_until))
    longer = np.full(full, full, dtype=np.int64)
    longer[:size] = np.where(visible_until == size, full, visible_until)
    return longer


def block_mask(
    visible_until: Longs,
    *,
    device: torch.device,
    positions: Longs | None = None,
    window: int | None = None,
    without: Sequence[Piece] = (),
    gathered: bool = False,
) -> BlockMask:
    """Which blocks of keys a block of queries sees whole, in part or not at all.

    A window takes neither `without` nor `gathered`: pieces know nothing of depth.

    Args:
        visible_until: int64 (T,): key k is seen by the queries `k <= q < visible_until[k]`.
        device: Where the mask is built and used.
        positions: int64 (T,): depth of each token; only with a window.
        window: Tokens of the context that a sliding layer sees, itself included, by depth.
        without: What another kernel computes; the attention function adds it.
        gathered: Whether the rest is computed with gathered keys, and the blocks not read.
    """
    assert window is None or not (without or gathered)
    size = len(visible_until)
    full = padded(size)
    # A padding token sees itself alone, so that no row of the softmax is empty.
    ends = np.arange(1, full + 1, dtype=np.int32)
    ends[:size] = visible_until
    until = torch.from_numpy(ends).to(device)
    seen = int((visible_until - np.arange(size)).sum())
    alone = size == full and sum(piece.pairs for piece in without) == seen
    rule = _interval(until)
    if window is not None:
        assert positions is not None
        depth = torch.zeros(full, dtype=torch.int32, device=device)
        depth[:size] = torch.from_numpy(positions.astype(np.int32)).to(device)
        lists = _listed(*_slide(*_blocks(until), depth, window))
        rule = _windowed(until, depth, window)
    elif alone or gathered:
        lists = _none(full // BLOCK, device)
    else:
        lists = _listed(*_blocks(until), without)
    mask = BlockMask(
        seq_lengths=(full, full),
        **lists,  # type: ignore[arg-type]  # eight tensors by name
        BLOCK_SIZE=(BLOCK, BLOCK),
        mask_mod=rule,
    )
    # On the mask itself: a layer that gets one gets the other.
    rest = remainder.calls_of(visible_until, without, device=device) if gathered else None
    vars(mask)["calls"] = rest
    vars(mask)["pieces"] = pieced.table(without) if without or rest else None
    vars(mask)["alone"] = alone
    return mask


@dataclass(frozen=True, slots=True, eq=False)
class _Copies:
    """A mask on every device that asks for it: each layer of a spread model asks with `to`.

    The library's own copy would leave behind the rule's ends of intervals and the pieces.
    """

    build: Callable[[torch.device], BlockMask]
    made: dict[torch.device, BlockMask] = field(default_factory=dict)

    def __call__(self, device: torch.device | str | int, **_how: object) -> BlockMask:
        place = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
        if place not in self.made:
            self.made[place] = self.build(place)
            vars(self.made[place])["to"] = self
        return self.made[place]


def spread(build: Callable[[torch.device], BlockMask], device: torch.device) -> BlockMask:
    """The mask that `build` makes on a device, and on any other once a layer is there."""
    return _Copies(build)(device)


def _blocks(until: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two bool (B, B): [q, k] where every pair of two blocks is seen, and where only some are."""
    ends = until.view(-1, BLOCK)
    blocks = torch.arange(len(ends), device=until.device)
    first = (blocks * BLOCK)[:, None]
    below = blocks[:, None] > blocks[None, :]
    whole = below & (ends.amin(1)[None, :] >= first + BLOCK)
    some = (below & (ends.amax(1)[None, :] > first)) | (blocks[:, None] == blocks[None, :])
    return whole, some & ~whole


def _slide(
    whole: torch.Tensor, partial: torch.Tensor, depth: torch.Tensor, window: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The blocks that a sliding layer still sees: whole only where no pair is too far apart."""
    levels = depth.view(-1, BLOCK)
    lowest, highest = levels.amin(1), levels.amax(1)
    near = highest[:, None] - lowest[None, :] < window
    reached = lowest[:, None] - highest[None, :] < window
    return whole & near, (partial | (whole & ~near)) & reached


def _listed(
    whole: torch.Tensor, partial: torch.Tensor, without: Sequence[Piece] = ()
) -> dict[str, torch.Tensor]:
    """Blocks as the mask takes them: int32 (1, 1, B) how many, (1, 1, B, B) which ones first.

    The keys of each block of queries, and the queries of each block of keys for the backward pass,
    none of them with what pieces hold; all sorted at once, because launches take longer.
    """
    blocks = torch.stack((partial, whole))
    for low, high, first, last in without:
        blocks[:, low // BLOCK : high // BLOCK, first // BLOCK : last // BLOCK] = False
    blocks = torch.cat((blocks, blocks.mT))
    count = blocks.sum(-1, dtype=torch.int32)
    order = torch.argsort(~blocks, dim=-1, stable=True)
    lists = {}
    for name, many, which in zip(_LISTS, count, order, strict=True):
        lists[f"{name}_num_blocks"] = many[None, None].clone()
        lists[f"{name}_indices"] = which[None, None].to(torch.int32)
    return lists


def _none(blocks: int, device: torch.device) -> dict[str, torch.Tensor]:
    """The lists of a mask whose blocks nothing reads."""
    count = torch.zeros(1, 1, blocks, dtype=torch.int32, device=device)
    order = torch.zeros(1, 1, blocks, blocks, dtype=torch.int32, device=device)
    counts = {f"{name}_num_blocks": count for name in _LISTS}
    return counts | {f"{name}_indices": order for name in _LISTS}


def _interval(until: torch.Tensor) -> Mask:
    def seen(
        _batch: torch.Tensor, _head: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> torch.Tensor:
        return (key <= query) & (query < until[key])

    return seen


def _windowed(until: torch.Tensor, depth: torch.Tensor, window: int) -> Mask:
    reach = torch.tensor(window, dtype=torch.int32, device=until.device)

    def seen(
        _batch: torch.Tensor, _head: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> torch.Tensor:
        return (key <= query) & (query < until[key]) & (depth[query] - depth[key] < reach)

    return seen


def _options(query: torch.Tensor) -> Any:
    short = query.dtype in (torch.bfloat16, torch.float16)
    return _WHOLE | _TUNED if short and query.shape[-1] == _TUNED_HEAD else _WHOLE


def _attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: BlockMask, scale: float
) -> torch.Tensor:
    taken: torch.Tensor | None = mask.pieces  # type: ignore[attr-defined]  # set above
    calls: remainder.Calls | None = mask.calls  # type: ignore[attr-defined]
    if taken is not None and calls is not None:
        return varlen.attend((query, key, value), taken, calls, scale)
    if taken is not None and mask.alone:  # type: ignore[attr-defined]
        return pieced.attend((query, key, value), taken, scale)
    mixed, aux = flex_attention(
        query,
        key,
        value,
        block_mask=mask,
        scale=scale,
        enable_gqa=query.shape[1] != key.shape[1],
        kernel_options=_options(query),
        return_aux=AuxRequest(lse=taken is not None),
    )
    if taken is None or aux.lse is None:
        return mixed
    return pieced.attend_with((mixed, aux.lse), (query, key, value), taken, scale)


_compiled = fused.compile_within_limits(_attend, dynamic=True)
"""For layers that are not compiled themselves: uncompiled, FlexAttention makes a T x T array."""


def _flex(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: BlockMask | None,
    **arguments: Any,
) -> tuple[torch.Tensor, None]:
    """Attention under a block mask; refuses a missing mask and anything it could not apply."""
    if not isinstance(attention_mask, BlockMask):
        raise ModelError(f"{type(module).__name__}: the packed mask did not reach this layer")
    for name in ("softcap", "s_aux", "position_bias"):
        if arguments.get(name) is not None:
            raise ModelError(f"{type(module).__name__}: flex cannot apply {name}; take eager")
    scale = arguments.get("scaling")
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    inline = torch.compiler.is_compiling() or query.device.type == "cpu"
    mixed = (_attend if inline else _compiled)(query, key, value, attention_mask, scale)
    return mixed.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, _flex)
