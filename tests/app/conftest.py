"""What tests of pages share: caches of their own, and how a page is pressed and waited for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mwviz_app import memory, state

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


def press(page: AppTest, label: str) -> AppTest:
    """The page after a press of its one button of this label."""
    [button] = [button for button in page.button if button.label == label]
    button.click().run()
    assert not page.exception
    return page


def waited(page: AppTest, seconds: float) -> AppTest:
    """The page once no job lives."""
    deadline = time.monotonic() + seconds
    while any(job.live for job in state.worker().states()):
        assert time.monotonic() < deadline, state.worker().states()
        time.sleep(0.1)
    page.run()
    assert not page.exception
    return page
