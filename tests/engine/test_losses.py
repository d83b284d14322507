from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import torch

from mwviz.engine.losses import backward, row_losses
from mwviz.engine.model import Model
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz.policy import policy_factors
from mwviz.tree import EvictionTree
from mwviz.views import build_view
from tests.engine import tiny

ADVANTAGE = np.array([1.0, -0.5, 2.0, -1.5])
EXACT = ("packed_mask", "logit_tree", "branch_packed", "call_by_call")
ROUNDING = 1e-6
"""Factors are kept in float32."""


def recorded(shift: float = 0.4) -> EvictionTree:
    """T1 with recorded logprobs that lie around the model's own, so that some ratios clip."""
    plain = tiny.tree_of(tiny.RUNNING_EXAMPLE)
    own = finish(score(plain, build_view(plain, "logit_tree"), tiny.gpt2())).logprob
    random = np.random.default_rng(4)
    said = own + random.normal(0.0, shift, len(own))
    return tiny.tree_of(
        tiny.RUNNING_EXAMPLE, [said[plain.call == call].tolist() for call in range(4)]
    )


def gradient(model: Model) -> npt.NDArray[np.float64]:
    parts = [p.grad for p in model.module.parameters() if p.grad is not None]
    return torch.cat([part.double().flatten() for part in parts]).numpy()


def plain_objective(tree: EvictionTree, model: Model, low: float, high: float) -> torch.Tensor:
    """-mean over targets of min(r A, clip(r) A), one forward pass a target."""
    total = torch.zeros((), dtype=torch.float64)
    for target, query in enumerate(tree.query):
        ids = torch.tensor(tree.ids[tree.path(int(query))][None].astype(np.int64))
        said = model.module(input_ids=ids).logits[0, -1].log_softmax(-1)
        ratio = torch.exp(said[int(tree.ids[tree.token[target]])] - float(tree.logprob[target]))
        gain = float(ADVANTAGE[tree.call[target]])
        total = total + torch.minimum(ratio * gain, ratio.clamp(low, high) * gain)
    return -total / len(tree.token)


@pytest.mark.parametrize("method", EXACT)
def test_factors_give_the_gradient_of_the_clipped_objective(method: str) -> None:
    tree, model, plain = recorded(), tiny.gpt2(), tiny.gpt2()
    view = build_view(tree, method)
    current = finish(score(tree, view, model)).logprob
    found = policy_factors(tree, ADVANTAGE, current=current)
    assert 0 < found.clipped.sum() < len(tree.token)
    backward(tree, view, model, factor=found.factor)
    plain_objective(tree, plain, 0.8, 1.28).backward()  # type: ignore[no-untyped-call]  # torch's
    truth = gradient(plain)
    assert np.linalg.norm(gradient(model) - truth) < ROUNDING * np.linalg.norm(truth)


def test_negative_advantages_push_the_other_way() -> None:
    tree, up, down = recorded(), tiny.gpt2(), tiny.gpt2()
    view = build_view(tree, "packed_mask")
    gain = np.full(len(tree.token), 1.0, dtype=np.float32)
    assert backward(tree, view, up, factor=gain) == -backward(tree, view, down, factor=-gain)
    assert np.allclose(gradient(up), -gradient(down), atol=1e-12)


def test_a_target_without_factor_still_counts_in_the_normaliser() -> None:
    tree, model = recorded(), tiny.gpt2()
    view = build_view(tree, "packed_mask")
    logprob = finish(score(tree, view, model)).logprob
    some = np.zeros(len(tree.token), dtype=np.float32)
    some[:3] = (1.0, 2.0, -1.0)
    loss = sum(part.loss.item() for part in row_losses(tree, view, model, factor=some))
    assert loss == pytest.approx(-float((some * logprob).sum()) / len(tree.token), rel=1e-6)


def test_a_target_that_trains_on_several_branches_counts_once_in_the_normaliser() -> None:
    """The naive sum over branches is divided by targets, not by loss terms."""
    tree, model = tiny.tree_of(tiny.RUNNING_EXAMPLE), tiny.gpt2()
    view = build_view(tree, "branch_all")
    alone = (replace(view, rows=(row,)) for row in view.rows)
    total = sum(float(np.nansum(finish(score(tree, one, model)).logprob)) for one in alone)
    assert view.multiplicity.sum() > len(tree.token)
    assert backward(tree, view, model) == pytest.approx(-total / len(tree.token), rel=1e-6)


