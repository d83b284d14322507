from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import torch

from mwviz.engine.model import Model
from mwviz.training.learner import Learner, learner
from mwviz.training.loop import train, update
from mwviz.training.recipe import ARMS, Recipe
from mwviz.training.reports import StepReport
from tests.engine import tiny
from tests.training.rollouts import analysis, three

DECIMALS = 5e-5
"""Two losses that round to the same fourth decimal."""
QUICK = Recipe(steps=6, learning_rate=1e-2, batch_tokens=25)


def trained(method: str, recipe: Recipe = QUICK, model: Model | None = None) -> list[StepReport]:
    return list(train(learner(model or tiny.llama(), recipe), three(), method=method))


def losses(reports: list[StepReport]) -> list[float | None]:
    return [report.loss for report in reports]


@pytest.mark.parametrize("rank", [None, 4])
def test_packed_and_logit_tree_training_agree_to_four_decimals_over_30_steps(
    rank: int | None,
) -> None:
    recipe = replace(QUICK, steps=30, learning_rate=1e-3, lora_rank=rank)
    packed, separate, naive = (
        np.array(losses(trained(method, recipe)), dtype=np.float64)
        for method in ("packed_mask", "logit_tree", "rightmost")
    )
    assert np.abs(packed - separate).max() < DECIMALS
    assert packed[-1] < packed[0] - 0.1
    assert np.abs(packed - naive).max() > 0.01


def test_every_arm_sees_the_same_rollouts_in_the_same_order() -> None:
    """Seen through the number of targets of an exact arm, and of one that trains as many."""
    by_arm = {method: [one.targets for one in trained(method)] for method in ("replay", *ARMS[2:4])}
    assert len(set(map(tuple, by_arm.values()))) == 1
    other = [one.targets for one in trained("replay", replace(QUICK, seed=3))]
    assert other != by_arm["replay"]


@pytest.mark.parametrize("rank", [None, 4])
@pytest.mark.parametrize(("method", "student"), [("sdcc", "rightmost"), ("sdcc_replay", "replay")])
def test_sdcc_without_strength_trains_exactly_its_student(
    method: str, student: str, rank: int | None
) -> None:
    recipe = replace(QUICK, lora_rank=rank)
    plain = losses(trained(student, recipe))
    assert losses(trained(method, replace(recipe, strength=0.0))) == plain
    assert losses(trained(method, recipe)) != plain


@pytest.mark.parametrize("rank", [None, 4])
def test_the_model_that_was_copied_never_changes(rank: int | None) -> None:
    model = tiny.llama()
    before = {name: part.clone() for name, part in model.module.state_dict().items()}
    mine = learner(model, replace(QUICK, lora_rank=rank))
    assert mine.moved == 0
    list(train(mine, three(), method="exact"))
    assert mine.moved > 1e-3
    after = model.module.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], part) for name, part in before.items())


def test_an_adapter_moves_the_weights_by_its_product() -> None:
    model = tiny.llama()
    mine = learner(model, replace(QUICK, lora_rank=3))
    list(train(mine, three(), method="exact"))
    assert mine.adapter is not None
    merged = mine.adapter.merge_and_unload().state_dict()
    plain = model.module.state_dict()
    names = [name for name in plain if "proj" in name]
    assert len(names) == 14
    change = sum(float((merged[n] - plain[n]).double().square().sum()) for n in names)
    whole = sum(float(plain[n].double().square().sum()) for n in names)
    moved = learner(model, replace(QUICK, lora_rank=3))
    list(train(moved, three(), method="exact"))
    assert moved.moved == pytest.approx((change / whole) ** 0.5, rel=1e-4)


GAINS = (1.0, -2.0)


def gradient(mine: Learner) -> npt.NDArray[np.float64]:
    parts = [part.grad for part in mine.parameters if part.grad is not None]
    return torch.cat([part.double().flatten() for part in parts]).numpy()


def test_a_policy_step_has_the_gradient_of_the_clipped_objective() -> None:
    """Against autograd of the objective itself, one plain forward pass a target."""
    recipe = replace(
        QUICK, objective="policy", learning_rate=1e-12, grad_clip=None, clip=(0.7, 1.4)
    )
    batch = three()[:2]
    mine = learner(tiny.gpt2(), recipe)
    report = update(mine, batch, method="packed_mask", step=0, advantages=GAINS)
    plain, total, count, clipped = tiny.gpt2(), torch.zeros((), dtype=torch.float64), 0, 0
    for one, gain in zip(batch, GAINS, strict=True):
        tree = one.tree
        for target, query in enumerate(tree.query):
            ids = torch.tensor(tree.ids[tree.path(int(query))][None].astype(np.int64))
            said = plain.module(input_ids=ids).logits[0, -1].log_softmax(-1)
            ratio = torch.exp(said[int(tree.ids[tree.token[target]])] - float(tree.logprob[target]))
            flat = torch.minimum(ratio * gain, ratio.clamp(0.7, 1.4) * gain)
            total, count = total - flat, count + 1
            clipped += bool((flat != ratio * gain).item())
    (total / count).backward()  # type: ignore[no-untyped-call]  # torch's
    truth = torch.cat(
        [p.grad.double().flatten() for p in plain.module.parameters() if p.grad is not None]
    ).numpy()
    assert np.linalg.norm(gradient(mine) - truth) < 1e-6 * np.linalg.norm(truth)
    assert report.targets == count
    assert report.clipped == pytest.approx(clipped / count)
    assert 0 < clipped < count


def test_tokens_without_a_recorded_logprob_are_left_out_and_counted() -> None:
    some = analysis("some", tiny.REWIND, reward=1.0)
    some.rollout.calls[0].logprobs[1] = np.nan  # type: ignore[index]
    warm = analysis("warmer", tiny.REWIND, reward=0.0, temperature=0.7)
    mine = learner(tiny.llama(), replace(QUICK, objective="policy"))
    report = update(mine, (some, warm), method="exact", step=0, advantages=GAINS)
    assert (report.targets, report.unknown) == (12, 7)


def test_gap_is_told_only_for_tokens_sampled_at_temperature_1() -> None:
    mine = learner(tiny.llama(), QUICK)
    for temperature in (None, 0.7):
        batch = (analysis("drops", tiny.REWIND, temperature=temperature),)
        assert update(mine, batch, method="exact", step=0).gap is None
    warm = analysis("drops", tiny.REWIND)
    fresh = learner(tiny.llama(), QUICK)
    report = update(fresh, (warm,), method="logit_tree", step=0)
    truth = np.abs(warm.score(tiny.llama(), "logit_tree").logprob - warm.tree.logprob)
    assert report.gap == pytest.approx(truth.mean(), rel=1e-5)
    assert report.gap_max == pytest.approx(truth.max(), rel=1e-5)
