from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from shutil import rmtree
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mwviz.engine.model import Model, load_model
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz.errors import ModelError, TraceError
from mwviz.training import checkpoint, runs
from mwviz.training.estimate import estimate
from mwviz.training.learner import learner
from mwviz.training.loop import train
from mwviz.training.plan import Material, Plan
from mwviz.training.recipe import Recipe
from mwviz.training.reports import StepReport
from mwviz.training.results import before_and_after, statuses, table
from mwviz.training.runs import Event, run
from mwviz.views import build_view
from tests.engine import tiny
from tests.saved_model import save_tiny_model
from tests.training.rollouts import three

QUICK = Recipe(steps=6, learning_rate=1e-2, batch_tokens=25)
ARMS = ("rightmost", "packed_mask")
PLAN = Plan(files=("none",), methods=ARMS, recipe=QUICK, watch=3)


def material() -> Material:
    rollouts = three()
    return Material(rollouts[:2], rollouts[2:], "")


def finished(plan: Plan, folder: Path, model: Model | None = None) -> pd.DataFrame:
    list(run(plan, folder, material(), model=model or tiny.llama()))
    return table(folder, "steps")


def test_a_run_leaves_every_step_look_and_checkpoint(tmp_path: Path) -> None:
    events = list(run(PLAN, tmp_path, material(), model=tiny.llama()))
    steps, watched = table(tmp_path, "steps"), table(tmp_path, "watch")
    assert [(row.arm, row.step) for row in steps.itertuples()] == [
        (arm, step) for arm in ARMS for step in range(6)
    ]
    assert watched.groupby("arm")["step"].apply(list).to_dict() == {arm: [0, 3, 6] for arm in ARMS}
    assert [event.done for event in events] == sorted(event.done for event in events)
    assert (events[-1].done, events[-1].total) == (12, 12)
    assert {arm: one.state for arm, one in statuses(tmp_path).items()} == dict.fromkeys(
        ARMS, "done"
    )
    assert json.loads((tmp_path / "config.json").read_text())["command"] == PLAN.command
    assert list(table(tmp_path, "junctions").columns[:4]) == ["arm", "step", "rollout", "wrong"]
    for arm in ARMS:
        mine = learner(tiny.llama(), QUICK)
        assert checkpoint.load(mine, tmp_path / "arms" / arm) == 6
        assert mine.moved == pytest.approx(watched[watched["arm"] == arm]["moved"].iloc[-1])


def test_a_batch_that_no_arm_has_read_may_be_mended(tmp_path: Path) -> None:
    batch, folder = tmp_path / "batch.jsonl", tmp_path / "run"
    own = f"own:{batch}"
    plan = replace(PLAN, methods=("packed_mask", own))
    finished(plan, folder)
    assert (statuses(folder)[own].state, statuses(folder)[own].step) == ("failed", 0)
    for content in ("{}", "{}\n"):
        before = (folder / "config.json").read_text()
        batch.write_text(content)
        finished(plan, folder)
        assert str(batch) in json.loads((folder / "config.json").read_text())["signals"]["batches"]
        assert (folder / "config.json").read_text() != before


def until(events: Iterator[Event], told: int, pauses: int = 0) -> None:
    """Takes so many events, then so many pauses of the look behind them."""
    list(islice((event for event in events if event.told), told))
    for _ in range(pauses):
        assert not next(events).told


@pytest.mark.parametrize("rank", [None, 4])
@pytest.mark.parametrize(("after", "pauses"), [(0, 1), (0, 5), (3, 0), (4, 0), (4, 2), (11, 0)])
def test_a_run_that_was_cancelled_goes_on_as_if_it_never_stopped(
    tmp_path: Path, after: int, pauses: int, rank: int | None
) -> None:
    plan = replace(PLAN, recipe=replace(QUICK, lora_rank=rank))
    whole = finished(plan, tmp_path / "whole")
    events = run(plan, tmp_path / "parts", material(), model=tiny.llama())
    until(events, after, pauses)
    events.close()
    states = [one.state for one in statuses(tmp_path / "parts").values()]
    assert "cancelled" in states
    parts = finished(plan, tmp_path / "parts")
    timed = ["seconds", "eta"]
    pd.testing.assert_frame_equal(whole.drop(columns=timed), parts.drop(columns=timed))
    timed = ["seconds"]
    for name in ("watch", "junctions"):
        one, two = (table(tmp_path / run, name) for run in ("whole", "parts"))
        drop = [column for column in timed if column in one]
        pd.testing.assert_frame_equal(one.drop(columns=drop), two.drop(columns=drop))


