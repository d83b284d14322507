from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mwviz import serve
from mwviz.demos import DEMOS
from mwviz.engine.embedded import EMBEDDED
from mwviz.jobs import Job
from mwviz_app import checkpoints, state
from mwviz_app.jobs import Worker
from tests.app.conftest import PATIENCE


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    """A worker of made-up jobs, known to the app."""
    made = Worker(["tests.app.fake_jobs"])
    monkeypatch.setattr(state, "worker", lambda: made)
    st.cache_resource.clear()
    yield made
    for job in made.states():
        made.cancel(job.job.id)
    made.close()


def jobs_page() -> AppTest:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()
    page.switch_page("jobs_page.py").run()
    assert not page.exception
    return page


def wait(worker: Worker, job_id: str, *, live: bool) -> None:
    deadline = time.monotonic() + PATIENCE
    while (job := worker.state(job_id)) is None or job.live != live or (live and not job.done):
        assert time.monotonic() < deadline, job
        time.sleep(0.02)


def test_without_a_job_the_page_says_how_to_start_one(worker: Worker) -> None:
    assert jobs_page().info[0].value.startswith("Nothing was run."), worker


def test_every_job_is_listed_with_its_state_and_can_be_cancelled(
    worker: Worker, tmp_path: Path
) -> None:
    for name in ("endless", "count_to_three"):
        worker.submit(Job(name, name, str(tmp_path / "log"), "r1", "replay", model="tiny"))
    wait(worker, "endless", live=True)
    page = jobs_page()
    assert list(page.dataframe[0].value["state"]) == ["waiting", "running"]
    assert list(page.dataframe[0].value["trace"]) == ["log", "log"]
    page.button(key="cancel-endless").click().run()
    wait(worker, "count_to_three", live=False)
    page.run()
    assert list(page.dataframe[0].value["state"]) == ["done", "cancelled"]
    assert page.text[0].value.startswith("2 jobs, 0 of them")


def test_a_checkpoint_is_named_by_its_run_and_arm_as_on_every_other_page(
    worker: Worker, tmp_path: Path
) -> None:
    path = checkpoints.folder() / "run" / "arms" / "rightmost"
    for name, model in (("endless", str(path)), ("later", None)):
        worker.submit(Job(name, "endless", str(tmp_path / "log"), "r1", "replay", model=model))
    assert list(jobs_page().dataframe[0].value["model"]) == [EMBEDDED, "run · rightmost"]


@pytest.mark.parametrize("where", ["jobs_page.py", "triage_page.py"])
def test_all_that_waits_is_counted_and_cancelled_at_once(
    worker: Worker, tmp_path: Path, where: str
) -> None:
    for name in ("endless", "a", "b"):
        kind = "endless" if name == "endless" else "count_to_three"
        worker.submit(Job(name, kind, str(tmp_path / "log"), "r1", "replay", model="tiny"))
    wait(worker, "endless", live=True)
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()
    page.switch_page(where).run()
    assert "2 jobs wait behind it." in [text.value for text in page.text]
    [button] = [button for button in page.button if button.label == "Cancel all"]
    button.click().run()
    wait(worker, "endless", live=False)
    assert {job.status for job in worker.states()} == {"cancelled"}


def shown_jobs() -> None:
    from mwviz_app import state, widgets

    widgets.show_jobs(list(state.worker().states()))


def test_jobs_that_wait_share_a_line_and_are_cancelled_together(
    worker: Worker, tmp_path: Path
) -> None:
    methods = ("rightmost", "replay", "sdcc", "packed_mask")
    for name, method in zip(("endless", "a", "b", "c"), methods, strict=True):
        kind = "endless" if name == "endless" else "count_to_three"
        worker.submit(Job(name, kind, str(tmp_path / "log"), "r1", method, model="tiny"))
    wait(worker, "endless", live=True)
    page = AppTest.from_function(shown_jobs, default_timeout=PATIENCE).run()
    assert [button.key for button in page.button] == ["cancel-endless", "cancel-behind"]
    assert page.text[0].value == "Then replay, sdcc, packed_mask."
    page.button(key="cancel-behind").click().run()
    assert [job.status for job in worker.states()] == ["running", *["cancelled"] * 3]
    assert [button.key for button in page.button] == ["cancel-endless"]


def test_jobs_that_wait_are_told_with_their_models_where_these_differ(
    worker: Worker, tmp_path: Path
) -> None:
    for name, model in (("endless", "tiny"), ("a", "tiny"), ("b", "other"), ("c", "other")):
        worker.submit(Job(name, "endless", str(tmp_path / "log"), "r1", "replay", model=model))
    wait(worker, "endless", live=True)
    page = AppTest.from_function(shown_jobs, default_timeout=PATIENCE).run()
    told = "Then replay with tiny, replay with other, replay with other."
    assert page.text[0].value == told


def test_a_failed_job_says_why_as_plain_text(worker: Worker, tmp_path: Path) -> None:
    trace = tmp_path / "<b>\u202e.jsonl"
    worker.submit(Job("refuse", "refuse", str(trace), "r1", "replay", model="tiny"))
    wait(worker, "refuse", live=False)
    page = jobs_page()
    table = page.dataframe[0].value
    assert list(table["why it failed"]) == ["tiny: no such model"]
    assert list(table["trace"]) == ["<b>⟨U+202E⟩.jsonl"]
    page = AppTest.from_function(shown_jobs, default_timeout=PATIENCE).run()
    [log] = page.code
    assert "looking for <b>tiny</b>⟨U+202E⟩" in log.value
    assert "\\xff is no text" in log.value


def test_a_job_leads_back_to_its_rollout(worker: Worker) -> None:
    def place(trace: str, rollout: str) -> state.Opened | None:
        worker.submit(Job(trace + rollout, "refuse", trace, rollout, "replay"))
        return state.place_of(worker.states()[-1])

    path = str(DEMOS[1].path)
    assert place(path, "tidy") == state.Opened("tidy", 0)
    assert place(path, "gone") is None
    assert place("elsewhere.jsonl", "tidy") is None
