"""The train lab's logic: empty, wrong and finished runs; checkpoints as models. Its worker is fake
where nothing is run."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Multiselect

from mwviz import serve, train_command
from mwviz.cli import _parser
from mwviz.demos import DEMOS
from mwviz.engine.model import load_model
from mwviz.errors import TraceError
from mwviz.jobs import Job
from mwviz.trace import Trace, load
from mwviz.training.plan import Plan, material
from mwviz.training.recipe import Recipe
from mwviz.training.runs import run
from mwviz_app import arms, checkpoints, curves, kept, lab, state, trainable
from mwviz_app.jobs import JobState
from mwviz_app.kept import Held
from mwviz_app.sources import Version
from mwviz_app.trainable import Part
from tests.app.conftest import PATIENCE, press, waited

ARMS = ("rightmost", "packed_mask")

pytestmark = pytest.mark.usefixtures("tiny_app")


def page() -> AppTest:
    return AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()


def lab_page() -> AppTest:
    found = page().switch_page("train_page.py").run()
    assert not found.exception
    return found


def finished(tmp_path: Path, name: str, **recipe: float | None) -> Path:
    """A run that lies where the app keeps its own."""
    recipe = {"steps": 2, "lora_rank": 2, **recipe}
    plan = Plan(
        files=(str(tmp_path / "run.jsonl"),),
        methods=ARMS,
        recipe=Recipe(**recipe),  # type: ignore[arg-type]
        model=str(tmp_path / "tiny"),
        watch=1,
        device="cpu",
    )
    folder = checkpoints.folder() / name
    list(run(plan, folder, material(plan)))
    return folder


def texts(found: AppTest) -> str:
    shown = (*found.text, *found.caption, *found.code, *found.info, *found.error)
    return "\n".join(str(one.value) for one in shown)


TRAIN_ON = "Rollouts to train on"


def box(found: AppTest, label: str) -> Multiselect[Any]:
    [one] = [one for one in found.multiselect if one.label == label]
    return one


def trace_id(name: str) -> str:
    return next(one for one, source in state.traces().items() if source.name == name)


def test_the_empty_lab_says_what_to_do() -> None:
    found = lab_page()
    assert "No run yet." in texts(found)
    box(found, TRAIN_ON).set_value([]).run()
    assert "No rollout is chosen." in texts(found)
    assert not [button for button in found.button if button.label == "Run"]


def test_a_finished_run_shows_its_table_and_command(tmp_path: Path) -> None:
    finished(tmp_path, "20260101-000000-aaaaaa")
    found = lab_page()
    shown = texts(found)
    assert "mwviz train" in shown
    assert "rightmost (2 of 2 steps), packed_mask (2 of 2 steps)" in shown
    assert "Trained on what was sampled: packed_mask. Trained on other contexts" in shown
    assert not found.error
    [table] = found.dataframe
    assert table.value["arm"].tolist() == list(ARMS)
    assert not [button for button in found.button if button.label == "Resume"]


def test_rollouts_of_another_model_are_said_to_be_so_once(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    calls = [json.loads(line) for line in path.read_text().splitlines()]
    for call in calls:
        call |= {"logprobs": [-0.01] * len(call["completion_ids"]), "temperature": 1.0}
    path.write_text("\n".join(map(json.dumps, calls)))
    folder = finished(tmp_path, "20260101-000000-aaaaaa")
    said = "Recorded log-probabilities are "
    assert texts(lab_page()).count(said) == 1
    looks = pd.read_parquet(folder / "watch.parquet")
    first = looks["note"][0]
    assert looks["note"].tolist() == [first, "", ""] * 2
    assert curves.noted(looks.assign(note=looks["note"].where(looks.index > 0))) == [
        f"{first[0].upper()}{first[1:]}."
    ]
    assert curves.noted(looks.drop(columns="note")) == []


def test_a_run_that_broke_off_can_be_resumed_and_says_why_an_arm_ended(tmp_path: Path) -> None:
    folder = finished(tmp_path, "20260101-000000-aaaaaa")
    status = json.loads((folder / "status.json").read_text())
    status["rightmost"] = {"state": "failed", "step": 1, "message": "lost :red[x] \x1b[31m"}
    (folder / "status.json").write_text(json.dumps(status))
    found = lab_page()
    assert found.error[0].value == "An arm ended early; its last good weights are kept."
    [told] = [text.value for text in found.text if "lost" in text.value]
    assert told == "rightmost (1 of 2 steps): lost :red[x] \u241b[31m"
    assert [button for button in found.button if button.label == "Resume"]
    earlier = "This run was begun by an earlier version, which kept the tokens alone"
    assert earlier not in texts(found)
    config = json.loads((folder / "config.json").read_text())
    config.pop("signals")
    (folder / "config.json").write_text(json.dumps(config))
    assert earlier in texts(lab_page())


def test_arms_that_diverged_show_their_steps_and_say_what_to_change(tmp_path: Path) -> None:
    """Nothing offers to resume what would end the same way."""
    finished(tmp_path, "20260101-000000-aaaaaa", steps=9, learning_rate=300.0, grad_clip=None)
    (told,) = lab.runs()
    assert {one.state for one in told.arms.values()} == {"failed"}
    found = lab_page()
    shown = texts(found)
    for arm, one in told.arms.items():
        assert 0 < one.step < 9
        assert f"{arm} ({one.step} of 9 steps): {one.message}" in shown
    assert "2 arms ended early; their last good weights are kept." in shown
    assert "would end rightmost and packed_mask the same way: lower the learning rate" in shown
    assert found.dataframe[0].value["arm"].tolist() == list(ARMS)
    assert found.get("plotly_chart")
    assert not [button for button in found.button if button.label == "Resume"]


def test_a_shortage_of_memory_can_be_resumed_beside_an_arm_that_cannot(tmp_path: Path) -> None:
    folder = finished(tmp_path, "20260101-000000-aaaaaa")
    status = json.loads((folder / "status.json").read_text())
    lost = "step 1: the loss is nan; the weights stay as the step before left them. Lower"
    status["rightmost"] |= {"state": "failed", "message": lost}
    (folder / "status.json").write_text(json.dumps(status))
    assert not lab.runs()[0].resumable
    status["packed_mask"] |= {"state": "failed", "message": "a row does not fit"}
    (folder / "status.json").write_text(json.dumps(status))
    assert lab.runs()[0].resumable


def test_a_refused_run_is_not_offered_to_be_resumed(tmp_path: Path, two_files: Path) -> None:
    """Its model says so only once it is loaded: the log-probabilities are missing."""
    trace = two_files / "rew.jsonl"
    trace.write_text(trace.read_text().replace('"logprobs": [-1.0, -1.0], ', ""))
    found = lab_page()
    box(found, TRAIN_ON).set_value([Part(trace_id("rew.jsonl"))]).run()
    [objective] = [one for one in found.segmented_control if one.label == "Objective"]
    objective.set_value("policy").run()
    [model] = [one for one in found.selectbox if one.label == "Model"]
    model.set_value(str(tmp_path / "tiny")).run()
    press(found, "Run")
    waited(found)
    assert "The run was refused; nothing was written." in texts(found)
    assert "has no recorded log-probabilities" in texts(found)
    assert f"This run has taken no step. {curves.AGAIN}" in texts(found)
    assert str(lab.runs()[0].folder) not in texts(found)  # it is not there
    assert not [button for button in found.button if button.label == "Resume"]
    (run,) = lab.runs()
    assert run.job is not None
    assert run._replace(job=replace(run.job, crashed=True)).resumable
    assert run._replace(job=replace(run.job, status="cancelled")).resumable


def test_why_a_prediction_and_its_run_failed_is_said_once(tmp_path: Path) -> None:
    found = lab_page()
    [model] = [one for one in found.selectbox if one.label == "Model"]
    model.set_value(str(tmp_path / "tiny")).run()
    (tmp_path / "tiny" / "config.json").write_text("{")
    press(found, "Estimate time and memory")
    waited(found)
    (asked,) = state.worker().states()
    assert asked.status == "failed"
    assert texts(found).count(asked.message) == 1
    press(found, "Run")
    waited(found)
    assert [one.status for one in state.worker().states()] == ["failed", "failed"]
    assert "The run was refused; nothing was written." in texts(found)
    assert texts(found).count(asked.message) == 1


def test_a_run_that_nothing_works_on_is_not_said_to_run(tmp_path: Path) -> None:
    """As after a crash of the app: its last word was that an arm runs."""
    folder = finished(tmp_path, "20260101-000000-aaaaaa")
    assert curves.progress(lab.runs()[0]) == "done"
    status = json.loads((folder / "status.json").read_text())
    status["packed_mask"]["state"] = "running"
    (folder / "status.json").write_text(json.dumps(status))
    assert curves.progress(lab.runs()[0]) == "broken off"
    assert lab.runs()[0].resumable


def test_a_broken_folder_is_left_out(tmp_path: Path) -> None:
    folder = finished(tmp_path, "20260101-000000-aaaaaa")
    (folder / "config.json").write_text("{")
    assert lab.runs() == []
    assert "No run yet." in texts(lab_page())


def test_checkpoints_are_models_of_the_app(tmp_path: Path) -> None:
    folder = finished(tmp_path, "20260101-000000-aaaaaa")
    paths = [str(folder / "arms" / arm) for arm in ARMS]
    assert sorted(checkpoints.found()) == sorted(paths)
    assert set(paths) < set(state.models())
    assert checkpoints.shown(paths[0]) == "20260101-000000-aaaaaa · rightmost"
    assert checkpoints.scored_as(paths[0]) == "tiny+20260101-000000-aaaaaa/rightmost"
    assert checkpoints.scored_as(str(tmp_path / "tiny")) == "tiny"
    other = finished(tmp_path, "20260102-000000-bbbbbb", seed=1) / "arms" / "rightmost"
    assert checkpoints.scored_as(str(other)) != checkpoints.scored_as(paths[0])
    for path in (paths[0], str(other)):
        assert load_model(path).name == checkpoints.scored_as(path)


def test_an_estimate_is_asked_once_for_a_plan() -> None:
    plan = Plan(files=("a",), methods=("exact",))
    other = Plan(files=("a",), methods=("exact",), watch=3)
    assert lab._estimate_id(plan) == lab._estimate_id(Plan(files=("a",), methods=("exact",)))
    assert lab._estimate_id(plan) != lab._estimate_id(other)


def test_the_page_can_ask_for_all_that_the_command_can(tmp_path: Path) -> None:
    """Every answer reaches the plan, and the printed command means the same plan."""
    calls = [
        {"rollout": name, "prompt_ids": [1], "completion_ids": [2], "reward": at}
        for at, name in enumerate("ab")
    ]
    (tmp_path / "run.jsonl").write_text("\n".join(map(json.dumps, calls)))
    (tmp_path / "batch.npz").write_bytes(b"")
    found = lab_page()
    disabled = {one.label for one in found.number_input if one.disabled}
    assert disabled == {"Lowest ratio", "Highest ratio", "Cut ratios at"}
    [objective] = [one for one in found.segmented_control if one.label == "Objective"]
    objective.set_value("policy").run()
    whole = next(name for name in trainable.offered(None).parts if name.rollout is None)
    box(found, TRAIN_ON).set_value([whole]).run()
    fields = {one.label: one for one in (*found.number_input, *found.multiselect)}
    wanted = {
        "Steps": 7, "Look every": 3, "Batch (tokens)": 512, "Learning rate": 3.21e-5, "Seed": 5,
        "LoRA rank": 4, "Lowest ratio": 0.7, "Highest ratio": 1.4, "Cut ratios at": 2.5,
        "SDCC strength": 0.3, "SDCC rise": 0.5, "Warm-up steps": 6, "Weight decay": 0.02,
        "Gradient clip": 2.0,
    }  # fmt: skip
    for label, value in wanted.items():
        fields[label].set_value(value)
    fields["Arms"].set_value(["exact", "sdcc", f"own:{tmp_path / 'batch.npz'}"])
    found.run()
    [button] = [button for button in found.button if button.label == "Run"]
    button.click().run()
    assert not found.exception
    [plan] = [one.plan for one in lab.runs()]
    assert plan.recipe == Recipe(
        steps=7, learning_rate=3.21e-5, batch_tokens=512, seed=5, objective="policy",
        clip=(0.7, 1.4), most=2.5, strength=0.3, rise=0.5, lora_rank=4, weight_decay=0.02,
        grad_clip=2.0, warmup_steps=6,
    )  # fmt: skip
    assert (plan.watch, plan.methods[2]) == (3, f"own:{tmp_path / 'batch.npz'}")
    options = _parser().parse_args(shlex.split(plan.command)[1:])
    assert train_command._plan(options)[0] == plan
    assert plan.command in [code.value for code in found.code]
    queue = state.worker().states()
    assert [one.job.kind for one in queue] == ["estimate", "train"]
    assert {(one.job.model, one.job.device) for one in queue} == {(plan.model, plan.device)}


def test_every_option_of_the_command_has_its_place_on_the_page_or_is_named_as_missing() -> None:
    """What is asked, what the start of the app decides, and what only the command has."""
    asked = {
        "--rollout": TRAIN_ON, "--held-out": "Watch on the rollouts of", "--method": "Arms",
        "--model": "Model", "--objective": "Objective", "--steps": "Steps", "--watch": "Look every",
        "--batch-tokens": "Batch (tokens)", "--lr": "Learning rate", "--seed": "Seed",
        "--lora": "LoRA rank", "--most": "Cut ratios at", "--clip": "Lowest ratio",
        "--strength": "SDCC strength", "--rise": "SDCC rise", "--warmup": "Warm-up steps",
        "--weight-decay": "Weight decay", "--grad-clip": "Gradient clip",
    }  # fmt: skip
    found = lab_page()
    shown = (*found.multiselect, *found.selectbox, *found.segmented_control, *found.number_input)
    assert set(asked.values()) <= {one.label for one in shown}
    manual = (Path(__file__).parents[2] / "docs" / "training.md").read_text()
    said = manual[manual.index("Only the command has") :].split("The address of", 1)[0]
    of_the_start, pressed = {"--device"}, {"--resume"}
    options = vars(_parser().parse_args(["train", "x"]))
    names = {f"--{name.replace('_', '-')}" for name in options} - {"--files", "--run"}
    for option in names - {*asked, *of_the_start, *pressed}:
        assert f"`{option}`" in said, option


def test_an_arm_that_is_nothing_is_said() -> None:
    found = lab_page()
    for name, why in (
        ("sideways", "unknown method"),
        ("own:/nowhere.npz", "no such file"),
        ("own:/", "is a folder"),
        ("own:a,b.npz", "a comma parts arms"),
    ):
        box(found, "Arms").set_value(["rightmost", "exact", name]).run()
        assert f"{name}: {why}" in texts(found)
        assert "No arm is chosen" not in texts(found)
        assert not [button for button in found.button if button.label == "Run"]


def test_an_address_leads_to_its_run_and_an_unknown_one_is_said(tmp_path: Path) -> None:
    old, new = "20260101-000000-aaaaaa", "20260102-000000-bbbbbb"
    for name in (old, new):
        finished(tmp_path, name)

    def opened(run: str) -> AppTest:
        found = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE)
        found.query_params["run"] = run
        found.run().switch_page("train_page.py").run()
        assert not found.exception
        return found

    found = opened(old)
    assert [box.value for box in found.selectbox if box.label == "Run"] == [old]
    assert "ignored" not in texts(found)
    assert found.query_params["run"] in (old, [old])
    for unknown in ("20260103-000000-cccccc", "../data", ""):
        assert "Part of this link was ignored" in texts(opened(unknown))


def test_a_demo_that_cannot_be_read_is_told_and_the_others_are_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, gone = kept.held, state.traces()[DEMOS[0].name].path

    def held(version: Version) -> Held:
        return Held((), "demo.jsonl: is gone") if version.path == str(gone) else real(version)

    monkeypatch.setattr(kept, "held", held)
    found = lab_page()
    assert not found.warning  # nothing has read it
    box(found, "Watch on the rollouts of").set_value([DEMOS[0].name]).run()
    assert [one.value for one in found.warning] == ["A demo cannot be read."]
    assert "demo.jsonl: is gone" in texts(found)
    assert len(box(found, TRAIN_ON).options) >= len(DEMOS)  # of the open trace, every other demo


def test_who_has_opened_nothing_is_offered_demos_that_a_cpu_can_train(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = trainable.offered(None)
    first = list(there.parts)[:1]
    assert trainable.suggested(there) == (first, [])
    monkeypatch.setattr(state, "is_chosen", lambda: False)
    (trained,), (watched,) = trainable.suggested(there)
    assert state.traces()[trained.trace].path.name == "summary.jsonl"
    assert state.traces()[watched].path.name == "tidy.jsonl"
    assert trainable.suggested(there._replace(traces={})) == (first, [])


@pytest.fixture
def two_files(tiny_app: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The app with a second trace, of two rollouts with rewards; the folder of both."""
    calls = [(name, [1, 2, 3], [4, 5 + at], at) for at, name in enumerate(("good", "bad"))]
    lines = [
        {"rollout": r, "prompt_ids": p, "completion_ids": c, "logprobs": [-1.0] * 2, "reward": w}
        for r, p, c, w in calls
    ]
    (tiny_app / "rew.jsonl").write_text("\n".join(map(json.dumps, lines)))
    paths = (str(tiny_app / "run.jsonl"), str(tiny_app / "rew.jsonl"))
    launch = serve.Launch(paths, (str(tiny_app / "tiny"),), "cpu")
    monkeypatch.setattr(sys, "argv", ["main.py", launch.to_argument()])
    return tiny_app


