"""Tiny random models on disk, for tests that name a model by its folder."""

from __future__ import annotations

from pathlib import Path

import tokenizers
import torch
from tokenizers import decoders, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

OPEN, CLOSE = "<|im_start|>", "<|im_end|>"
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""A chat template that sends what it is given, but drops tool calls and the list of tools."""
BYTES = 300
"""Tokens of the chat model's vocabulary: all bytes, both marks and some pairs."""


def save_chat_model(folder: Path, template: str = TEMPLATE) -> None:
    """A model like the tiny one with a byte-level tokenizer and a chat template."""
    save_tiny_model(folder, BYTES)
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=BYTES,
        special_tokens=[OPEN, CLOSE],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(["user assistant system what is four"] * 5, trainer)
    fast = {"tokenizer_object": made, "bos_token": OPEN, "eos_token": CLOSE}
    found = PreTrainedTokenizerFast(**fast)  # type: ignore[no-untyped-call]  # transformers has none
    found.chat_template = template
    found.save_pretrained(folder)


def save_tiny_model(folder: Path, vocabulary: int = 32) -> None:
    """Two layers over a few tokens; its weights are large, so that it reacts to its context."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.2,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
