"""A packed batch for a training loop of your own: needs torch and safetensors, nothing else."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

Batch = dict[str, torch.Tensor]


def load_packed(path: str | Path, device: str = "cpu") -> Batch:
    """The arrays that `mwviz convert --as packed` wrote, by name; see `mwviz.exports`."""
    return load_file(path, device=device)


def to_block_mask(batch: Batch) -> BlockMask:
    """FlexAttention's mask of a packed batch: query q sees key k if `k <= q < visible_until[k]`."""
    until = batch["visible_until"]

    def seen(_b: torch.Tensor, _h: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return (k <= q) & (q < until[k])

    size = len(until)
    return create_block_mask(seen, None, None, size, size, device=str(until.device))


def packed_loss(logits: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Mean negative log-likelihood of all targets, in nats, from logits (T, V)."""
    trained = batch["loss_mask"] > 0
    predicted = torch.log_softmax(logits[batch["predicted_from"][trained]].float(), dim=-1)
    chosen = predicted.gather(1, batch["input_ids"][trained, None].long())[:, 0]
    weight = batch["loss_mask"][trained]
    return -(weight * chosen).sum() / weight.sum()
