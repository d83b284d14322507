from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mwviz.engine import attention, dense, feed
from mwviz.engine.layout import Layout, layout
from mwviz.engine.losses import backward, row_losses
from mwviz.engine.model import Model
from mwviz.engine.score import score
from mwviz.engine.scores import Scores
from mwviz.engine.steps import finish
from mwviz.errors import ModelError
from mwviz.tree import EvictionTree
from mwviz.views import METHODS, View, build_view
from mwviz.views.view import Edges
from tests.engine import tiny

EXACT = [method.name for method in METHODS if method.exact]
MODELS = {"llama": tiny.llama, "gpt2": tiny.gpt2}
ROUNDING = {"llama": 2e-5, "gpt2": 1e-6}
"""Largest |d| of equal contexts in nats; scores are kept in float32 whatever the model's dtype."""
GRADIENT_ROUNDING = {"llama": 1e-5, "gpt2": 1e-9}
"""Theory, T9: RMSNorm computes in float32."""


def scored(tree: EvictionTree, view: View, model: Model, kernel: str = "auto") -> Scores:
    return finish(score(tree, view, model, kernel=kernel))


def reference(tree: EvictionTree, model: Model) -> npt.NDArray[np.float64]:
    """Each target's logprob from one plain forward pass over nothing but its own context."""
    found = []
    for query, token in zip(tree.query, tree.token, strict=True):
        ids = torch.tensor(tree.ids[tree.path(int(query))][None].astype(np.int64))
        with torch.no_grad():
            logits = model.module(input_ids=ids).logits[0, -1].double()
        found.append(float(logits.log_softmax(-1)[int(tree.ids[token])]))
    return np.array(found)


def gradient(
    tree: EvictionTree, view: View, build: Callable[[], Model], kernel: str = "auto"
) -> npt.NDArray[np.float64]:
    model = build()
    backward(tree, view, model, kernel=kernel)
    parts = [p.grad for p in model.module.parameters() if p.grad is not None]
    return torch.cat([part.double().flatten() for part in parts]).numpy()


def relative_error(found: npt.NDArray[np.float64], expected: npt.NDArray[np.float64]) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("calls", [tiny.RUNNING_EXAMPLE, tiny.REWIND], ids=["drop", "rewind"])
@pytest.mark.parametrize("name", MODELS)
def test_exact_methods_score_each_target_in_its_own_context(
    name: str, calls: tiny.Calls, method: str
) -> None:
    tree, model = tiny.tree_of(calls), MODELS[name]()
    scores = scored(tree, build_view(tree, method), model)
    assert np.abs(scores.logprob - reference(tree, model)).max() < ROUNDING[name]


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
@pytest.mark.parametrize("name", MODELS)
def test_packed_and_logit_tree_train_the_same(name: str, kernel: str) -> None:
    tree = tiny.tree_of(tiny.RUNNING_EXAMPLE)
    expected = gradient(tree, build_view(tree, "logit_tree"), MODELS[name])
    found = gradient(tree, build_view(tree, "packed_mask"), MODELS[name], kernel)
    assert np.linalg.norm(expected) > 0.1
    assert relative_error(found, expected) < GRADIENT_ROUNDING[name]