def test_steps_and_looks_are_each_predicted_by_their_own_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a step took 1 s and a look 100: each arm has six and three of them."""
    now = 0.0

    def world(_: Model) -> dict[str, float]:
        nonlocal now
        now += 100
        return {"reward": 1.0}

    def stepping(*given: Any, **named: Any) -> Iterator[StepReport]:
        nonlocal now
        for report in train(*given, **named):
            now += 1
            yield report

    clock = SimpleNamespace(perf_counter=lambda: now, monotonic=time.monotonic)
    monkeypatch.setattr(runs, "time", clock)
    monkeypatch.setattr(runs, "train", stepping)
    events = run(PLAN, tmp_path, material(), model=tiny.llama(), world=world)
    told = [(event.done, event.eta) for event in events if event.told]
    assert told[:5] == [(0, 500), (1, 511), (2, 510), (3, 509), (3, 409)]
    assert told[-3:] == [(11, 101), (12, 100), (12, 0)]


@pytest.mark.parametrize(("to_run", "behind"), [([0, 1], 306), ([0], 0)])
def test_a_look_under_way_is_not_one_more_and_what_is_over_is_not_to_come(
    monkeypatch: pytest.MonkeyPatch, to_run: list[int], behind: int
) -> None:
    """A step takes 1 s, a look 100; `behind` is what the second arm adds once both are known."""
    now = 0.0
    monkeypatch.setattr(runs, "time", SimpleNamespace(perf_counter=lambda: now))
    clock = runs._Clock(PLAN, to_run)
    report: Any = object()
    pause = Event("rightmost", 0, 0, 0.0)
    step, look = pause._replace(step=report), pause._replace(watch=report)

    def later(seconds: float, event: Event, arm: int, after: int) -> float:
        nonlocal now
        now += seconds
        return clock.timed(event, arm, after).eta

    assert later(100, look, 0, 0) == (500 if behind else 200)
    for after, left in ((1, 205), (2, 204), (3, 203)):
        assert later(1, step, 0, after) == left + behind
    for seconds, event, left in ((25, pause, 178), (25, pause, 153), (50, look, 103)):
        assert later(seconds, event, 0, 3) == left + behind
    now += 1_000
    assert clock.failed(0, "lost").eta == behind
    if behind:
        assert later(60, pause, 1, 0) == 246
        assert later(40, look, 1, 0) == 206


def test_a_run_that_goes_on_counts_what_is_done_as_done(tmp_path: Path) -> None:
    finished(PLAN, tmp_path)
    status = json.loads((tmp_path / "status.json").read_text())
    status["rightmost"] = {"state": "failed", "step": 5, "message": "lost"}
    (tmp_path / "status.json").write_text(json.dumps(status))
    rmtree(tmp_path / "arms" / "rightmost")
    events = [*run(PLAN, tmp_path, material(), model=tiny.llama())]
    assert {event.arm for event in events} == {"rightmost"}
    assert (events[-1].done, events[-1].eta) == (6, 0)


def test_steps_that_no_checkpoint_holds_are_taken_again(tmp_path: Path) -> None:
    """As after a crash: the tables are ahead of the last checkpoint."""
    plan = replace(PLAN, methods=ARMS[:1])
    whole = finished(plan, tmp_path / "whole")
    events = run(plan, tmp_path / "cut", material(), model=tiny.llama())
    until(events, 5)
    mine = tmp_path / "cut"
    ahead = {name: (mine / f"{name}.parquet").read_bytes() for name in ("steps", "watch")}
    events.close()
    (mine / "arms" / "rightmost").rename(mine / "arms" / "gone")
    for name, content in ahead.items():
        (mine / f"{name}.parquet").write_bytes(content)
    assert len(table(mine, "steps")) == 3
    again = finished(plan, mine)
    assert again["loss"].tolist() == whole["loss"].tolist()
    assert again["step"].tolist() == list(range(6))


def test_a_checkpoint_that_was_being_replaced_is_found(tmp_path: Path) -> None:
    finished(replace(PLAN, methods=ARMS[:1]), tmp_path)
    folder = tmp_path / "arms" / "rightmost"
    folder.rename(folder.with_name("rightmost.old"))
    assert checkpoint.load(learner(tiny.llama(), QUICK), folder) == 6
    assert folder.exists()


def test_another_run_in_the_folder_is_refused(tmp_path: Path) -> None:
    finished(PLAN, tmp_path)
    other = replace(PLAN, recipe=replace(QUICK, seed=1))
    with pytest.raises(TraceError, match="another plan"):
        finished(other, tmp_path)
    changed = Material(three()[1:], three()[:1], "")
    with pytest.raises(TraceError, match="changed since"):
        list(run(PLAN, tmp_path, changed, model=tiny.llama()))


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    finished(replace(PLAN, methods=ARMS[:1]), tmp_path)
    folder = tmp_path / "arms" / "rightmost"
    (folder / "optimizer" / "state.safetensors").write_bytes(b"\0" * 40)
    with pytest.raises(ModelError, match="damaged"):
        checkpoint.load(learner(tiny.llama(), QUICK), folder)
    with pytest.raises(ModelError, match="base"):
        checkpoint.load(learner(tiny.gpt2(), QUICK), folder)


def test_the_first_look_is_the_same_for_every_arm_in_the_true_contexts(tmp_path: Path) -> None:
    finished(PLAN, tmp_path)
    watched = table(tmp_path, "watch")
    first = watched[watched["step"] == 0]
    assert first["loss_true"].nunique() == 1
    assert first["loss_view"].nunique() == 2
    rows = before_and_after(watched, ("loss_true", "drift"))
    assert rows["arm"].tolist() == list(ARMS)
    assert (rows["loss_true before"] == first["loss_true"].iloc[0]).all()
    assert (rows["steps"] == 6).all()


def test_the_estimate_names_every_arm_and_grows_with_what_is_trained() -> None:
    model = tiny.llama()
    full = estimate(PLAN, material(), model)
    assert list(full.seconds) == list(ARMS)
    assert all(seconds > 0 for seconds in full.seconds.values())
    longer = estimate(replace(PLAN, recipe=replace(QUICK, steps=60)), material(), model)
    assert sum(longer.seconds.values()) > 2 * sum(full.seconds.values())
    adapter = estimate(replace(PLAN, recipe=replace(QUICK, lora_rank=1)), material(), model)
    assert adapter.bytes < full.bytes
    weights = sum(part.numel() for part in model.module.parameters())
    assert full.bytes > 5 * 4 * weights
    short = replace(full, free=full.bytes - 1)
    assert not short.fits
    assert "--lora" in str(short)
    known = replace(full, seconds={"rightmost": 251.0, "replay": 268.0}, free=None)
    assert str(known).startswith("about 9 min (rightmost 4 min, replay 4 min) and ")
    assert np.isfinite(full.bytes)
    measured = str(estimate(replace(PLAN, world="mine:reward"), material(), model))
    assert measured.endswith("; on top of it what mine:reward takes at 6 looks")
    assert full.beside == ""


@pytest.mark.parametrize("rank", [None, 2])
def test_a_checkpoint_scores_as_the_learner_did_and_knows_what_it_stands_on(
    tmp_path: Path, rank: int | None
) -> None:
    """Two trainings on top of each other; the second starts from the first one's checkpoint."""
    save_tiny_model(tmp_path / "tiny")
    recipe = replace(QUICK, lora_rank=rank, steps=2)
    start: Model = load_model(tmp_path / "tiny")
    for name in ("first", "second"):
        mine = learner(start, recipe)
        list(train(mine, three(), method="exact"))
        checkpoint.save(mine, tmp_path / name, step=2, method="exact")
        tree = three()[0].tree
        expected = finish(score(tree, build_view(tree, "logit_tree"), mine.model)).logprob
        start = load_model(tmp_path / name)
        again = load_model(tmp_path / "tiny", adapter=tmp_path / name)
        assert start.label == again.label
        for loaded in (start, again):
            found = finish(score(tree, build_view(tree, "logit_tree"), loaded)).logprob
            assert np.allclose(found, expected, atol=1e-4)
    assert start.name == ("tiny+first+second" if rank else "tiny+second")
    assert start.base == "tiny"
    if rank:
        (tmp_path / "other").mkdir()
        for file in (tmp_path / "first").glob("adapter*"):
            (tmp_path / "other" / file.name).write_bytes(file.read_bytes())
        stands = json.loads((tmp_path / "first" / "training.json").read_text())
        (tmp_path / "other" / "training.json").write_text(json.dumps(stands))
        with pytest.raises(ModelError, match="was trained on top of first"):
            load_model(tmp_path / "other", adapter=tmp_path / "second")
