from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mwviz.jobs import Job
from mwviz.worker import run_job, serve_jobs
from mwviz_app.jobs import JobState, Worker
from mwviz_app.widgets import progress
from tests.app.conftest import PATIENCE
from tests.app.fake_jobs import JOBS


@pytest.fixture
def worker() -> Iterator[Worker]:
    started = Worker(["tests.app.fake_jobs"])
    yield started
    started.close()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def job(kind: str, log: Path, name: str = "") -> Job:
    return Job(name or kind, kind, str(log), "r1", "replay", model="tiny")


def wait(worker: Worker, job_id: str, until: Callable[[JobState], bool]) -> JobState:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        state = worker.state(job_id)
        assert state is not None
        if until(state):
            return state
        time.sleep(0.01)
    raise AssertionError(f"{job_id} stayed {worker.state(job_id)}")


def ended(worker: Worker, job_id: str) -> JobState:
    return wait(worker, job_id, lambda state: not state.live)


def test_a_job_reports_its_steps_and_its_result(worker: Worker, log: Path) -> None:
    worker.submit(job("count_to_three", log))
    state = ended(worker, "count_to_three")
    assert state.status == "done"
    assert (state.done, state.total, state.eta) == (3, 3, 0)
    assert state.result is not None
    assert state.result["method"] == "replay"


def test_jobs_run_one_at_a_time_in_one_process(worker: Worker, log: Path) -> None:
    for name in "abc":
        worker.submit(job("count_to_three", log, name))
    results = [ended(worker, name).result for name in "abc"]
    order = [f"{edge} {name}" for name in "abc" for edge in ("start", "end")]
    assert log.read_text().splitlines() == order
    assert len({result["process"] for result in results if result}) == 1


def test_a_running_job_is_cancelled_between_two_steps(worker: Worker, log: Path) -> None:
    worker.submit(job("endless", log))
    running = wait(worker, "endless", lambda state: state.done > 3)
    assert running.status == "running"
    assert running.eta == 1e6
    worker.cancel("endless")
    assert ended(worker, "endless").status == "cancelled"
    worker.submit(job("count_to_three", log))
    assert ended(worker, "count_to_three").status == "done"
    assert log.read_text().splitlines()[0] == "closed endless"


def test_a_job_says_that_it_stops_until_its_step_has_ended(worker: Worker, log: Path) -> None:
    worker.submit(job("held", log))
    running = wait(worker, "held", lambda state: state.done == 1)
    assert progress(running) == "1 of 3, about 1 s left"
    assert progress(replace(running, eta=0.0)) == "1 of 3"
    worker.cancel("held")
    stopping = worker.state("held")
    assert stopping is not None
    assert (stopping.live, progress(stopping)) == (True, "stops after its current step")
    log.touch()
    assert ended(worker, "held").status == "cancelled"


def test_a_waiting_job_is_cancelled_without_running(worker: Worker, log: Path) -> None:
    worker.submit(job("endless", log))
    worker.submit(job("count_to_three", log, "second"))
    wait(worker, "endless", lambda state: state.done > 0)
    worker.cancel("second")
    assert ended(worker, "second").status == "cancelled"
    worker.cancel("endless")
    ended(worker, "endless")
    assert log.read_text() == "closed endless\n"


def test_a_refusal_is_a_message_and_the_worker_lives_on(worker: Worker, log: Path) -> None:
    worker.submit(job("count_to_three", log, "before"))
    worker.submit(job("refuse", log))
    worker.submit(job("count_to_three", log, "after"))
    state = ended(worker, "refuse")
    assert (state.status, state.message) == ("failed", "tiny: no such model")
    before, after = ended(worker, "before").result, ended(worker, "after").result
    assert before is not None
    assert before == after


def test_a_job_keeps_the_last_lines_that_it_printed_and_no_other(worker: Worker, log: Path) -> None:
    for name in ("before", "refuse", "after"):
        worker.submit(job("refuse" if name == "refuse" else "count_to_three", log, name))
    assert ended(worker, "before").log == ("chatter",) * 3
    assert set(ended(worker, "refuse").log) == {"looking for <b>tiny</b>\u202e", "\\xff is no text"}
    assert ended(worker, "after").log == ("chatter",) * 3


