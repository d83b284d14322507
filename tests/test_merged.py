"""A model in training is sampled from with its adapter in the weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from peft.tuners.lora import LoraLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from examples.search_world.grouped import grouped
from examples.search_world.merged import Merged
from examples.search_world.sampling import ModelSampler
from mwviz.engine.model import Model
from mwviz.training.learner import Learner, learner
from mwviz.training.recipe import Recipe
from tests.engine.tiny import llama_config, model_of
from tests.test_search_world import STOP

IDS = torch.arange(5, 35)[None]


@pytest.fixture
def taught() -> Learner:
    """A learner whose adapter and norms are not those of the start."""
    tiny = model_of(llama_config(vocab_size=258))
    torch.manual_seed(0)
    for layer in tiny.module.modules():
        if isinstance(layer, LlamaRMSNorm):
            torch.nn.init.uniform_(layer.weight, 0.5, 1.5)
    mine = learner(tiny, Recipe(lora_rank=4))
    _teach(mine)
    return mine


def _teach(mine: Learner) -> None:
    for part in mine.parameters:
        torch.nn.init.normal_(part, std=0.3)


@torch.no_grad()
def _known(model: Model) -> torch.Tensor:
    known: torch.Tensor = model.module(input_ids=IDS).logits.log_softmax(-1)
    return known


def test_it_says_what_the_model_with_the_adapter_says(taught: Learner) -> None:
    merged = Merged(taught).model
    assert not any(isinstance(one, LoraLayer | LlamaRMSNorm) for one in merged.module.modules())
    torch.testing.assert_close(_known(merged), _known(taught.model), atol=1e-5, rtol=1e-5)
    assert float((_known(merged) - _known(taught.source)).abs().max()) > 0.1


def test_it_follows_when_told_and_in_the_same_place(taught: Learner) -> None:
    merged = Merged(taught)
    places = [part.data_ptr() for part in merged.model.module.parameters()]
    before = _known(merged.model)
    _teach(taught)
    torch.testing.assert_close(_known(merged.model), before, atol=0, rtol=0)
    merged.refresh()
    torch.testing.assert_close(_known(merged.model), _known(taught.model), atol=1e-5, rtol=1e-5)
    assert [part.data_ptr() for part in merged.model.module.parameters()] == places


def test_it_leaves_the_start_as_it_was(taught: Learner) -> None:
    before = {name: part.clone() for name, part in taught.source.module.state_dict().items()}
    Merged(taught)
    for name, part in taught.source.module.state_dict().items():
        torch.testing.assert_close(part, before[name], atol=0, rtol=0)


def test_what_is_sampled_from_it_has_the_learners_own_log_probabilities(taught: Learner) -> None:
    prompts = [np.arange(2, 2 + size, dtype=np.int32) for size in (30, 12)]
    one, two = (
        ModelSampler(model, stop=STOP, seed=3).complete(prompts, [9, 9])
        for model in (taught.model, Merged(taught).model)
    )
    for ours, theirs in zip(one, two, strict=True):
        assert ours.ids.tolist() == theirs.ids.tolist()
        assert ours.logprobs is not None
        assert theirs.logprobs is not None
        np.testing.assert_allclose(ours.logprobs, theirs.logprobs, atol=1e-5)


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("heads", [(6, 2), (4, 4)], ids=["grouped", "alike"])
def test_heads_that_share_keys_attend_as_if_each_had_its_own(
    queries: int, heads: tuple[int, int]
) -> None:
    torch.manual_seed(0)
    many, few = heads
    query = torch.randn(2, many, queries, 8)
    key, value = torch.randn(2, 2, few, 11, 8)
    seen = torch.rand(2, 1, queries, 11) > 0.4
    seen[..., 0] = True
    mask = torch.zeros(seen.shape).masked_fill_(~seen, torch.finfo(torch.float32).min)
    module = torch.nn.Module()
    module.num_key_value_groups = many // few  # type: ignore[assignment]  # of any module
    ours, _ = grouped(module, query, key, value, mask, scaling=0.3)
    keys, values = (part.repeat_interleave(many // few, dim=1) for part in (key, value))
    module.num_key_value_groups = 1  # type: ignore[assignment]  # of any module
    theirs, _ = sdpa_attention_forward(module, query, keys, values, mask, scaling=0.3)
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)
