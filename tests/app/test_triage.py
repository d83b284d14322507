from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mwviz import serve
from mwviz.analysis import load
from mwviz.demos import DEMOS
from mwviz_app import state, triage

PATIENCE = 60  # seconds a page may take to run
BIDI = "\u202e"


@pytest.fixture(autouse=True)
def fresh_caches() -> Iterator[None]:
    st.cache_resource.clear()
    yield
    st.cache_resource.clear()


def triaged(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> AppTest:
    launch = serve.Launch(tuple(str(path) for path in paths))
    monkeypatch.setattr(sys, "argv", ["main.py", launch.to_argument()])
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()
    return page.switch_page("triage_page.py").run()


def write(path: Path, *calls: tuple[list[int], list[int]]) -> None:
    lines = [json.dumps({"prompt_ids": p, "completion_ids": c}) for p, c in calls]
    path.write_text("\n".join(lines))


def test_a_row_counts_what_each_naive_layout_trains_wrongly() -> None:
    (analysis,) = load(DEMOS[0].path).analyses
    row = triage.row(analysis)
    assert (row["calls"], row["evictions"], row["rightmost diverging"]) == (11, 4, 113)
    assert row["rightmost future"] != 0
    assert row["rightmost stale"] == 0
    assert row["replay stale"] != 0
    assert str(row["verdict"]).startswith("rightmost trains 113 of 549 sampled tokens")


def test_without_a_trace_the_demos_are_judged_the_worst_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = triaged(monkeypatch)
    assert not page.exception
    table = page.dataframe[0].value
    assert list(table["rollout"]) == ["busy", "tidy", "control"]
    assert table["rightmost diverging"].iloc[-1] == 0
    assert page.text[0].value == ("rightmost trains tokens in a wrong context in 2 of 3 rollouts.")


def test_a_folder_is_judged_and_a_broken_file_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(tmp_path / "clean.jsonl", ([1, 2], [3]), ([1, 2, 3, 4], [5]))
    write(tmp_path / "evicts.jsonl", ([1, 2], [3, 4]), ([1, 3, 4], [5]))
    (tmp_path / f"<b>broken{BIDI}.jsonl").write_text("not json\n")
    page = triaged(monkeypatch, tmp_path)
    assert not page.exception
    table = page.dataframe[0].value
    assert table["trace"].iloc[0] == "evicts.jsonl"
    assert "<b>broken⟨U+202E⟩.jsonl" in list(table["trace"])
    assert page.text[0].value.endswith("in 1 of 2 rollouts; 1 unreadable.")
    assert not [mark.value for mark in [*page.markdown, *page.caption] if "<b>" in mark.value]


def test_an_empty_folder_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = triaged(monkeypatch, tmp_path)
    assert not page.exception
    assert page.info[0].value.startswith("These are the demos. `mwviz app FOLDER`")
    assert len(page.dataframe[0].value) == len(DEMOS)


def test_no_file_is_read_past_the_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", ([1, 2], [3]))
    (tmp_path / "b.jsonl").write_text("not json\n")
    launch = serve.Launch((str(tmp_path),))
    monkeypatch.setattr(sys, "argv", ["main.py", launch.to_argument()])
    assert [row["trace"] for _, row in state.triage(1)] == ["a.jsonl"]
    assert [place is None for place, _ in state.triage(2)] == [False, True]
