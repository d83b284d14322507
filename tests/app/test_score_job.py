from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from mwviz import load, store
from mwviz.jobs import Job
from mwviz_app.jobs import JobState, Worker
from tests.app.conftest import PATIENCE
from tests.saved_model import save_tiny_model


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A tiny model in a folder; the score cache is this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    save_tiny_model(tmp_path / "tiny")
    return str(tmp_path / "tiny")


@pytest.fixture
def trace(tmp_path: Path) -> str:
    calls = [([1, 2], [3, 4]), ([1, 3, 4], [5])]
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(json.dumps({"prompt_ids": p, "completion_ids": c}) for p, c in calls))
    return str(path)


def run(job: Job) -> JobState:
    worker = Worker()
    worker.submit(job)
    deadline = time.monotonic() + PATIENCE
    while (state := worker.state(job.id)) is None or state.live:
        assert time.monotonic() < deadline, state
        time.sleep(0.05)
    worker.close()
    return state


def test_a_scored_method_is_found_in_the_store(model: str, trace: str) -> None:
    rollout = load(trace).rollouts[0].id
    state = run(Job("j", "score", trace, rollout, "logit_tree", model, "cpu"))
    assert state.status == "done", state.message
    assert state.result is not None
    scores = store.load(store.Key(**state.result["key"])).scores
    assert scores is not None
    assert np.isfinite(scores.logprob).tolist() == [True, True, True]


def test_a_rollout_that_is_not_in_the_trace_is_refused_by_name(model: str, trace: str) -> None:
    state = run(Job("j", "score", trace, "gone", "logit_tree", model, "cpu"))
    assert (state.status, state.message) == ("failed", f"{trace}: no rollout 'gone' in it")


def test_a_model_that_is_not_there_is_refused_by_name(trace: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "no-model")
    rollout = load(trace).rollouts[0].id
    state = run(Job("j", "score", trace, rollout, "logit_tree", missing, "cpu"))
    assert state.status == "failed"
    assert "no-model" in state.message
