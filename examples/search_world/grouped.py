"""Attention of one new token: the heads that share keys and values ask for them together.

What transformers' own does with a mask on CUDA repeats keys and values for every head at every
token. Letters: B prompts, H heads, K heads of keys and values, T queries, S keys, W width.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

NAME = "search_world_grouped"
"""Name under which the attention function is registered."""


def grouped(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """(B, T, H, W): SDPA of queries (B, H, T, W) over keys (B, K, S, W).

    With one query the heads of a group are its rows instead: the same sums, nothing repeated.
    """
    batch, heads, length, width = query.shape
    if length > 1 or attention_mask is None:
        mixed, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **others
        )
        return mixed, None
    mixed = torch.nn.functional.scaled_dot_product_attention(
        query.reshape(batch, key.shape[1], -1, width), key, value, attention_mask, scale=scaling
    )
    return mixed.reshape(batch, 1, heads, width), None


AttentionInterface.register(NAME, grouped)
