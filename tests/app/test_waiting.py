"""Questions that wait for a run: one a rollout, asked only in the tokens of that run."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from streamlit.testing.v1 import AppTest

from mwviz import serve, store
from mwviz.engine.embedded import AGENT
from mwviz.engine.steps import Step
from mwviz.jobs import Job, Result, UnreadError
from mwviz.worker import run_job
from mwviz_app import cards, runs, state, studies, waiting
from mwviz_app.jobs import JobState, Worker
from mwviz_app.state import Opened
from tests.app.conftest import PATIENCE, press, waited

pytestmark = pytest.mark.usefixtures("fresh_caches")
Pages = Callable[[str], AppTest]


@pytest.fixture
def opened_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pages]:
    """A log of messages, and how its page is opened with a worker of certain jobs."""
    path = tmp_path / "said.jsonl"
    ask, answer = {"role": "user", "content": "what is four"}, "it is what four is"
    path.write_text(
        json.dumps({"messages": [ask], "completion": [{"role": "assistant", "content": answer}]})
    )
    monkeypatch.setattr(sys, "argv", ["main.py", serve.Launch((str(path),)).to_argument()])
    made: list[Worker] = []

    def page(jobs: str) -> AppTest:
        worker = Worker([jobs])
        made.append(worker)
        monkeypatch.setattr(state, "worker", lambda: worker)
        page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run().run()
        assert not page.exception
        return page

    yield page
    for worker in made:
        worker.close()


def rollout() -> Opened:
    opened = state.opened()
    assert opened is not None
    return opened


def ask_about(page: AppTest, target: int) -> AppTest:
    page.session_state["selection"] = cards.of_target(state.analysis(rollout()), target)
    return press(page, "What causes this?")


def told(page: AppTest) -> list[str]:
    return [toast.value for toast in page.toast]


def test_a_second_question_does_not_replace_one_that_waits_and_a_failed_run_is_told(
    opened_with: Pages, tmp_path: Path
) -> None:
    page = opened_with("tests.app.fake_jobs")  # it knows no scoring: runs fail
    worker = state.worker()
    worker.submit(Job("before", "endless", str(tmp_path / "log"), "r1", "replay"))
    ask_about(page, 0)
    first = dict(page.session_state["studies-waiting"])
    assert list(first) == [rollout()]
    assert told(page) == []
    ask_about(page, 1)
    assert page.session_state["studies-waiting"] == first
    assert told(page) == [waiting.BUSY]
    assert any("waits for the run above" in info.value for info in page.info)
    page.session_state["view"] = "union_mask"
    page.run()
    assert any("waits for the run above" in info.value for info in page.info)
    worker.cancel("before")
    waited(page)
    assert told(page) == [waiting.NOT_RUN]
    assert page.session_state["studies-waiting"] == {}
    assert not [one for one in worker.states() if one.job.kind == "causes"]


def test_a_question_is_asked_only_in_the_tokens_of_the_run_it_waited_for(
    opened_with: Pages, tmp_path: Path
) -> None:
    page = opened_with("tests.app.fake_scores")
    worker = state.worker()
    worker.submit(Job("before", "endless", str(tmp_path / "log"), "r1", "replay"))
    ask_about(page, 0)
    worker.cancel("before")
    waited(page)
    assert {one.status for one in state.jobs_of(rollout())} == {"done"}
    assert told(page) == [waiting.ELSEWHERE]
    assert not [one for one in worker.states() if one.job.kind == "causes"]


def test_only_a_study_in_tokens_that_its_model_does_not_read_is_asked_again_behind_a_run(
    opened_with: Pages,
) -> None:
    page = opened_with("tests.app.fake_jobs")  # it knows no studies: they fail for that
    studies.start(rollout(), "causes", "rightmost", None, 0)
    waited(page)
    assert page.error[0].value == "The job failed."
    assert waiting.AGAIN not in [button.label for button in page.button]

    def causes(_: Job) -> Iterator[Step[Result]]:
        yield Step(0, 1, 0.0)
        raise UnreadError("run it on the rollout first")

    *_, event = run_job(Job("j", "causes", "", "", "replay"), {"causes": causes}, lambda _: False)
    assert event == {"event": "failed", "message": "run it on the rollout first", "unread": True}


def test_a_question_that_is_under_way_or_answered_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(status: Literal["running", "done"]) -> list[str]:
        job = Job("asked", "causes", "log", "r", "rightmost", AGENT)
        monkeypatch.setattr(studies, "last", lambda *_, **__: JobState(job, status))
        page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE)
        page.session_state["opened"] = Opened("busy", 0)
        page.session_state["selection"] = cards.of_target(state.analysis(Opened("busy", 0)), 3)
        return told(press(page.run(), "What causes this?"))

    assert pressed("running") == [waiting.UNDER_WAY]
    assert pressed("done") == [waiting.ANSWERED]
    assert not state.worker().states()


@pytest.mark.parametrize("anew", ["done", "failed"])
def test_a_question_that_waited_goes_only_to_the_model_that_has_read_the_rollout(
    monkeypatch: pytest.MonkeyPatch, anew: Literal["done", "failed"]
) -> None:
    """A checkpoint may be trained on between runs, or between a run and the question."""
    opened = Opened("busy", 0)
    analysis = state.analysis(opened)
    monkeypatch.setattr("streamlit.session_state", {"view": "rightmost"})
    monkeypatch.setattr(runs, "start", lambda *_: None)
    toasts: list[str] = []
    monkeypatch.setattr("streamlit.toast", toasts.append)
    worker = Worker()
    monkeypatch.setattr(state, "worker", lambda: worker)
    monkeypatch.setattr(worker, "_start_next", lambda: None)
    waiting._run_first(opened, waiting._study(analysis, "causes", "rightmost", "path", 3))

    def ran(method: str, model: str, status: Literal["done", "failed"] = "done") -> JobState:
        run = Job(method, "score", "log", "r", method, "path")
        key = store.Key(state.digest(opened), model, method, "float32", "sdpa", "cpu")._asdict()
        return JobState(run, status, result={"key": key} if status == "done" else None)

    jobs = [
        ran("rightmost", "trained@2", anew),
        ran("exact", "trained@2"),
        ran("replay", "trained@1"),
    ]
    monkeypatch.setattr(state, "jobs_of", lambda _: jobs)
    waiting.resume(opened, analysis)
    asked = [one.job for one in worker.states()]
    if anew == "failed":
        assert (asked, toasts) == ([], [waiting.NOT_RUN])
    else:
        [job] = asked
        assert (job.kind, job.at, job.model, job.scored) == ("causes", 3, "path", "trained@2")
        assert not toasts


@pytest.mark.parametrize("view", ["union_mask", "rightmost"])
def test_a_failed_study_is_told_under_every_view(
    monkeypatch: pytest.MonkeyPatch, view: str
) -> None:
    worker = Worker(["tests.app.fake_jobs"])
    monkeypatch.setattr(state, "worker", lambda: worker)
    studies.start(Opened("busy", 0), "causes", "rightmost", None, 0)
    deadline = time.monotonic() + PATIENCE
    while any(one.live for one in worker.states()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE)
    page.session_state["opened"] = Opened("busy", 0)
    page.session_state["view"] = view
    page.run()
    worker.close()
    assert not page.exception
    assert page.error[0].value == "The job failed."
