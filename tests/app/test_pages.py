from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mwviz import serve
from mwviz_app import state

PATIENCE = 60  # seconds a page may take to run


def app() -> AppTest:
    return AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE)


def test_debug_is_the_first_page_and_says_what_to_do_when_empty() -> None:
    page = app().run()
    assert not page.exception
    assert [info.value for info in page.info] == [
        "No rollout is open. Choose one on the Open page."
    ]


def test_open_says_what_to_do_when_no_trace_was_named() -> None:
    page = app().run().switch_page("open_page.py").run()
    assert not page.exception
    assert page.header[0].value == "Open"
    assert "mwviz app FILE" in page.info[0].value


@pytest.fixture
def two_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trace named at the start: call 1 drops token 2 and keeps what was sampled."""
    path = tmp_path / "run.jsonl"
    calls = [([1, 2], [3, 4]), ([1, 3, 4], [5])]
    lines = [json.dumps({"prompt_ids": p, "completion_ids": c}) for p, c in calls]
    path.write_text("\n".join(lines))
    name_at_start(monkeypatch, tmp_path)
    return path


def name_at_start(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["main.py", serve.Launch((str(folder),)).to_argument()])


def test_debug_opens_the_first_trace_of_the_folder_named_at_the_start(two_calls: Path) -> None:
    page = app().run()
    assert not page.exception, two_calls
    table = page.dataframe[0].value
    assert list(table["call"]) == [1]
    assert list(table["evicted"]) == [1]
    assert page.text[0].value == "Click a rectangle to see its text."


def test_the_inspector_says_what_was_selected(two_calls: Path) -> None:
    page = app()
    page.session_state["selection"] = state.Selection(call=1, segment=2)
    page.run()
    assert not page.exception, two_calls
    told = "Segment 2: 3 tokens at depth 1, first sent in call 1, selected in call 1"
    assert page.text[0].value == told
    assert page.code[0].value


def test_open_tells_what_was_read_and_sends_it_to_debug(two_calls: Path) -> None:
    page = app().run().switch_page("open_page.py").run()
    assert not page.exception
    assert page.selectbox[0].options == [two_calls.name]
    assert list(page.dataframe[0].value["calls"]) == [2]
    page.button[0].click().run()
    assert not page.exception
    assert page.text[0].value == "Click a rectangle to see its text."


def test_a_broken_trace_is_named_with_its_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "run.jsonl").write_text("not json\n")
    name_at_start(monkeypatch, tmp_path)
    page = app().run()
    assert not page.exception
    assert page.error[0].value == "mwviz cannot show this."
    assert "run.jsonl" in page.text[0].value


def test_only_a_well_formed_selection_is_taken_from_the_browser() -> None:
    def sent(value: object) -> state.Selection | None:
        st.session_state["bench"] = {"selection": value}
        return state.sent_selection("bench")

    assert sent({"call": 3, "segment": 0}) == state.Selection(3, 0)
    wrong: tuple[object, ...] = (None, [], "x", {}, {"call": 1}, {"call": "1", "segment": 2})
    for bad in wrong:
        assert sent(bad) is None
    assert sent({"call": -1, "segment": 2}) is None


def test_errors_of_the_library_are_shown_as_plain_text(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text(
        "from mwviz.errors import TraceError\n"
        "from mwviz_app import widgets\n"
        "widgets.show_error(TraceError('**a.jsonl**:3: <b>no</b> messages'))\n"
    )
    page = AppTest.from_file(str(script), default_timeout=PATIENCE).run()
    assert page.error[0].value == "mwviz cannot show this."
    assert page.text[0].value == "**a.jsonl**:3: <b>no</b> messages"
    assert not page.markdown


def job_page(monkeypatch: pytest.MonkeyPatch, kind: str, log: Path) -> AppTest:
    monkeypatch.setenv("KIND", kind)
    monkeypatch.setenv("LOG", str(log))
    st.cache_resource.clear()
    page = Path(__file__).with_name("jobs_page.py")
    return AppTest.from_file(str(page), default_timeout=PATIENCE).run()


def run_until(page: AppTest, told: str) -> AppTest:
    deadline = time.monotonic() + PATIENCE
    while page.text[-1].value != told:
        assert time.monotonic() < deadline, page
        time.sleep(0.05)
        page.run()
    return page


def test_a_running_job_shows_its_progress_and_can_be_cancelled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = job_page(monkeypatch, "endless", tmp_path / "log")
    assert not page.exception
    assert page.text[-1].value == "page ran, job is running"
    page.button[0].click().run()
    run_until(page, "page ran, job is cancelled")
    assert page.info[0].value == "The job was cancelled."
    assert not page.button


def test_a_failed_job_shows_its_message_as_plain_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = run_until(job_page(monkeypatch, "refuse", tmp_path / "log"), "page ran, job is failed")
    assert page.error[0].value == "The job failed."
    assert page.text[0].value == "tiny: no such model"


def test_a_job_of_an_earlier_start_is_said_to_be_unknown() -> None:
    def page() -> None:
        from mwviz_app import widgets

        widgets.show_job("gone")

    shown = AppTest.from_function(page, default_timeout=PATIENCE).run()
    assert shown.info[0].value.startswith("This job is not known here.")