@pytest.mark.parametrize("block", [1, 4, 18])
def test_gathering_only_the_keys_that_are_seen_changes_nothing(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tiny.tree_of(tiny.RUNNING_EXAMPLE)
    view = build_view(tree, "packed_mask")
    whole = scored(tree, view, tiny.gpt2()).logprob, gradient(tree, view, tiny.gpt2)
    monkeypatch.setattr(dense, "CPU_BLOCK", block)
    assert np.abs(scored(tree, view, tiny.gpt2()).logprob - whole[0]).max() < ROUNDING["gpt2"]
    assert relative_error(gradient(tree, view, tiny.gpt2), whole[1]) < GRADIENT_ROUNDING["gpt2"]


@pytest.mark.parametrize("name", MODELS)
def test_training_the_trunk_once_a_branch_is_another_gradient(name: str) -> None:
    tree = tiny.tree_of(tiny.RUNNING_EXAMPLE)
    expected = gradient(tree, build_view(tree, "logit_tree"), MODELS[name])
    assert relative_error(gradient(tree, tiny.branch_all(tree), MODELS[name]), expected) > 0.5


@pytest.mark.parametrize("wrong", [tiny.wrong_positions, tiny.plain_causal])
@pytest.mark.parametrize("name", MODELS)
def test_wrong_positions_or_a_missing_mask_move_scores(
    name: str, wrong: Callable[[EvictionTree], View]
) -> None:
    tree, model = tiny.tree_of(tiny.RUNNING_EXAMPLE), MODELS[name]()
    truth = scored(tree, build_view(tree, "logit_tree"), model).logprob
    assert np.abs(scored(tree, wrong(tree), model).logprob - truth).max() > 0.1


def test_restarting_positions_in_a_causal_row_stay_causal() -> None:
    """transformers guesses packed documents from restarts when it is given no mask."""
    tree, model = tiny.tree_of(tiny.RUNNING_EXAMPLE), tiny.llama()
    (row,) = tiny.plain_causal(tree).rows
    part = layout(tree, row, limit=None)
    with torch.no_grad():
        default = attention.hidden_states(model, part, "sdpa")
        explicit = Layout(
            part.ids, part.positions, np.full(len(part.ids), len(part.ids)), part.edges, part.cut
        )
        masked = attention.hidden_states(model, explicit, "sdpa")
    assert torch.allclose(default, masked, atol=1e-4)


ids = st.lists(st.integers(0, 5), min_size=1, max_size=6)


@settings(max_examples=20, deadline=None)
@given(calls=st.lists(st.tuples(ids, ids), min_size=1, max_size=4))
def test_packed_scores_equal_separate_ones_on_any_rollout(
    calls: list[tuple[list[int], list[int]]],
) -> None:
    tree, model = tiny.tree_of(calls), tiny.llama()
    packed = scored(tree, build_view(tree, "packed_mask"), model)
    separate = scored(tree, build_view(tree, "call_by_call"), model)
    assert np.abs(packed.logprob - separate.logprob).max() < ROUNDING["llama"]
    assert packed.rank.tolist() == separate.rank.tolist()
    assert np.abs(packed.entropy - separate.entropy).max() < ROUNDING["llama"]


def test_scores_say_rank_entropy_and_hidden_state() -> None:
    tree, model = tiny.tree_of(tiny.REWIND), tiny.llama()
    scores = scored(tree, build_view(tree, "packed_mask"), model)
    context = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        output = model.module(input_ids=context, output_hidden_states=True)
    logprobs = output.logits[0, -1].log_softmax(-1)
    assert scores.rank[0] == int((logprobs > logprobs[10]).sum())
    assert scores.entropy[0] == pytest.approx(float(-(logprobs.exp() * logprobs).sum()), abs=1e-5)
    assert scores.hidden is not None
    assert np.allclose(scores.hidden[0], output.hidden_states[-1][0, -1], atol=1e-5)


def test_uncovered_targets_are_nan() -> None:
    tree, model = tiny.tree_of(tiny.RUNNING_EXAMPLE), tiny.llama()
    scores = scored(tree, build_view(tree, "rightmost"), model)
    missing = np.isin(tree.ids[tree.token], (5, 8, 11))
    assert np.isnan(scores.logprob).tolist() == missing.tolist()
    assert np.isnan(scores.entropy).tolist() == missing.tolist()
    assert (scores.rank == -1).tolist() == missing.tolist()


def test_target_trained_on_several_branches_gets_its_mean() -> None:
    tree, model = tiny.tree_of(tiny.RUNNING_EXAMPLE), tiny.llama()
    view = tiny.branch_all(tree)
    rows = [View("one", (row,), view.targets, ()) for row in view.rows]
    each = np.stack([scored(tree, one, model).logprob for one in rows])
    assert view.multiplicity.max() == 4
    assert np.allclose(scored(tree, view, model).logprob, np.nanmean(each, axis=0), atol=1e-5)


def test_target_trained_twice_in_one_row_gets_its_weighted_mean() -> None:
    tree, model = tiny.tree_of(tiny.RUNNING_EXAMPLE), tiny.llama()
    view = build_view(tree, "packed_mask")
    (row,) = view.rows
    query, target, weight = row.edges
    before = np.maximum(query - 1, 0)
    parts = []
    for edges in (
        row.edges,
        Edges(before, target, weight),
        Edges(
            np.concatenate((query, before)),
            np.concatenate((target, target)),
            np.concatenate((weight, 3 * weight)),
        ),
    ):
        parts.append(scored(tree, replace(view, rows=(replace(row, edges=edges),)), model))
    own, other, both = (part.logprob for part in parts)
    assert float(np.abs(own - other).max()) > 0.1
    assert np.allclose(both, (own + 3 * other) / 4, atol=1e-5)
    # Of the rest, what was said first.
    assert np.array_equal(parts[2].rank, parts[0].rank)


def test_targets_beyond_the_models_limit_are_left_out_with_the_reason() -> None:
    tree = tiny.tree_of(((range(20), range(30, 40)), (range(10), range(40, 60))))
    whole, short = tiny.llama(), tiny.model_of(tiny.llama_config(max_position_embeddings=24))
    for method in EXACT:
        view = build_view(tree, method)
        truth, cut = scored(tree, view, whole), scored(tree, view, short)
        beyond = tree.position_of(tree.query) >= 24
        assert beyond.sum() == 10
        assert np.isnan(cut.logprob).tolist() == beyond.tolist()
        assert np.abs(cut.logprob - truth.logprob)[~beyond].max() < ROUNDING["llama"]
        assert "10 targets not scored: the context exceeds the 24 tokens" in cut.notes[0]
        assert truth.notes == ()


def test_scoring_is_done_in_steps_and_can_stop_between_rows() -> None:
    tree, model = tiny.tree_of(tiny.RUNNING_EXAMPLE), tiny.llama()
    steps = score(tree, build_view(tree, "logit_tree"), model)
    first = next(steps)
    assert (first.done, first.total, first.result) == (8, 40, None)
    assert first.eta > 0
    assert torch.is_inference_mode_enabled() is False
    last = list(steps)[-1]
    assert last.done == last.total == 40
    assert last.result is not None


def test_loss_is_the_mean_negative_logprob() -> None:
    tree, model = tiny.tree_of(tiny.RUNNING_EXAMPLE), tiny.llama()
    for method in ("packed_mask", "logit_tree", "rightmost"):
        view = build_view(tree, method)
        total = sum(part.loss.item() for part in row_losses(tree, view, model))
        mean = -float(np.nanmean(scored(tree, view, model).logprob))
        assert total == pytest.approx(mean, abs=1e-5)


def test_foreign_token_ids_are_refused() -> None:
    tree = tiny.tree_of((([1, 2], [tiny.VOCABULARY]),))
    with pytest.raises(ModelError, match="token id 64 is outside its vocabulary of 64"):
        score(tree, build_view(tree, "logit_tree"), tiny.llama())


def test_too_long_packed_row_is_refused_with_what_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MAX_DENSE", 30)
    tree = tiny.tree_of(((list(range(20)), [30] * 6), (list(range(20)), [31] * 6)))
    with pytest.raises(ModelError, match="dense mask of more than 30 x 30; logit_tree"):
        scored(tree, build_view(tree, "packed_mask"), tiny.llama())
