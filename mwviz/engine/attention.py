"""Turns a row and its mask into a forward pass: the only place that knows attention kernels.

A causal row runs through the model's own kernel. A packed (`tree`) row gives the model an explicit
additive mask, handed to a registered attention function, so that nothing is guessed from position
ids and nothing that would change the scores is dropped. Letters: T tokens of a row, H width.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from transformers import AttentionInterface

from mwviz.engine.model import Model, memory_errors
from mwviz.errors import ModelError
from mwviz.tree import EvictionTree
from mwviz.trie import Longs
from mwviz.views.view import Edges, Row

KERNELS = ("auto", "sdpa", "eager", "flash_attention_2", "flash_attention_3")
MAX_DENSE = 8192
"""Tokens of a packed row that may get a dense mask: 268 MB in float32."""
CPU_BLOCK = 256
"""Queries of a packed row that share a gather of the keys they see; on the CPU that is faster."""

_PACKED = "mwviz_sdpa"
"""Name under which the attention function for explicit masks is registered."""
_SCORE_CHANGES = ("softcap", "s_aux", "position_bias")
"""Arguments of a model's attention that change scores and that SDPA cannot apply."""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A row as the model is fed it, cut to the contexts the model can hold."""

    ids: npt.NDArray[np.int32]
    """int32 (T,)."""
    positions: Longs
    """int64 (T,): position ids."""
    visible_until: Longs | None
    """int64 (T,): key k is seen by the queries `k <= q < visible_until[k]`; None if causal."""
    edges: Edges
    """Loss terms with positive weight whose query is in the row."""
    cut: Longs
    """int64: targets left out because their context exceeds the model's limit."""


def layout(
    tree: EvictionTree, row: Row, *, limit: int | None, keep: npt.NDArray[np.bool_] | None = None
) -> Layout:
    """The row without what does not fit.

    Args:
        tree: The tree the row indexes.
        row: What to feed.
        limit: Longest context in tokens; None if there is none.
        keep: bool (T,): positions of a `tree` row to run, closed under ancestors; None runs all.
    """
    positions = row.positions
    fits = np.ones(row.size, dtype=bool) if limit is None else positions < limit
    if row.mask in {"causal", "alive"}:
        fits = np.logical_and.accumulate(fits)
    kept = fits if keep is None else fits & keep
    trained = row.edges.weight > 0
    query, target, weight = (column[trained] for column in row.edges)
    held = kept[query]
    index = np.cumsum(kept)
    visible_until = None
    if row.mask != "causal":
        before = np.concatenate(([0], index))
        visible_until = before[row.visible_until][kept]
    return Layout(
        ids=tree.ids[row.nodes[kept]],
        positions=positions[kept],
        visible_until=visible_until,
        edges=Edges(index[query[held]] - 1, target[held], weight[held]),
        cut=target[~fits[query]],
    )


def choose_kernel(model: Model, *, packed: bool, kernel: str = "auto") -> str:
    """The kernel that rows of one kind run on.

    Raises:
        ModelError: The kernel is unknown, or this model cannot be given a packed mask with it.
    """
    if kernel not in KERNELS:
        raise ModelError(f"unknown kernel {kernel!r}; expected one of {', '.join(KERNELS)}")
    can = model.capability
    wanted = can.kernels[0] if kernel == "auto" else kernel
    if packed and can.refusals:
        raise ModelError(
            f"{model.name}: a packed mask cannot be used: {'; '.join(can.refusals)}. "
            "logit_tree gives the same scores"
        )
    # The model's own wish counts only where running it otherwise would hide that it leaks.
    asked = can.requested if kernel == "auto" and can.requested else wanted
    if packed and asked.startswith("flash_attention"):
        raise ModelError(
            f"{model.name}: {asked} takes no 4D mask, so a packed row would leak; "
            "take logit_tree, or kernel sdpa or eager"
        )
    if wanted not in can.kernels and not wanted.startswith("flash_attention"):
        raise ModelError(
            f"{model.name}: kernel {wanted} cannot apply this model's attention; "
            f"expected one of {', '.join(can.kernels)}"
        )
    return wanted


def hidden_states(model: Model, part: Layout, kernel: str) -> torch.Tensor:
    """(T, H): final hidden states, the input of the vocabulary product, in the model's dtype.

    Args:
        model: Runs in whatever gradient mode the caller has set.
        part: One row.
        kernel: As `choose_kernel` gave it.

    Raises:
        ModelError: The row is too long for a dense mask, or memory ran out.
    """
    ids = torch.from_numpy(part.ids.astype(np.int64))[None].to(model.device)
    arguments: dict[str, object] = {"input_ids": ids, "use_cache": False}
    if model.capability.positions:
        arguments["position_ids"] = torch.from_numpy(part.positions)[None].to(model.device)
    elif not np.array_equal(part.positions, np.arange(len(part.ids))):
        raise ModelError(f"{model.name}: takes no position ids, but this row needs its own")
    packed = part.visible_until is not None
    # All ones, not None: without a mask packed documents are guessed from position ids.
    arguments["attention_mask"] = _masks(model, part) if packed else torch.ones_like(ids)
    with (
        running(model, _PACKED if packed and kernel == "sdpa" else kernel),
        memory_errors(model, len(part.ids)),
    ):
        hidden = model.module.base_model(**arguments).last_hidden_state[0]
    assert isinstance(hidden, torch.Tensor)
    return hidden


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


def _masks(model: Model, part: Layout) -> torch.Tensor | dict[str, torch.Tensor]:
    """One additive mask, or one for each layer type where sliding layers would see less."""
    if len(part.ids) > MAX_DENSE:
        raise ModelError(
            f"a packed row of {len(part.ids)} tokens needs a dense mask of more than "
            f"{MAX_DENSE} x {MAX_DENSE}; logit_tree gives the same scores"
        )
    can = model.capability
    slides = can.window is not None and int(part.positions.max(initial=0)) >= can.window
    if not slides:
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


@contextmanager
def running(model: Model, kernel: str) -> Iterator[None]:
    """Makes the module's attention layers run `kernel`, and what they ran before afterwards."""
    before = model.module.config._attn_implementation
    try:
        model.module.set_attn_implementation(kernel)
    except (ValueError, ImportError) as error:
        raise ModelError(f"{model.name}: kernel {kernel} cannot be used: {error}") from error
    try:
        yield
    finally:
        model.module.set_attn_implementation(before)


def _masked_sdpa(
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
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = (part.repeat_interleave(groups, dim=1) for part in (key, value))
    dropout, scale = arguments.get("dropout", 0.0), arguments.get("scaling")
    assert isinstance(dropout, float)
    assert scale is None or isinstance(scale, float)

    def attend(rows: slice, keys: slice | torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(
            query[:, :, rows],
            key[:, :, keys],
            value[:, :, keys],
            attn_mask=attention_mask[..., rows, :][..., keys],
            dropout_p=dropout,
            scale=scale,
        )

    size = query.shape[2]
    if query.device.type != "cpu" or size <= CPU_BLOCK:
        mixed = attend(slice(None), slice(None))
    else:
        blocks = [slice(start, start + CPU_BLOCK) for start in range(0, size, CPU_BLOCK)]
        seen = [(attention_mask[0, 0, rows] == 0).any(dim=0).nonzero()[:, 0] for rows in blocks]
        mixed = torch.cat([attend(*part) for part in zip(blocks, seen, strict=True)], dim=2)
    return mixed.transpose(1, 2).contiguous(), None


AttentionInterface.register(_PACKED, _masked_sdpa)
