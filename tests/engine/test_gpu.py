from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
import torch

from mwviz.engine import attention, batches
from mwviz.engine.bench import random_model
from mwviz.engine.check import built_in_tree
from mwviz.engine.kernels import choose_kernel
from mwviz.engine.layout import Layout
from mwviz.engine.losses import backward
from mwviz.engine.model import MemoryShortageError, Model, wrap
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


MADE: list[Model] = []
"""All models of these tests."""


@lru_cache
def on_gpu(dtype: torch.dtype) -> Model:
    """One model for all tests: what is compiled for it stays."""
    module = tiny.module_of(tiny.llama_config(), dtype=dtype)
    torch.nn.Module.to(module, "cuda")
    MADE.append(wrap(module, name="llama", revision="random"))
    return MADE[-1]


@lru_cache
def long_on_gpu(place: str = "cuda") -> Model:
    """A model with room for large pieces."""
    MADE.append(random_model("tiny", device=torch.device(place), dtype=torch.bfloat16))
    return MADE[-1]


@pytest.fixture(autouse=True)
def nothing_is_known() -> None:
    """No test builds on what another one proved, or left in gradients."""
    for model in MADE:
        model.module.zero_grad(set_to_none=True)
        for found in (model.proofs, model.touching, model.noise):
            found.clear()


def scored(tree: EvictionTree, method: str, model: Model, kernel: str = "auto") -> Scores:
    return finish(score(tree, build_view(tree, method), model, kernel=kernel))


@pytest.mark.parametrize("kernel", ["flex", "sdpa", "eager"])
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


def gradient(tree: EvictionTree, method: str, model: Model, kernel: str = "auto") -> torch.Tensor:
    backward(tree, build_view(tree, method), model, kernel=kernel)
    parts = [p.grad.double().flatten() for p in model.module.parameters() if p.grad is not None]
    model.module.zero_grad()
    return torch.cat(parts)


