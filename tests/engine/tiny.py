"""Small trees and random models for engine tests: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    PreTrainedConfig,
    PreTrainedModel,
)

from mwviz.engine.model import Model, wrap
from mwviz.rollout import Call, Rollout
from mwviz.tokens import CallTokens, Encoding
from mwviz.tree import EvictionTree, build_tree
from mwviz.views import Row, View, build_view
from mwviz.views.view import Edges

VOCABULARY = 64

RUNNING_EXAMPLE = (
    ([0], [1, 2, 3, 4, 5, 6, 7]),
    ([0, 1, 2, 3, 4, 6, 7], [8, 9, 10]),
    ([0, 1, 2, 3, 4, 6, 7, 9, 10], [11, 12]),
    ([0, 1, 2, 3, 4, 6, 7, 9, 10, 12], [13]),
)
"""Theory, T1: drop 5, then 8, then 11."""
REWIND = (([1, 2, 3], [10, 11, 12]), ([1, 2, 3], [20, 21, 22]))
"""Theory, T4: one query node with two loss edges."""

Ids = Sequence[int] | npt.NDArray[np.int32]
Calls = Sequence[tuple[Ids, Ids]]


def tree_of(calls: Calls, logprobs: Sequence[Sequence[float]] | None = None) -> EvictionTree:
    """The eviction tree of calls given as (prompt ids, completion ids)."""
    recorded, tokens = [], []
    for index, (prompt, completion) in enumerate(calls):
        ids = np.array(prompt, dtype=np.int32), np.array(completion, dtype=np.int32)
        said = None if logprobs is None else np.array(logprobs[index], dtype=np.float32)
        recorded.append(Call(str(index), prompt_ids=ids[0], completion_ids=ids[1], logprobs=said))
        tokens.append(CallTokens((ids[0],), ids[1], ()))
    encoding = Encoding(tuple(tokens), tokenizer="test", rendering="recorded")
    return build_tree(encoding, Rollout("test", tuple(recorded)))


def module_of(config: PreTrainedConfig, *, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """A random model; its weights are large, so that it reacts to its context."""
    torch.manual_seed(3)
    config.initializer_range = 0.2
    build = AutoModelForCausalLM.from_config
    module = build(config, dtype=dtype)  # type: ignore[no-untyped-call]  # transformers'
    assert isinstance(module, PreTrainedModel)
    module.train(mode=False)
    return module


def model_of(config: PreTrainedConfig, *, dtype: torch.dtype = torch.float32) -> Model:
    return wrap(module_of(config, dtype=dtype), name=config.model_type, revision="random")


def llama_config(**changes: object) -> LlamaConfig:
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
    }
    return LlamaConfig.from_dict(sizes | changes)


def gpt2_config() -> GPT2Config:
    return GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=2, n_positions=128)


def llama() -> Model:
    return model_of(llama_config())


def gpt2() -> Model:
    """In float64: its layer norm, unlike RMSNorm, is computed in the model's dtype."""
    return model_of(gpt2_config(), dtype=torch.float64)


def wrong_positions(tree: EvictionTree) -> View:
    """Packed with the right mask, but positions 0..N-1."""
    (row,) = build_view(tree, "packed_mask").rows
    return _packed(tree, replace(row, first_position=row.first_node))


def plain_causal(tree: EvictionTree) -> View:
    """Packed with the right positions, but no mask beyond causality."""
    (row,) = build_view(tree, "packed_mask").rows
    return _packed(tree, replace(row, mask="causal"))


def branch_all(tree: EvictionTree) -> View:
    """One row a branch; every sampled token on a branch trains on it."""
    target_of = {int(tree.origin[node]): target for target, node in enumerate(tree.token)}
    rows = []
    for row in build_view(tree, "logit_tree").rows:
        places = [
            (place - 1, target_of[int(tree.origin[node])])
            for place, node in enumerate(row.nodes)
            if place and int(tree.origin[node]) in target_of
        ]
        query, target = np.array(places, dtype=np.int64).T
        rows.append(replace(row, edges=Edges(query, target, np.ones(len(query), np.float32))))
    return View("branch_all", tuple(rows), len(tree.token), ())


def _packed(tree: EvictionTree, row: Row) -> View:
    return View("packed_mask", (row,), len(tree.token), ())
