from __future__ import annotations

import time
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mwviz import serve

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