def distance(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("kernel", ["flex", "sdpa"])
def test_packed_and_logit_tree_train_the_same(kernel: str) -> None:
    model = on_gpu(torch.float32)
    expected = gradient(TREE, "logit_tree", model)
    assert distance(gradient(TREE, "packed_mask", model, kernel), expected) < 1e-5


def test_packed_rows_run_on_block_kernels() -> None:
    assert choose_kernel(on_gpu(torch.float32), packed=True) == "flex"


@pytest.mark.parametrize("sizes", [(4096, 1280, 1152), (4096, 3072, 3072)], ids=["rest", "alone"])
@pytest.mark.parametrize("kernel", ["split", "varlen", "flex"])
def test_a_long_row_trains_as_its_branches_do(kernel: str, sizes: tuple[int, int, int]) -> None:
    """Pieces hold all of the second tree, so that FlexAttention is left out."""
    model = long_on_gpu()
    assert choose_kernel(model, packed=True) == "split"
    tree = built_in_tree(model.vocabulary, sizes)
    packed, separate = scored(tree, "packed_mask", model, kernel), scored(tree, "logit_tree", model)
    assert packed.kernel == kernel
    assert np.median(np.abs(packed.logprob - separate.logprob)) < 0.02
    expected = gradient(tree, "logit_tree", model)
    assert distance(gradient(tree, "packed_mask", model, kernel), expected) < 0.03


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_a_long_row_runs_on_another_card() -> None:
    model = long_on_gpu("cuda:1")
    tree = built_in_tree(model.vocabulary, (4096, 1280, 1152))
    packed, separate = scored(tree, "packed_mask", model), scored(tree, "logit_tree", model)
    assert packed.kernel == "split"
    assert np.median(np.abs(packed.logprob - separate.logprob)) < 0.02


def test_a_row_cut_to_fit_trains_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = on_gpu(torch.float32)
    expected, whole = (
        scored(TREE, "packed_mask", model).logprob,
        gradient(TREE, "packed_mask", model),
    )
    monkeypatch.setattr("mwviz.engine.memory.most_tokens", lambda *_inputs, **_named: 100)
    assert np.abs(scored(TREE, "packed_mask", model).logprob - expected).max() < ROUNDING
    assert distance(gradient(TREE, "packed_mask", model), whole) < 1e-5


def test_layers_run_twice_give_the_same_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    model = on_gpu(torch.float32)
    expected = gradient(TREE, "packed_mask", model)
    monkeypatch.setattr("mwviz.engine.memory.recomputes", lambda *_inputs, **_named: True)
    assert distance(gradient(TREE, "packed_mask", model), expected) < 1e-5


BRANCHES = tiny.tree_of(
    [
        *((range(20), [30 + length, *range(length)]) for length in (0, 17, 18, 19, 33)),
        ([*range(10), 7], range(30)),
        ([5], [6]),
    ]
)
"""Branches of several lengths; some run together, the longest and the shortest alone."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_rows_in_batches_say_and_train_what_they_do_one_by_one(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = on_gpu(dtype)
    rows = build_view(BRANCHES, "logit_tree").rows
    together, slopes = (
        scored(BRANCHES, "logit_tree", model),
        gradient(BRANCHES, "logit_tree", model),
    )
    assert model.touching["sdpa"] == ""
    assert len(batches.grouped(model, rows, kernel="sdpa", train=True)) < len(rows)
    monkeypatch.setattr(batches, "MOST", 0)
    assert len(batches.grouped(model, rows, kernel="sdpa", train=True)) == len(rows)
    alone, expected = scored(BRANCHES, "logit_tree", model), gradient(BRANCHES, "logit_tree", model)
    off = np.abs(together.logprob - alone.logprob)
    exact = dtype == torch.float32
    assert (off.max() < ROUNDING) if exact else (np.median(off) < 0.1)
    assert distance(slopes, expected) < (1e-5 if exact else 0.1)


def test_long_rows_in_batches_run_through_compiled_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of 2,500 to 3,000 tokens, padded to a multiple of 256."""
    model = long_on_gpu()
    random = np.random.default_rng(8)
    trunk = random.integers(0, model.vocabulary, 2000).astype(np.int32)
    own = [random.integers(0, model.vocabulary, size).astype(np.int32) for size in (500, 800, 1000)]
    tree = tiny.tree_of([(trunk, one) for one in own])
    rows = build_view(tree, "logit_tree").rows
    assert [len(group) for group in batches.grouped(model, rows, kernel="sdpa", train=True)] == [3]
    together, slopes = scored(tree, "logit_tree", model), gradient(tree, "logit_tree", model)
    assert model.touching["sdpa compiled"] == ""
    monkeypatch.setattr(batches, "MOST", 0)
    alone, expected = scored(tree, "logit_tree", model), gradient(tree, "logit_tree", model)
    assert np.median(np.abs(together.logprob - alone.logprob)) < 0.02
    assert distance(slopes, expected) < 0.03


def test_a_shortage_on_the_way_back_changes_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the allocator says it, once half of the parameters have their part."""
    model = on_gpu(torch.float32)
    expected = gradient(TREE, "packed_mask", model)
    send, begun, reached = torch.autograd.backward, list[int](), list[int]()

    def full(_gradient: torch.Tensor) -> None:
        reached.append(1)
        if len(begun) == 1 and len(reached) > 10:
            raise torch.OutOfMemoryError("CUDA out of memory")

    def backward_(loss: torch.Tensor, **how: object) -> None:
        begun.append(1)
        send(loss, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(torch.autograd, "backward", backward_)
    parameters = model.module.parameters()
    hooks = [part.register_hook(full) for part in parameters]  # type: ignore[no-untyped-call]
    found = gradient(TREE, "packed_mask", model)
    for hook in hooks:
        hook.remove()
    assert len(begun) == 2
    assert distance(found, expected) < 1e-5


def test_a_batch_out_of_memory_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    model = on_gpu(torch.float32)
    expected, slopes = (
        scored(BRANCHES, "logit_tree", model),
        gradient(BRANCHES, "logit_tree", model),
    )
    run, tried = attention.hidden_states, list[int]()

    def hidden_states(model: Model, part: Layout, kernel: str, **how: bool) -> torch.Tensor:
        if part.lines is not None and part.padded > 80:
            tried.append(part.padded)
            raise MemoryShortageError("no room")
        return run(model, part, kernel, **how)

    for module in ("attention", "vocabulary"):
        monkeypatch.setattr(f"mwviz.engine.{module}.hidden_states", hidden_states)
    found = scored(BRANCHES, "logit_tree", model)
    assert tried
    assert np.abs(found.logprob - expected.logprob).max() < ROUNDING
    assert distance(gradient(BRANCHES, "logit_tree", model), slopes) < 1e-5