@pytest.mark.parametrize(
    ("kind", "printed"),
    [
        ("half_a_line", (" 50%", "100% of half")),
        ("quote_marks", ("\x1e", "\x1eanother", "", "last", "")),
    ],
)
def test_whatever_a_job_prints_the_next_ones_run_and_have_their_own_log(
    worker: Worker, log: Path, kind: str, printed: tuple[str, ...]
) -> None:
    worker.submit(job(kind, log))
    worker.submit(job("count_to_three", log, "after"))
    assert ended(worker, kind).log == printed
    assert ended(worker, kind).status == "done"
    assert ended(worker, "after").log == ("chatter",) * 3


@pytest.mark.parametrize(
    ("kind", "told"), [("bug", "KeyError: 'a bug in bug'"), ("die", "status -9")]
)
def test_a_crash_fails_its_own_job_only(worker: Worker, log: Path, kind: str, told: str) -> None:
    worker.submit(job("count_to_three", log, "before"))
    worker.submit(job(kind, log))
    worker.submit(job("count_to_three", log, "after"))
    crashed = ended(worker, kind)
    assert crashed.status == "failed"
    assert told in crashed.message
    before, after = ended(worker, "before").result, ended(worker, "after").result
    assert before is not None
    assert after is not None
    assert before["process"] != after["process"]


def test_a_crash_quotes_what_was_printed_before_the_end_that_nobody_heard(
    worker: Worker, log: Path
) -> None:
    worker.submit(job("die_unheard", log))
    assert ended(worker, "die_unheard").message == "the worker ended with status -9:\nlast words"
    worker.submit(job("die", log))
    assert ended(worker, "die").message == "the worker ended with status -9; it printed nothing"


@pytest.mark.parametrize("kind", ["leave_a_child", "fork"])
def test_a_crash_is_told_although_a_child_of_the_process_lives_on(
    worker: Worker, log: Path, kind: str
) -> None:
    worker.submit(job(kind, log))
    worker.submit(job("count_to_three", log.with_name("counted"), "after"))
    try:
        assert "status -9" in ended(worker, kind).message
        assert ended(worker, "after").status == "done"
    finally:
        os.kill(int(log.read_text()), signal.SIGKILL)


def test_an_event_that_is_cut_by_a_crash_is_none(log: Path) -> None:
    worker = Worker()
    script = """print('{"id": "cut", "ev', end=""); import sys; sys.exit("out of memory")"""
    worker._command = [sys.executable, "-c", script]
    worker.submit(job("count_to_three", log, "cut"))
    assert ended(worker, "cut").message == "the worker ended with status 1:\nout of memory"


def test_a_worker_that_cannot_start_fails_each_job_with_the_reason(log: Path) -> None:
    worker = Worker(["tests.app.no_such_module"])
    for name in "ab":
        worker.submit(job("count_to_three", log, name))
    for name in "ab":
        state = ended(worker, name)
        assert state.status == "failed"
        assert "No module named 'tests.app.no_such_module'" in state.message


def test_a_job_id_is_run_once(worker: Worker, log: Path) -> None:
    for _ in range(2):
        worker.submit(job("count_to_three", log))
    ended(worker, "count_to_three")
    worker.submit(job("count_to_three", log))
    assert [state.status for state in worker.states()] == ["done"]
    assert log.read_text().count("start") == 1


def test_closing_ends_the_process_and_cancels_what_runs(log: Path) -> None:
    worker = Worker(["tests.app.fake_jobs"])
    worker.submit(job("endless", log))
    wait(worker, "endless", lambda state: state.done > 0)
    worker.close()
    assert ended(worker, "endless").status == "cancelled"


def test_unknown_kinds_are_refused_by_name(log: Path) -> None:
    [event] = run_job(job("fly", log), JOBS, lambda _: False)
    assert event["event"] == "failed"
    assert "unknown job kind 'fly'; known: bug, count_to_three" in event["message"]


def test_the_protocol_is_one_json_object_a_line(log: Path) -> None:
    out = io.StringIO()
    order = json.dumps({"run": job("count_to_three", log).to_json()}) + "\n"

    def lines() -> Iterator[str]:
        yield order
        while "done" not in out.getvalue():
            time.sleep(0.01)

    serve_jobs(lines(), out, JOBS)
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [event["event"] for event in events] == ["progress"] * 3 + ["done"]
    assert [event.get("eta") for event in events] == [2.0, 1.0, 0.0, None]
    assert {event["id"] for event in events} == {"count_to_three"}


def test_worker_and_client_need_no_streamlit() -> None:
    script = "import mwviz.worker, mwviz.serve, mwviz.payload, mwviz_app.jobs, sys; "
    script += "print('streamlit' in sys.modules, 'torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "False False\n"
