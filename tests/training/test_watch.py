from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from mwviz.analysis import Analysis
from mwviz.demos import DEMOS
from mwviz.engine import cost
from mwviz.engine.losses import backward
from mwviz.engine.model import Model
from mwviz.engine.sdcc import measure_consistency
from mwviz.sdcc import consistency_targets
from mwviz.trace import load
from mwviz.training import noise, probe, runs
from mwviz.training import watch as watching
from mwviz.training.arms import arm_view
from mwviz.training.estimate import estimate, own_passes, truth_passes
from mwviz.training.evictions import wrong_evictions
from mwviz.training.learner import Learner, learner
from mwviz.training.loop import train
from mwviz.training.pauses import Found, Pausing
from mwviz.training.plan import Material, Plan
from mwviz.training.probe import Gradient
from mwviz.training.recipe import Recipe
from mwviz.training.reports import WatchReport
from mwviz.training.results import table
from mwviz.training.watch import Truth, true_contexts, watch
from tests.engine import tiny
from tests.training.rollouts import FOLD, analysis, three

QUICK = Recipe(steps=3, learning_rate=1e-2, batch_tokens=25)


def whole(work: Pausing[Found]) -> Found:
    """Runs the work without a pause."""
    while True:
        try:
            next(work)
        except StopIteration as ended:
            found: Found = ended.value
            return found


def looked(mine: Learner, held: Sequence[Analysis], **asked: Any) -> WatchReport:
    return whole(watch(mine, held, **asked))


def truth_of(mine: Learner, held: Sequence[Analysis]) -> Truth:
    return whole(true_contexts(mine, held))


def plain(model: Model, one: Analysis, context: list[int], target: int) -> float:
    """log p of a target after a context, by a plain forward pass."""
    said = model.module(input_ids=torch.tensor([context])).logits[0, -1].log_softmax(-1)
    return float(said[int(one.tree.ids[one.tree.token[target]])])


def test_drift_loss_and_gap_are_those_of_plain_forward_passes() -> None:
    one, model = analysis("drops", tiny.RUNNING_EXAMPLE), tiny.llama()
    mine = learner(model, QUICK)
    report = looked(mine, (one,), method="rightmost", step=0)
    tree = one.tree
    (row,) = one.view("rightmost").rows
    ids = tree.ids[row.nodes].tolist()
    place = dict(zip(row.edges.target.tolist(), row.edges.query.tolist(), strict=True))
    with torch.no_grad():
        true = np.array(
            [
                plain(model, one, tree.ids[tree.path(int(q))].tolist(), t)
                for t, q in enumerate(tree.query)
            ]
        )
        view = np.array([plain(model, one, ids[: place[t] + 1], t) for t in sorted(place)])
    covered = sorted(place)
    drift = np.abs(view - true[covered])
    diverging = one.pairs("rightmost").diverging[covered]
    assert report.loss_true == pytest.approx(-true.mean(), rel=1e-4)
    assert report.loss_view == pytest.approx(-view.mean(), rel=1e-4)
    assert report.drift == pytest.approx(drift.mean(), rel=1e-4)
    assert report.drift_diverging == pytest.approx(drift[diverging].mean(), rel=1e-4)
    assert report.gap_true == pytest.approx(np.abs(true - tree.logprob).mean(), rel=1e-4)
    assert report.gap_view == pytest.approx(np.abs(view - tree.logprob[covered]).mean(), rel=1e-4)
    assert report.coverage == pytest.approx(10 / 13)
    assert (report.moved, report.targets) == (0.0, 13)
    assert report.drift is not None
    assert report.floor < 1e-4 < report.drift


def test_where_nothing_was_sampled_there_is_no_coverage() -> None:
    held = (analysis("nothing", [([1, 2, 3], [])]),)
    report = looked(learner(tiny.llama(), QUICK), held, method="rightmost", step=0)
    assert (report.coverage, report.targets) == (None, 0)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("rightmost", [29, 64]),
        ("sdcc", [29, 64]),
        ("replay", [72, 21]),
        ("sdcc_replay", [72, 21]),
        ("packed_mask", [93]),
    ],
)
def test_the_evictions_that_a_layout_gets_wrong_are_counted(
    method: str, expected: list[int]
) -> None:
    """A demo with one eviction, after 72 of its 93 tokens: 8 of those saw nothing that left."""
    (one,) = load(next(demo.path for demo in DEMOS if demo.name == "tidy")).analyses
    pairs = one.pairs(method)
    wrong = wrong_evictions(one, pairs)
    assert np.bincount(wrong).tolist() == expected
    assert (wrong > 0).tolist() == pairs.diverging.tolist()


