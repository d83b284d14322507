"""A tiny random model on disk, for tests that name a model by its folder."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def save_tiny_model(folder: Path) -> None:
    """Two layers over 32 tokens; its weights are large, so that it reacts to its context."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=32,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.2,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
