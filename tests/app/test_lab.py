"""The train lab's logic: empty, wrong and finished runs; checkpoints as models. Its worker is fake
where nothing is run."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from mwviz import serve, train_command
from mwviz.cli import _parser
from mwviz.demos import DEMOS
from mwviz.engine.model import load_model
from mwviz.errors import TraceError
from mwviz.jobs import Job
from mwviz.trace import Trace
from mwviz.training.plan import Plan, material
from mwviz.training.recipe import Recipe
from mwviz.training.runs import run
from mwviz_app import arms, checkpoints, curves, lab, state
from mwviz_app.jobs import JobState

PATIENCE = 120  # seconds a page may take to run
ARMS = ("rightmost", "packed_mask")

pytestmark = pytest.mark.usefixtures("tiny_app")


def page() -> AppTest:
    return AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()


def lab_page() -> AppTest:
    found = page().switch_page("train_page.py").run()
    assert not found.exception
    return found


def finished(tmp_path: Path, name: str, **recipe: float) -> Path:
    """A run that lies where the app keeps its own."""
    plan = Plan(
        files=(str(tmp_path / "run.jsonl"),),
        methods=ARMS,
        recipe=Recipe(steps=2, lora_rank=2, **recipe),  # type: ignore[arg-type]
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


def test_the_empty_lab_says_what_to_do() -> None:
    found = lab_page()
    assert "No run yet." in texts(found)
    [rollouts] = [box for box in found.multiselect if box.label == "Rollouts to train on"]
    rollouts.set_value([]).run()
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


def test_a_run_that_broke_off_can_be_resumed_and_says_why_an_arm_ended(tmp_path: Path) -> None:
    folder = finished(tmp_path, "20260101-000000-aaaaaa")
    status = json.loads((folder / "status.json").read_text())
    status["rightmost"] = {"state": "failed", "step": 1, "message": "lost :red[x] \x1b[31m"}
    (folder / "status.json").write_text(json.dumps(status))
    found = lab_page()
    assert found.error[0].value == "An arm ended early; its last good weights are kept."
    [told] = [text.value for text in found.text if "lost" in text.value]
    assert told == "rightmost: lost :red[x] \u241b[31m"
    assert [button for button in found.button if button.label == "Resume"]


def test_a_run_that_nothing_works_on_is_not_said_to_run(tmp_path: Path) -> None:
    """As after a crash of the app: its last word was that an arm runs."""
    folder = finished(tmp_path, "20260101-000000-aaaaaa")
    assert curves.progress(lab.runs()[0]) == "done"
    status = json.loads((folder / "status.json").read_text())
    status["packed_mask"]["state"] = "running"
    (folder / "status.json").write_text(json.dumps(status))
    assert curves.progress(lab.runs()[0]) == "broken off"
    assert lab.runs()[0].open_ended


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
    (tmp_path / "batch.npz").write_bytes(b"")
    found = lab_page()
    disabled = {one.label for one in found.number_input if one.disabled}
    assert disabled == {"Lowest ratio", "Highest ratio", "Cut ratios at"}
    [objective] = [one for one in found.segmented_control if one.label == "Objective"]
    objective.set_value("policy").run()
    box = {one.label: one for one in (*found.number_input, *found.multiselect)}
    wanted = {
        "Steps": 7, "Look every": 3, "Batch (tokens)": 512, "Learning rate": 3.21e-5, "Seed": 5,
        "LoRA rank": 4, "Lowest ratio": 0.7, "Highest ratio": 1.4, "Cut ratios at": 2.5,
        "SDCC strength": 0.3, "SDCC rise": 0.5, "Warm-up steps": 6, "Weight decay": 0.02,
        "Gradient clip": 2.0,
    }  # fmt: skip
    for label, value in wanted.items():
        box[label].set_value(value)
    box["Arms"].set_value(["exact", "sdcc", f"own:{tmp_path / 'batch.npz'}"])
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


def test_an_arm_that_is_nothing_is_said() -> None:
    found = lab_page()
    [arms] = [box for box in found.multiselect if box.label == "Arms"]
    for name, why in (("sideways", "sideways"), ("own:/nowhere.npz", "no such file")):
        arms.set_value(["exact", name]).run()
        assert why in texts(found)
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
    real = state.trace

    def trace(trace_id: str) -> Trace:
        if trace_id == DEMOS[0].name:
            raise TraceError("demo.jsonl: is gone")
        return real(trace_id)

    monkeypatch.setattr(state, "trace", trace)
    found = lab_page()
    assert [one.value for one in found.warning] == ["A demo cannot be trained on."]
    assert "demo.jsonl: is gone" in texts(found)
    [rollouts] = [box for box in found.multiselect if box.label == "Rollouts to train on"]
    assert len(rollouts.options) >= len(DEMOS)  # of the open trace, and of every other demo


def test_who_has_opened_nothing_is_offered_demos_that_a_cpu_can_train(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = lab.choices(None).rollouts
    assert lab.suggested(known) == (list(known)[:1], [])
    monkeypatch.setattr(state, "is_chosen", lambda: False)
    (trained,), (watched,) = lab.suggested(known)
    assert state.traces()[trained.trace].path.name == "summary.jsonl"
    assert state.traces()[watched].path.name == "tidy.jsonl"
    assert lab.suggested(dict.fromkeys(list(known)[:1], "")) == (list(known)[:1], [])


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
    assert "The open trace cannot be trained on." in [one.value for one in found.warning]
    assert "run.jsonl: is gone" in texts(found)
