"""Packed rows say and train what LogitTree does, in every family, on trees made to break them.

Soft caps, scaled and tied heads, windows that slide by depth, positions of their own: each is right
on a plain tree by luck more easily than on these.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    Cohere2Config,
    CohereConfig,
    Gemma2Config,
    Gemma3TextConfig,
    LlamaConfig,
    PreTrainedConfig,
    Qwen3Config,
)

from mwviz.engine import batches, memory, order
from mwviz.engine.losses import Floats, backward
from mwviz.engine.model import Model
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz.tree import EvictionTree
from mwviz.views import build_view
from tests.engine import tiny

WINDOW = 6
SIZES: dict[str, object] = {
    "vocab_size": tiny.VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
}
KINDS = ["sliding_attention", "full_attention", "sliding_attention"]
SLIDES: dict[str, object] = {"sliding_window": WINDOW, "layer_types": KINDS}
CONFIGS: dict[str, tuple[type[PreTrainedConfig], dict[str, object]]] = {
    "llama": (LlamaConfig, {}),
    "llama-tied": (LlamaConfig, {"tie_word_embeddings": True, "attention_bias": True}),
    "qwen3": (Qwen3Config, {}),
    "qwen3-sliding": (Qwen3Config, SLIDES | {"use_sliding_window": True}),
    "gemma2": (
        Gemma2Config,
        SLIDES
        | {
            "attn_logit_softcapping": 3.0,
            "final_logit_softcapping": 2.0,
            "query_pre_attn_scalar": 5,
        },
    ),
    "gemma2-uncapped": (
        Gemma2Config,
        SLIDES | {"attn_logit_softcapping": None, "final_logit_softcapping": 1.5},
    ),
    "gemma3": (Gemma3TextConfig, SLIDES | {"final_logit_softcapping": 2.5}),
    "cohere": (CohereConfig, {"logit_scale": 0.3, "use_qk_norm": True}),
    "cohere2": (Cohere2Config, SLIDES | {"logit_scale": 0.2}),
}
ROUNDING = {"logprob": 2e-5, "gradient": 1e-4}
"""Nats, and relative, in float32 with weights that react to their context; a mask that is wrong by
one pair, or a factor, is 1e-3 and more."""
MODELS: dict[str, Model] = {}


def model_of(name: str) -> Model:
    """Made once; the seed is fixed."""
    if name not in MODELS:
        kind, own = CONFIGS[name]
        MODELS[name] = tiny.model_of(kind.from_dict(SIZES | own))
    return MODELS[name]


@st.composite
def trees(draw: st.DrawFn) -> EvictionTree:
    """Calls that go on, go back, drop a middle and start anew, with runs of one token.

    Tokens of a small set, so that equal text stands under different parents; contexts longer than a
    window and shorter, and several branches whose parting lies within one window.
    """
    token = st.sampled_from((1, 2, 3)) | st.integers(0, tiny.VOCABULARY - 1)
    calls: list[tuple[list[int], list[int]]] = []
    context = draw(st.lists(token, min_size=1, max_size=9))
    for _ in range(draw(st.integers(2, 6))):
        said = draw(st.lists(token, min_size=1, max_size=7))
        calls.append((list(context), said))
        after = [*context, *said]
        kind = draw(st.sampled_from(("on", "back", "drop", "anew")))
        cut = draw(st.integers(1, len(after)))
        more = draw(st.lists(token, max_size=4))
        if kind == "on":
            context = [*after, *more]
        elif kind == "back":
            context = [*after[:cut], *more]
        elif kind == "drop":
            context = [*after[: cut // 2], *after[cut:], *more]
        else:
            context = more
        context = context[:40] or [1]
    return tiny.tree_of(calls)


def scored(tree: EvictionTree, model: Model, method: str) -> Floats:
    return finish(score(tree, build_view(tree, method), model)).logprob


def gradient(tree: EvictionTree, model: Model, method: str) -> torch.Tensor:
    backward(tree, build_view(tree, method), model)
    parts = [p.grad.flatten() for p in model.module.parameters() if p.grad is not None]
    model.module.zero_grad(set_to_none=True)
    return torch.cat(parts).double()


@pytest.mark.parametrize("name", CONFIGS)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(tree=trees(), cut=st.booleans())
def test_packed_and_separate_agree(name: str, tree: EvictionTree, cut: bool) -> None:
    model = model_of(name)
    expected, slopes = scored(tree, model, "logit_tree"), gradient(tree, model, "logit_tree")
    with pytest.MonkeyPatch.context() as patch:
        if cut:
            longest = max(row.size for row in build_view(tree, "logit_tree").rows)
            patch.setattr(memory, "most_tokens", lambda *_, **__: longest + 2)
            patch.setattr(batches, "possible", lambda *_: False)
        found = scored(tree, model, "packed_mask")
        assert np.abs(found - expected).max() < ROUNDING["logprob"]
        off = gradient(tree, model, "packed_mask") - slopes
        assert float(off.norm()) <= ROUNDING["gradient"] * float(slopes.norm())


@pytest.mark.parametrize("name", CONFIGS)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(tree=trees())
def test_log_probabilities_are_the_models_own(name: str, tree: EvictionTree) -> None:
    """As its own forward pass gives them, caps and scales of its head among them."""
    model = model_of(name)
    found = scored(tree, model, "packed_mask")
    for target in (0, len(tree.token) // 2, len(tree.token) - 1):
        path = tree.path(int(tree.query[target]))
        ids = torch.from_numpy(tree.ids[path].astype(np.int64))[None]
        with torch.inference_mode():
            logits = model.module(input_ids=ids, use_cache=False).logits[0, -1]
        said = float(logits.double().log_softmax(-1)[int(tree.ids[tree.token[target]])])
        assert found[target] == pytest.approx(said, abs=ROUNDING["logprob"])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(tree=trees())
def test_heavy_order_keeps_what_every_token_sees(tree: EvictionTree) -> None:
    (row,) = build_view(tree, "packed_mask").rows
    until, index = row.visible_until, np.arange(row.size)
    found = order.heavy_first(until)
    assert found is not None
    seen = (index[None] <= index[:, None]) & (index[:, None] < until[None])
    moved = (index[None] <= index[:, None]) & (index[:, None] < found.visible_until[None])
    assert np.array_equal(moved, seen[np.ix_(found.token, found.token)])
