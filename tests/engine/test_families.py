"""One tiny random model of each family that agents are trained with: packed equals separate."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import (
    Gemma3TextConfig,
    GPT2Config,
    GPTNeoXConfig,
    JambaConfig,
    LlamaConfig,
    MistralConfig,
    Phi3Config,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
)

from mwviz.engine.losses import backward
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz.errors import ModelError
from mwviz.views import View, build_view
from tests.engine import tiny

ROUNDING = 1e-4
"""Nats, in float32."""
GRADIENT_ROUNDING = 1e-4
"""Relative; float32 sums in another order."""
REACTS = 0.1
"""Nats by which a wrong layout must move some score, or equality would prove nothing."""
WINDOW = 5
"""Tokens that sliding layers see: less than the contexts below."""
TREE = tiny.tree_of(((range(8), range(20, 30)), (range(8), range(30, 44))))
SIZES: dict[str, object] = {
    "vocab_size": tiny.VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
}
OWN: dict[str, tuple[type[PreTrainedConfig], dict[str, object]]] = {
    "llama": (LlamaConfig, {}),
    "qwen2": (Qwen2Config, {}),
    "qwen3": (Qwen3Config, {"head_dim": 16}),
    "qwen3-moe": (
        Qwen3MoeConfig,
        {
            "head_dim": 16,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "decoder_sparse_step": 1,
        },
    ),
    "gemma3": (
        Gemma3TextConfig,
        {
            "head_dim": 16,
            "sliding_window": WINDOW,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
    "mistral": (MistralConfig, {"sliding_window": WINDOW}),
    "phi3": (Phi3Config, {"sliding_window": None, "partial_rotary_factor": 0.5}),
    "gpt-neox": (GPTNeoXConfig, {}),
    "gpt2": (
        GPT2Config,
        {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128},
    ),
}


def config_of(name: str) -> PreTrainedConfig:
    kind, own = OWN[name]
    config: PreTrainedConfig = kind.from_dict(SIZES | own)
    return config


def logprobs(config: PreTrainedConfig, view: View) -> np.ndarray:
    return finish(score(TREE, view, tiny.model_of(config))).logprob


@pytest.mark.parametrize("name", OWN)
def test_packed_scores_are_those_of_separate_branches(name: str) -> None:
    config = config_of(name)
    separate = logprobs(config, build_view(TREE, "logit_tree"))
    packed = logprobs(config, build_view(TREE, "packed_mask"))
    assert np.abs(packed - separate).max() < ROUNDING
    for wrong in (tiny.wrong_positions(TREE), tiny.plain_causal(TREE)):
        assert np.abs(logprobs(config, wrong) - separate).max() > REACTS


@pytest.mark.parametrize("name", ["gemma3", "mistral", "qwen3-moe", "phi3"])
def test_packed_gradients_are_those_of_separate_branches(name: str) -> None:
    found = []
    for method in ("logit_tree", "packed_mask"):
        model = tiny.model_of(config_of(name))
        backward(TREE, build_view(TREE, method), model)
        parts = [p.grad for p in model.module.parameters() if p.grad is not None]
        found.append(torch.cat([part.double().flatten() for part in parts]).numpy())
    error = np.linalg.norm(found[1] - found[0]) / np.linalg.norm(found[0])
    assert error < GRADIENT_ROUNDING


@pytest.mark.parametrize("name", ["gemma3", "mistral"])
def test_windows_are_shorter_than_the_contexts(name: str) -> None:
    config = config_of(name)
    short = logprobs(config, build_view(TREE, "logit_tree"))
    config.sliding_window = 4096
    assert np.abs(logprobs(config, build_view(TREE, "logit_tree")) - short).max() > REACTS


def test_a_hybrid_that_carries_a_state_is_refused_with_what_works() -> None:
    own = {"num_experts": 2, "num_experts_per_tok": 1, "mamba_d_state": 8}
    own |= {"attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False}
    model = tiny.model_of(JambaConfig.from_dict(SIZES | own))
    with pytest.raises(ModelError, match=r"jamba: .*layer.*logit_tree"):
        score(TREE, build_view(TREE, "packed_mask"), model)
    each = finish(score(TREE, build_view(TREE, "logit_tree"), model)).logprob
    calls = finish(score(TREE, build_view(TREE, "call_by_call"), model)).logprob
    assert np.abs(each - calls).max() < ROUNDING