def test_factors_at_hand_checkable_ratios() -> None:
    tree = tiny.tree_of(
        (([0], [1, 2, 3, 4, 5]), ([9], [6, 7, 8])),
        [[-1.0] * 4 + [np.nan], [-1.0] * 3],
    )
    step = np.log([2.0, 0.5, 1.2, 1.0, 1.0, 2.0, 0.5, 1.0])
    current = (-1.0 + step).astype(np.float32)
    current[7] = np.nan
    found = policy_factors(tree, [3.0, -1.0], current=current)
    assert found.factor == pytest.approx([0.0, 1.5, 3.6, 3.0, 0.0, -2.0, 0.0, 0.0], rel=1e-6)
    assert np.flatnonzero(found.clipped).tolist() == [0, 6]
    assert np.flatnonzero(found.unknown).tolist() == [4, 7]
    cut = policy_factors(tree, 1.0, current=current, clip=(0.0, np.inf), most=1.1)
    assert cut.factor == pytest.approx([1.1, 0.5, 1.1, 1.0, 0.0, 1.1, 0.5, 0.0], rel=1e-6)
    assert not cut.clipped.any()


TWICE = (([0, 1, 2], [3, 4]), ([0, 1, 2], [3, 4]), ([0, 1, 2], [3, 5]))
"""Two calls sampled the same, a third shares a first token: three targets on one node."""


@pytest.mark.parametrize("method", EXACT)
def test_targets_that_share_a_node_count_once_a_call(method: str) -> None:
    """The tree merges them, a row a call does not: loss and gradient are the same."""
    tree, model, plain = tiny.tree_of(TWICE), tiny.gpt2(), tiny.gpt2()
    assert len(np.unique(tree.token)) == 3
    assert len(tree.token) == 6
    loss = backward(tree, build_view(tree, method), model)
    expected = torch.zeros((), dtype=torch.float64)
    for prompt, completion in TWICE:
        said = plain.module(input_ids=torch.tensor([prompt + completion])).logits[0]
        for place, token in enumerate(completion):
            expected = expected - said[len(prompt) + place - 1].log_softmax(-1)[token]
    (expected / 6).backward()  # type: ignore[no-untyped-call]  # torch's
    assert loss == pytest.approx(expected.item() / 6, rel=1e-9)
    assert np.allclose(gradient(model), gradient(plain), atol=1e-10)


@pytest.mark.parametrize("method", EXACT)
def test_sampling_everything_twice_changes_neither_loss_nor_gradient(method: str) -> None:
    once, twice = tiny.RUNNING_EXAMPLE[:1], tiny.RUNNING_EXAMPLE[:1] * 2
    models = tiny.gpt2(), tiny.gpt2()
    losses = [
        backward(tree, build_view(tree, method), model)
        for tree, model in zip(map(tiny.tree_of, (once, twice)), models, strict=True)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)
    assert np.allclose(gradient(models[0]), gradient(models[1]), atol=1e-10)


def test_shift_by_one_is_wrong_on_the_first_token_of_a_second_child_only() -> None:
    """Theory, T4: one query node has two loss edges; B[0]'s neighbour is A's last token."""
    tree, model = tiny.tree_of(tiny.REWIND), tiny.llama()
    view = build_view(tree, "packed_mask")
    (row,) = view.rows
    place = np.empty(tree.size, dtype=np.int64)
    place[row.nodes] = np.arange(tree.size)
    shifted = row.edges._replace(query=place[tree.token[row.edges.target]] - 1)
    labels = replace(view, rows=(replace(row, edges=shifted),))
    truth, found = (finish(score(tree, v, model)).logprob for v in (view, labels))
    wrong = np.abs(found - truth) > 1e-4
    assert tree.ids[tree.token[wrong]].tolist() == [20]
    assert np.abs(found - truth).max() > 0.1
    assert len(np.unique(tree.query[tree.offset == 0])) == 1