def test_a_layout_of_the_last_context_is_wrong_about_what_left_later() -> None:
    """Of three evictions: for a replay those before a token, else those after it."""
    (one,) = load(next(demo.path for demo in DEMOS if demo.name == "summary")).analyses
    calls = np.array([j.call for j in one.junction_list if j.is_eviction])
    before = np.searchsorted(calls, one.tree.call, side="right")
    for method, count in (("replay", before), ("rightmost", len(calls) - before)):
        pairs = one.pairs(method)
        expected = np.where(pairs.diverging, count, 0)
        assert wrong_evictions(one, pairs).tolist() == expected.tolist()


def test_an_exact_arm_stays_at_the_floor() -> None:
    mine = learner(tiny.llama(), QUICK)
    list(train(mine, three(), method="packed_mask"))
    report = looked(mine, three(), method="packed_mask", step=3)
    assert report.drift is not None
    assert report.drift <= report.floor
    assert report.drift_diverging is None
    assert report.kl == pytest.approx(0.0, abs=1e-5)
    assert report.cosine == pytest.approx(1.0, abs=1e-5)
    assert report.error == pytest.approx(0.0, abs=1e-3)
    assert report.flips == 0
    assert report.moved > 1e-3


def test_every_floor_is_what_two_exact_layouts_differ_by() -> None:
    """The other exact layout as an arm shows no more than the floors; a naive one shows more."""
    mine, held = learner(tiny.llama(), QUICK), (analysis("drops", tiny.RUNNING_EXAMPLE),)
    truth = truth_of(mine, held)
    other = "logit_tree" if truth.scores[0].method == "packed_mask" else "packed_mask"
    same = looked(mine, held, method=other, step=0)
    naive = looked(mine, held, method="rightmost", step=0, truth=truth)
    for report in (same, naive):
        assert report.floor_error is not None
        assert report.floor_cosine is not None
        assert 0 <= report.floor_error < 1e-4
        assert 1 - 1e-6 < report.floor_cosine <= 1 + 1e-12
    for name in ("kl", "tv", "flips", "error"):
        floor = getattr(same, f"floor_{name}")
        assert getattr(same, name) <= floor
        assert getattr(naive, name) > floor, name
    assert same.cosine == same.floor_cosine
    assert naive.cosine is not None
    assert naive.cosine < 1 - 1e-3
    assert same.floor_entropy is not None
    assert abs(same.entropy_view - same.entropy_true) <= same.floor_entropy  # type: ignore[operator]


