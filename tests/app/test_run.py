"""Runs from the Debug page, in the real worker process, on a tiny model named at the start."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mwviz import serve
from mwviz.jobs import Job
from mwviz.verdict import refusal
from mwviz.views import METHODS
from mwviz_app import runs, state
from tests.app.conftest import PATIENCE, open_popover, press, waited
from tests.saved_model import save_tiny_model


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A tiny model offered by the app beside one trace; the score cache is this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model, trace = tmp_path / "tiny", tmp_path / "run.jsonl"
    save_tiny_model(model)
    calls = [([1, 2], [3, 4]), ([1, 3, 4], [5])]
    trace.write_text(
        "\n".join(json.dumps({"prompt_ids": p, "completion_ids": c}) for p, c in calls)
    )
    launch = serve.Launch((str(trace),), (str(model),), "cpu")
    monkeypatch.setattr(sys, "argv", ["main.py", launch.to_argument()])
    st.cache_resource.clear()
    yield str(model)
    state.worker().close()
    st.cache_resource.clear()


def debug(place: state.Opened | None = None) -> AppTest:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE)
    if place:
        page.session_state["opened"] = place
    return page.run()


def run(page: AppTest, model: str, method: str) -> AppTest:
    """Presses Run and waits until no job lives."""
    open_popover(page, "run")
    [models] = [box for box in page.selectbox if box.label == "Model" and model in box.options]
    models.set_value(model)
    [methods] = [box for box in page.selectbox if box.label == "Method"]
    methods.set_value(method)
    return waited(press(page, "Run"))


def test_a_run_brings_drift_with_its_floor_and_an_exact_method_to_judge_by(tiny: str) -> None:
    page = debug()
    assert page.text[1].value == "Drift: not run yet."
    run(page, tiny, "rightmost")
    ran = {job.job.method: job.status for job in state.worker().states()}
    assert ran == {"rightmost": "done", "exact": "done"}
    assert page.text[1].value.startswith("Mean |drift| on its 2 diverging tokens: ")
    assert "(floor " in page.text[1].value
    page.session_state["judged0"] = True  # Judged by, opened
    assert any("tiny@" in text.value for text in page.run().text)
    assert not page.error


def test_a_run_says_what_goes_through_the_model_and_how_long_that_takes(tiny: str) -> None:
    page = debug()
    [trace] = [name for name, one in state.traces().items() if one.origin != "demo"]
    open_popover(page, "run")
    found = state.analysis(state.Opened(trace, 0))
    names = {method.student or method.name for method in METHODS}
    rows = [row for n in names if not refusal(found, n) for row in found.view(n).rows]
    counted = f"{sum(row.size for row in rows):,} tokens through the model: "
    [models] = [box for box in page.selectbox if box.label == "Model" and tiny in box.options]
    models.set_value(tiny).run()
    assert f"{counted}how long is known once one was run." in [text.value for text in page.text]
    run(page, tiny, "rightmost")
    assert "Method" not in [box.label for box in page.selectbox], "what was pressed is put away"
    open_popover(page, "run")
    [methods] = [box for box in page.selectbox if box.label == "Method"]
    methods.set_value("all methods").run()
    assert any(text.value.startswith(f"{counted}about ") for text in page.text)


def test_a_rollout_of_another_tokenizer_is_refused_in_words(tiny: str) -> None:
    page = run(debug(state.Opened("control", 0)), tiny, "rightmost")
    assert page.error[0].value == "The job failed."
    message = "\n".join(text.value for text in page.text)
    assert "tiny" in message
    assert "tokenizer" in message


def test_the_shown_view_and_its_judge_run_before_all_other_methods(
    tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Job] = []
    monkeypatch.setattr(state.worker(), "submit", asked.append)
    monkeypatch.setattr(state, "view", lambda: "sdcc_replay")
    runs.start(state.Opened("control", 0), tuple(method.name for method in METHODS), tiny)
    methods = [job.method for job in asked]
    assert methods[:3] == ["replay", "exact", "rightmost"]  # sdcc_replay has the scores of replay
    assert len(set(methods)) == len(methods)
    assert set(methods) >= {method.name for method in METHODS if not method.student}
