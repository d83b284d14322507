from __future__ import annotations

import numpy as np
import pytest
import torch

from mwviz.engine.losses import backward
from mwviz.engine.model import Model, wrap
from mwviz.engine.score import score
from mwviz.engine.scores import Scores
from mwviz.engine.steps import finish
from mwviz.tree import EvictionTree
from mwviz.views import build_view
from tests.engine import tiny

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

TREE = tiny.tree_of(
    (
        (range(30), range(40, 60)),
        (range(20), range(20, 50)),
        ([*range(10), *range(30, 40)], range(63, 30, -1)),
    )
)


ROUNDING = 5e-5
"""Largest |d| of equal contexts in nats, in float32; random weights of this size amplify it."""


def on_gpu(dtype: torch.dtype) -> Model:
    module = tiny.module_of(tiny.llama_config(), dtype=dtype)
    torch.nn.Module.to(module, "cuda")
    return wrap(module, name="llama", revision="random")


def scored(tree: EvictionTree, method: str, model: Model, kernel: str = "auto") -> Scores:
    return finish(score(tree, build_view(tree, method), model, kernel=kernel))


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_packed_scores_equal_separate_ones(kernel: str) -> None:
    model = on_gpu(torch.float32)
    packed, separate = scored(TREE, "packed_mask", model, kernel), scored(TREE, "logit_tree", model)
    cpu = scored(TREE, "logit_tree", tiny.llama())
    assert packed.device == "cuda"
    assert np.abs(packed.logprob - separate.logprob).max() < ROUNDING
    assert np.abs(separate.logprob - cpu.logprob).max() < ROUNDING


def test_wrong_positions_move_scores() -> None:
    model = on_gpu(torch.float32)
    truth = scored(TREE, "logit_tree", model).logprob
    wrong = finish(score(TREE, tiny.wrong_positions(TREE), model)).logprob
    assert np.nanmax(np.abs(wrong - truth)) > 0.1


def test_bfloat16_is_isolated_and_near() -> None:
    model = on_gpu(torch.bfloat16)
    packed, separate = scored(TREE, "packed_mask", model), scored(TREE, "logit_tree", model)
    assert packed.dtype == "bfloat16"
    assert np.median(np.abs(packed.logprob - separate.logprob)) < 0.1


def test_packed_and_logit_tree_train_the_same() -> None:
    found = []
    for method in ("logit_tree", "packed_mask"):
        model = on_gpu(torch.float32)
        backward(TREE, build_view(TREE, method), model)
        parts = [p.grad.double().flatten() for p in model.module.parameters() if p.grad is not None]
        found.append(torch.cat(parts))
    assert float((found[1] - found[0]).norm() / found[0].norm()) < 1e-5