def only_command(found: AppTest) -> str:
    """What a press of Run comes to."""
    press(found, "Run")
    [run] = lab.runs()
    return run.plan.command


def test_two_own_files_are_trained_together(two_files: Path) -> None:
    found = lab_page()
    rollouts = box(found, TRAIN_ON)
    [whole] = [name for name in rollouts.options if name.startswith("rew.jsonl (")]
    rollouts.set_value([*rollouts.value, Part(trace_id("rew.jsonl"))]).run()
    assert re.fullmatch(r"rew\.jsonl \(\d+ bytes\)", whole)
    words = shlex.split(only_command(found))
    assert words[2:4] == [str(two_files / "run.jsonl"), str(two_files / "rew.jsonl")]
    assert "--rollout" not in words


def test_one_own_file_is_held_out_for_the_other(two_files: Path) -> None:
    found = lab_page()
    box(found, "Watch on the rollouts of").set_value([trace_id("rew.jsonl")]).run()
    words = shlex.split(only_command(found))
    assert words[2] == str(two_files / "run.jsonl")
    assert words[-2:] == ["--held-out", str(two_files / "rew.jsonl")]


def test_a_trace_is_not_read_to_be_offered_and_its_rollouts_are_once_it_was(
    two_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def noted(path: str) -> Trace:
        read.append(path)
        return load(path)

    monkeypatch.setattr(kept, "load", noted)
    found = lab_page()
    assert str(two_files / "run.jsonl") in read
    assert str(two_files / "rew.jsonl") not in read
    assert not {str(demo.path) for demo in DEMOS} & set(read)
    part = Part(trace_id("rew.jsonl"))
    box(found, TRAIN_ON).set_value([part]).run()
    assert str(two_files / "rew.jsonl") in read
    found.run()
    assert [one for one in box(found, TRAIN_ON).options if one.startswith("rew.jsonl · ")] == [
        "rew.jsonl · good",
        "rew.jsonl · bad",
    ]
    assert "rew.jsonl (all 2 rollouts)" in box(found, TRAIN_ON).options
    assert box(found, TRAIN_ON).value == [part]  # by its new name too
    box(found, TRAIN_ON).set_value([part._replace(rollout=1)]).run()
    assert only_command(found).endswith("--rollout bad")


def test_a_choice_stays_while_its_file_grows(two_files: Path) -> None:
    """Also where all of a file turns out to be one rollout."""
    trace = two_files / "rew.jsonl"
    trace.write_text(trace.read_text().splitlines()[0])
    found, whole = lab_page(), Part(trace_id("rew.jsonl"))
    box(found, TRAIN_ON).set_value([whole]).run()
    found.run()
    assert box(found, TRAIN_ON).value == [whole._replace(rollout=0)]
    trace.write_text("\n".join([trace.read_text(), trace.read_text().replace("good", "better")]))
    found.run()
    assert box(found, TRAIN_ON).value == [whole._replace(rollout=0)]
    assert "rew.jsonl · better" in box(found, TRAIN_ON).options


def test_a_rollout_that_its_file_has_no_more_stays_chosen_and_is_told(two_files: Path) -> None:
    """As while the file is written anew."""
    trace, chosen = two_files / "rew.jsonl", [Part(trace_id("rew.jsonl"), 1)]
    whole, found = trace.read_text(), lab_page()
    box(found, TRAIN_ON).set_value([chosen[0]._replace(rollout=None)]).run()
    box(found, TRAIN_ON).set_value(chosen).run()
    trace.write_text(whole.splitlines()[0])
    for _ in range(2):
        found.run()
        assert box(found, TRAIN_ON).value == chosen
        assert "rew.jsonl: has 1 rollout now, so rollout 2 is gone" in texts(found)
        assert "rew.jsonl · rollout 2 (gone)" in box(found, TRAIN_ON).options
    trace.write_text(whole)
    found.run()
    assert "rew.jsonl · rollout 2 (gone)" not in box(found, TRAIN_ON).options
    assert only_command(found).endswith("--rollout bad")


@pytest.mark.parametrize("harm", ["half written", "gone"])
def test_a_choice_that_cannot_be_read_is_told_in_every_run_and_comes_back(
    two_files: Path, harm: str
) -> None:
    trace, part = two_files / "rew.jsonl", Part(trace_id("rew.jsonl"))
    whole, found = trace.read_text(), lab_page()
    box(found, TRAIN_ON).set_value([part]).run()
    chosen = [part._replace(rollout=1)]
    box(found, TRAIN_ON).set_value(chosen).run()
    trace.write_text(whole[:9])
    if harm == "gone":
        trace.unlink()
    for _ in range(3):
        found.run()
        assert [one.value for one in found.warning] == ["A trace cannot be read."]
        assert texts(found).count(str(trace)) == 1
        assert box(found, TRAIN_ON).value == chosen
        assert not [button for button in found.button if button.label == "Run"]
    assert "rew.jsonl · rollout 2 (cannot be read)" in box(found, TRAIN_ON).options
    trace.write_text(whole)
    found.run()
    assert not found.warning
    assert box(found, TRAIN_ON).value == chosen
    assert only_command(found).endswith("--rollout bad")


def test_the_open_trace_is_not_chosen_anew_while_it_cannot_be_read(two_files: Path) -> None:
    trace = two_files / "run.jsonl"
    whole, found = trace.read_text(), lab_page()
    chosen = box(found, TRAIN_ON).value
    trace.write_text("{")
    found.run()
    assert [one.value for one in found.warning] == ["A trace cannot be read."]  # the other is open
    assert box(found, TRAIN_ON).value == chosen
    trace.write_text(whole)
    assert box(found.run(), TRAIN_ON).value == chosen


def test_one_file_under_two_names_is_offered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A demo that is named at the start too."""
    demo = DEMOS[0]
    monkeypatch.setattr(sys, "argv", ["main.py", serve.Launch((str(demo.path),)).to_argument()])
    own = trace_id(demo.path.name)
    assert own != demo.name
    for opened in (state.Opened(own, 0), state.Opened(demo.name, 0)):
        there = trainable.offered(opened)
        assert (next(iter(there.traces)), there.opened) == (own, own)
        paths = [state.traces()[trace].path for trace in there.traces]
        assert sorted(paths) == sorted(one.path for one in DEMOS)
        assert {part.trace for part in there.parts} == set(there.traces)


@pytest.mark.usefixtures("two_files")
def test_a_choice_is_kept_on_other_pages_and_a_first_one_follows_what_is_opened() -> None:
    def back(found: AppTest) -> AppTest:
        return found.switch_page("jobs_page.py").run().switch_page("train_page.py").run()

    found = back(lab_page())
    first, other = Part(trace_id("run.jsonl"), 0), Part(trace_id("rew.jsonl"), 0)
    assert box(found, TRAIN_ON).value == [first]
    found.session_state["opened"] = state.Opened(other.trace, 0)
    assert box(back(found), TRAIN_ON).value == [other]
    chosen = [other._replace(rollout=1)]
    box(found, TRAIN_ON).set_value(chosen)
    box(found, "Watch on the rollouts of").set_value([first.trace]).run()
    found.session_state["opened"] = state.Opened(first.trace, 0)
    found = back(found)
    assert box(found, TRAIN_ON).value == chosen
    assert box(found, "Watch on the rollouts of").value == [first.trace]


def test_a_file_that_shrinks_while_it_is_read_is_told(two_files: Path) -> None:
    part = Part(trace_id("rew.jsonl"), 1)
    chosen = trainable.read([part])
    trace = two_files / "rew.jsonl"
    trace.write_text(trace.read_text().splitlines()[0])
    with pytest.raises(TraceError, match="has 1 rollout now, so rollout 2 is gone"):
        trainable.read([part])
    st.cache_resource.clear()
    assert "all rewards are equal" in kept.ungraded(chosen.places)


def test_arms_that_the_chart_of_evictions_leaves_out_are_named(tmp_path: Path) -> None:
    """A later version went on with one arm of a run."""
    folder = finished(tmp_path, "20260101-000000-aaaaaa")
    path = folder / "junctions.parquet"
    rows = pd.read_parquet(path)
    assert len(rows)
    assert "left out" not in texts(lab_page())
    rows["after"] = rows["wrong"]
    rows["wrong"] = rows["wrong"].astype(float).where(rows["arm"] != "rightmost")
    rows.to_parquet(path)
    assert "rightmost is left out: its last look is of an earlier" in texts(lab_page())


def test_rollouts_that_a_run_cannot_tell_apart_are_refused(two_files: Path) -> None:
    """Of two files that hold the same rollouts, one of the first and all of the second."""
    (two_files / "run.jsonl").write_text((two_files / "rew.jsonl").read_text())
    found = lab_page()
    both = [Part(trace_id("run.jsonl"), 0), Part(trace_id("rew.jsonl"))]
    box(found, TRAIN_ON).set_value(both).run()
    assert "run.jsonl: another rollout 'bad' is trained on" in texts(found)
    assert not [button for button in found.button if button.label == "Run"]
    box(found, TRAIN_ON).set_value([*both, both[0]._replace(rollout=1)]).run()
    assert [button for button in found.button if button.label == "Run"]


def test_files_of_one_name_are_told_apart(two_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (two_files / "other").mkdir()
    twin = shutil.copy(two_files / "rew.jsonl", two_files / "other")
    launch = serve.Launch((str(two_files / "run.jsonl"), str(two_files / "rew.jsonl"), str(twin)))
    monkeypatch.setattr(sys, "argv", ["main.py", launch.to_argument()])
    names = [name for name in box(lab_page(), TRAIN_ON).options if "rew.jsonl" in name]
    assert [str(two_files / "rew.jsonl") in name for name in names] == [True, False]
    assert [str(twin) in name for name in names] == [False, True]


@pytest.mark.parametrize("rewards", ["missing", "equal"])
def test_rewards_that_teach_nothing_are_said_before_a_run(two_files: Path, rewards: str) -> None:
    trace = two_files / "rew.jsonl"
    if rewards == "equal":
        trace.write_text(trace.read_text().replace('"reward": 1', '"reward": 0'))
    found = lab_page()
    name = "rew.jsonl" if rewards == "equal" else "run.jsonl"
    box(found, TRAIN_ON).set_value([Part(trace_id(name), None if rewards == "equal" else 0)]).run()
    [objective] = [one for one in found.segmented_control if one.label == "Objective"]
    objective.set_value("policy").run()
    why = "all rewards are equal" if rewards == "equal" else "has no reward"
    assert why in texts(found)
    assert not [button for button in found.button if button.label == "Run"]
    objective.set_value("nll").run()
    assert [button for button in found.button if button.label == "Run"]


def test_a_resumed_run_tells_the_steps_that_it_has(tmp_path: Path) -> None:
    finished(tmp_path, "20260101-000000-aaaaaa")
    (found,) = lab.runs()
    job = JobState(Job("a", "train", "", "", ""), "running", total=8, eta=0.0)
    assert curves.how_far(found, job) == (0.5, "resumed, 4 of 8 steps of all arms so far")
    new = found._replace(arms={})
    assert curves.how_far(new, job) == (0.0, "begun, 0 of 8 steps of all arms so far")
    later = replace(job, done=6, eta=1.0)
    assert curves.how_far(found, later)[1].startswith("6 of 8 steps of all arms, ")
    assert curves.how_far(found, replace(job, total=0))[1] == "loading the model"


def test_a_run_of_traces_that_are_not_here_says_how_to_bring_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished(tmp_path, "20260101-000000-aaaaaa")
    monkeypatch.setattr(arms, "_rollouts", lambda _: {})
    path = tmp_path / "run.jsonl"
    found = lab_page()
    assert f"{arms.UNKNOWN} {arms.NAME_IT}" in texts(found)
    assert shlex.join(["mwviz", "app", str(path)]) in [code.value for code in found.code]
    path.rename(tmp_path / "elsewhere")
    found = lab_page()
    assert arms.GONE in texts(found)
    assert "The open trace cannot be read." in [one.value for one in found.warning]
    assert "run.jsonl: is gone" in texts(found)
