"""The train lab's logic: empty, wrong and finished runs; checkpoints as models. Its worker is fake
where nothing is run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mwviz import serve
from mwviz.training.plan import Plan, material
from mwviz.training.recipe import Recipe
from mwviz.training.runs import run
from mwviz_app import checkpoints, curves, lab, memory, state
from tests.saved_model import save_tiny_model

PATIENCE = 120  # seconds a page may take to run
ARMS = ("rightmost", "packed_mask")


@pytest.fixture(autouse=True)
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One trace and one tiny model; runs, caches and marks are this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(memory, "_path", lambda: tmp_path / "remembered.json")
    save_tiny_model(tmp_path / "tiny")
    calls = [([1, 2, 3], [4, 5]), ([1, 4, 5], [6, 7])]
    lines = [json.dumps({"prompt_ids": p, "completion_ids": c}) for p, c in calls]
    (tmp_path / "run.jsonl").write_text("\n".join(lines))
    launch = serve.Launch((str(tmp_path / "run.jsonl"),), (str(tmp_path / "tiny"),), "cpu")
    monkeypatch.setattr(sys, "argv", ["main.py", launch.to_argument()])
    st.cache_resource.clear()
    yield
    state.worker().close()
    st.cache_resource.clear()


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
    assert curves.name(lab.runs()[0]).endswith("nll · done")
    status = json.loads((folder / "status.json").read_text())
    status["packed_mask"]["state"] = "running"
    (folder / "status.json").write_text(json.dumps(status))
    assert curves.name(lab.runs()[0]).endswith("nll · broken off")
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
    assert checkpoints.scored_as(paths[0]) == "tiny+rightmost"
    assert checkpoints.scored_as(str(tmp_path / "tiny")) == "tiny"


def test_an_estimate_is_asked_once_for_a_plan() -> None:
    plan = Plan(files=("a",), methods=("exact",))
    other = Plan(files=("a",), methods=("exact",), watch=3)
    assert lab._estimate_id(plan) == lab._estimate_id(Plan(files=("a",), methods=("exact",)))
    assert lab._estimate_id(plan) != lab._estimate_id(other)
