"""What tests of pages share: caches of their own, and how a page is pressed and waited for."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mwviz import serve
from mwviz_app import memory, state
from tests.saved_model import save_tiny_model

PATIENCE = 240
"""Seconds that a page or a job may take on a busy machine; the worker imports torch first."""
TABS = (
    "Where the context changed",
    "All views",
    "Drift in charts",
    "B - A",
    "The eviction tree",
    "Gap and SDCC",
    "Every call",
    "The text of a call",
    "Every sampled token",
)
"""Of the Debug page."""


@pytest.fixture(autouse=True)
def drawn_workbench(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages come whole: no browser is there to say that the workbench is drawn."""
    monkeypatch.setattr(state, "begins", lambda: False)


@pytest.fixture
def fresh_caches(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """No page finds what another test opened; the file in which the app remembers is new."""
    remembered = tmp_path_factory.mktemp("cache") / "remembered.json"
    monkeypatch.setattr(memory, "_path", lambda: remembered)
    st.cache_resource.clear()
    yield remembered
    st.cache_resource.clear()


@pytest.fixture
def tiny_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the one trace, `run.jsonl`, and the one model, `tiny`, that the app has.

    Runs, caches and marks are the test's own.
    """
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
    yield tmp_path
    state.worker().close()
    st.cache_resource.clear()


def open_popover(page: AppTest, name: str) -> AppTest:
    """The page once a popover of the bar was opened: "run" or "judged"."""
    times = f"{name}-closed"
    closed = page.session_state[times] if times in page.session_state else 0  # noqa: SIM401  # no get
    page.session_state[f"{name}{closed}"] = True
    return page.run()


def press(page: AppTest, label: str) -> AppTest:
    """The page after a press of its one button of this label."""
    [button] = [button for button in page.button if button.label == label]
    button.click().run()
    assert not page.exception
    return page


def waited(page: AppTest) -> AppTest:
    """The page once no job lives."""
    deadline = time.monotonic() + PATIENCE
    while any(job.live for job in state.worker().states()):
        assert time.monotonic() < deadline, state.worker().states()
        time.sleep(0.1)
    page.run()
    assert not page.exception
    return page