def test_arms_share_what_the_true_contexts_say_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def counted(*args: object) -> object:
        asked.append(1)
        return true_contexts(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(runs, "true_contexts", counted)
    plan = Plan(files=("none",), methods=("rightmost", "replay", "sdcc"), recipe=QUICK, watch=0)
    list(runs.run(plan, tmp_path, Material(three(), three(), ""), model=tiny.llama()))
    assert len(asked) == 1
    alone = looked(learner(tiny.llama(), QUICK), three(), method="replay", step=0)
    told = table(tmp_path, "watch").query("arm == 'replay' and step == 0").iloc[0]
    for name in ("loss_true", "drift", "kl", "cosine", "error", "floor", "floor_error"):
        assert told[name] == pytest.approx(getattr(alone, name), rel=1e-6), name


def test_kl_is_that_of_the_sdcc_loss_and_tv_stays_within_its_bound() -> None:
    one, model = analysis("fold", FOLD), tiny.llama()
    report = looked(learner(model, QUICK), (one,), method="sdcc", step=0)
    view = one.view("sdcc")
    pulled = consistency_targets(view, one.pairs("sdcc"))
    kl = measure_consistency(one.tree, view, model, consistency=pulled).kl
    covered = int((view.multiplicity > 0).sum())
    assert report.kl == pytest.approx(kl.sum() / covered, rel=1e-3)
    assert report.tv is not None
    assert report.bound is not None
    assert 0 < report.tv <= report.bound
    assert sum(part.targets for part in report.junctions) == covered
    assert [part.wrong for part in report.junctions] == [0, 1]
    assert all(part.tv <= part.bound + 1e-4 for part in report.junctions)
    total = sum(part.kl * part.targets for part in report.junctions)
    assert total / covered == pytest.approx(report.kl, rel=1e-4)


def gradient(model: Model, one: Analysis, method: str) -> npt.NDArray[np.float64]:
    model.module.zero_grad()
    backward(one.tree, one.view(method), model)
    parts = [p.grad for p in model.module.parameters() if p.grad is not None]
    return torch.cat([part.double().flatten() for part in parts]).numpy()


@pytest.mark.parametrize("method", ["rightmost", "replay", "branch_all"])
def test_the_angle_is_that_of_whole_gradients(method: str) -> None:
    one = analysis("drops", tiny.RUNNING_EXAMPLE)
    exact, own = (gradient(tiny.llama(), one, name) for name in ("logit_tree", method))
    mine = learner(tiny.llama(), QUICK)
    report = looked(mine, (one,), method=method, step=0)
    cosine = exact @ own / np.linalg.norm(exact) / np.linalg.norm(own)
    assert report.cosine == pytest.approx(cosine, rel=1e-4)
    error = np.linalg.norm(own - exact) / np.linalg.norm(exact)
    assert report.error == pytest.approx(error, rel=1e-4)
    assert error > 0.1
    assert all(part.grad is None for part in mine.parameters)


def test_watching_changes_nothing() -> None:
    plainly, watched = learner(tiny.llama(), QUICK), learner(tiny.llama(), QUICK)
    losses = [one.loss for one in train(plainly, three(), method="rightmost")]
    seen = []
    for report in train(watched, three(), method="rightmost"):
        looked(watched, three(), method="rightmost", step=report.step)
        seen.append(report.loss)
    assert seen == losses


def test_what_the_caller_measures_stands_beside_it() -> None:
    report = looked(
        learner(tiny.llama(), QUICK),
        three(),
        method="replay",
        step=0,
        world=lambda model: {"reward": float(model.vocabulary)},
    )
    assert report.to_json()["reward"] == tiny.VOCABULARY
    assert "junctions" not in report.to_json()


def test_rollouts_without_logprobs_or_evictions_leave_numbers_unknown() -> None:
    mine = learner(tiny.llama(), replace(QUICK, lora_rank=2))
    single = analysis("single", (([1], [2]),), logprobs=False)
    report = looked(mine, (single,), method="rightmost", step=0)
    assert report.gap_true is None
    assert report.gap_view is None
    assert report.drift_diverging is None
    assert report.drift is not None
    assert report.drift <= report.floor


@pytest.mark.parametrize("arm", ["rightmost", "replay", "sdcc", "packed_mask", "logit_tree"])
@pytest.mark.parametrize("known", [False, True], ids=["alone", "behind another arm"])
@pytest.mark.parametrize("held", [three(), three()[:1]], ids=["three", "one"])
def test_a_look_runs_what_the_estimate_counts(
    held: tuple[Analysis, ...], arm: str, *, known: bool
) -> None:
    """Forward passes of one row each, counted in the model, against those that are planned."""
    mine = learner(tiny.llama(), QUICK)
    model = mine.model
    truth = truth_of(mine, held)
    looked(mine, held, method=arm, step=0, truth=truth)  # Kernels have now proved themselves.
    ran: list[bool] = []
    hook = model.module.base_model.register_forward_pre_hook(
        lambda *_: ran.append(torch.is_grad_enabled())
    )
    looked(mine, held, method=arm, step=0, truth=truth if known else None)
    hook.remove()
    planned = own_passes(arm, held, model) + ([] if known else truth_passes(held, model))
    expected = [
        one.trains for one in planned for _ in arm_view(one.analysis, model, one.layout).rows
    ]
    if arm == "sdcc" and held[0] is planned[-1].analysis:
        expected += [False for _ in arm_view(held[0], model, "exact").rows]  # The teacher's.
    assert sorted(ran) == sorted(expected)


def test_an_exact_arms_gradient_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, held = learner(tiny.llama(), QUICK), three()
    made: list[str] = []

    def counted(learner: Learner, one: Analysis, method: str) -> Gradient | None:
        made.append(arm_view(one, learner.model, method).method)
        return probe.gradient(learner, one, method)

    for module in (watching, noise):
        monkeypatch.setattr(module, "gradient", counted)
    reports = {}
    for arm, more in (("packed_mask", 0), ("logit_tree", 0), ("exact", 0), ("replay", 1)):
        made.clear()
        reports[arm] = looked(mine, held, method=arm, step=0)
        assert sorted(made) == sorted(["logit_tree", "packed_mask", *["replay"] * more])
    layout = truth_of(mine, held).layout
    assert reports["exact"].error == reports[layout].error == 0
    other = reports["logit_tree" if layout == "packed_mask" else "packed_mask"]
    assert other.error == other.floor_error


def test_the_memory_estimate_counts_the_gradients_that_a_look_holds() -> None:
    plan = Plan(files=("none",), methods=("rightmost",), recipe=QUICK)
    model = tiny.llama()
    whole = sum(part.numel() for part in model.module.parameters())
    rows = [one.view("rightmost").rows for one in three()]
    largest = max(cost.predict(model, some, kernel="sdpa", train=True).bytes for some in rows)
    found = estimate(plan, Material(three(), three(), ""), model).bytes
    # Two models, the arm's gradient, two exact ones, and the optimiser's two numbers: float32.
    assert found - largest == whole * 4 * (2 + 1 + 2 + 2)
