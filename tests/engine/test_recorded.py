"""The embedded model against what it said when it sampled: about 60 s with every rollout."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from mwviz.engine import floors
from mwviz.engine.losses import backward
from mwviz.engine.model import Model
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz.tree import EvictionTree
from mwviz.views import View, build_view
from tests.engine import tiny

pytestmark = pytest.mark.embedded

COMMITTED = Path(__file__).parents[1] / "data" / "smollm2" / "calls.jsonl"
RECORDED = Path(__file__).parents[3] / "shared" / "samples" / "smollm2" / "calls.jsonl"
"""All recorded rollouts, where they lie beside the checkout."""
ROUNDING = 1e-4
"""Largest |d| from the recorded logprobs in nats, in float32; 2.5e-5 was measured."""


def rollouts(path: Path) -> dict[str, EvictionTree]:
    """Trees of the untuned model's rollouts; `sft-*` were sampled by other weights."""
    calls: dict[str, list[dict[str, list[int]]]] = {}
    for line in path.read_text().splitlines():
        call = json.loads(line)
        if not call["rollout"].startswith("sft-"):
            calls.setdefault(call["rollout"], []).append(call)
    return {
        name: tiny.tree_of(
            [(call["prompt_ids"], call["completion_ids"]) for call in log],
            [call["logprobs"] for call in log],
        )
        for name, log in calls.items()
    }


def assert_exact(tree: EvictionTree, model: Model) -> None:
    packed = finish(score(tree, build_view(tree, "packed_mask"), model)).logprob
    separate = finish(score(tree, build_view(tree, "logit_tree"), model)).logprob
    assert np.abs(packed - tree.logprob).max() < ROUNDING
    assert np.abs(separate - tree.logprob).max() < ROUNDING


@pytest.mark.parametrize("name", ["train-fold-0", "held-window-0", "train-summary-0"])
def test_exact_methods_give_back_the_recorded_logprobs(smollm2: Model, name: str) -> None:
    assert_exact(rollouts(COMMITTED)[name], smollm2)


def test_every_recorded_rollout_is_given_back(smollm2: Model) -> None:
    """About 40 s."""
    if not RECORDED.is_file():
        pytest.skip("no recorded rollouts beside the checkout")
    committed = rollouts(COMMITTED)
    others = {name: tree for name, tree in rollouts(RECORDED).items() if name not in committed}
    assert others
    for tree in others.values():
        assert_exact(tree, smollm2)


@pytest.mark.parametrize("wrong", [tiny.wrong_positions, tiny.plain_causal])
def test_wrong_positions_or_a_missing_mask_miss_the_record(
    smollm2: Model, wrong: Callable[[EvictionTree], View]
) -> None:
    tree = rollouts(COMMITTED)["train-fold-0"]
    scores = finish(score(tree, wrong(tree), smollm2))
    assert np.abs(scores.logprob - tree.logprob).max() > 0.1


def test_packed_and_logit_tree_train_the_same(smollm2: Model) -> None:
    """About 25 s: forward and backward of one rollout in both layouts."""
    tree = rollouts(COMMITTED)["train-fold-0"]
    expected = list(gradient(tree, "logit_tree", smollm2))
    found = list(gradient(tree, "packed_mask", smollm2))
    norm = sum(float((e**2).sum()) for e in expected) ** 0.5
    error = sum(float(((f - e) ** 2).sum()) for f, e in zip(found, expected, strict=True)) ** 0.5
    assert error / norm < 1e-4


def test_floor_of_a_rollout_is_rounding(smollm2: Model) -> None:
    tree = rollouts(COMMITTED)["held-window-0"]
    views = build_view(tree, "packed_mask"), build_view(tree, "logit_tree")
    floor = floors.measure_floor(tree, smollm2, *views, limit=60)
    assert 60 <= floor.targets < len(tree.token)
    assert 0 < floor.p50 < floor.p999 < ROUNDING


def gradient(tree: EvictionTree, method: str, model: Model) -> Iterator[torch.Tensor]:
    """float64: dot products of 135 M numbers lose 2 % in float32."""
    parameters = list(model.module.parameters())
    backward(tree, build_view(tree, method), model)
    found = [part.grad for part in parameters]
    model.module.zero_grad(set_to_none=True)
    return (part.double() for part in found if part is not None)
