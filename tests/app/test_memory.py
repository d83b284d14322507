"""What outlives a start of the app: recent rollouts, slices, and the marks of a first visit."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mwviz import serve
from mwviz.demos import DEMOS
from mwviz_app import coach, memory, state
from tests.app.conftest import PATIENCE


@pytest.fixture(autouse=True)
def remembered(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("cache") / "mwviz" / "app.json"
    monkeypatch.setattr(memory, "_path", lambda: path)
    st.cache_resource.clear()
    yield path
    st.cache_resource.clear()


def app(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> AppTest:
    launch = serve.Launch(tuple(map(str, paths)))
    monkeypatch.setattr(sys, "argv", ["main.py", launch.to_argument()])
    return AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE)


def test_the_latest_places_come_first_and_each_once() -> None:
    for number in range(memory.MOST_RECENT + 5):
        memory.remember(memory.Place(f"/x/{number % 7}.jsonl", number // 7))
    memory.remember(memory.Place("/x/0.jsonl", 0))
    found = memory.recent()
    assert found[0] == memory.Place("/x/0.jsonl", 0)
    assert len(found) == len(set(found)) == memory.MOST_RECENT


@pytest.mark.parametrize(
    "held",
    [
        "not json",
        "[]",
        '{"recent": 3, "slices": [], "coached": "yes"}',
        '{"recent": [3, {"path": 1, "rollout": 0}], "slices": {"a": 1, "b": {"c": [1]}}}',
    ],
)
def test_a_file_of_another_shape_counts_as_empty(remembered: Path, held: str) -> None:
    remembered.parent.mkdir(parents=True)
    remembered.write_text(held)
    assert (memory.recent(), memory.slices(), memory.coached()) == ([], {}, False)
    memory.set_coached()
    assert memory.coached()


def test_a_place_that_cannot_be_written_only_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_path", lambda: Path("/proc/none/app.json"))
    memory.remember(memory.Place("/x", 0))
    assert memory.recent() == []


def test_an_earlier_session_is_offered_only_as_far_as_it_was_named_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    named, other = tmp_path / "named.jsonl", tmp_path / "secret.jsonl"
    for path in (named, other):
        shutil.copy(DEMOS[0].path, path)
        memory.remember(memory.Place(str(path), 0))
    memory.remember(memory.Place(str(DEMOS[1].path), 0))
    page = app(monkeypatch, named).run().switch_page("open_page.py").run()
    assert not page.exception
    shown = "\n".join(text.value for text in page.text)
    assert DEMOS[1].title in shown
    assert "secret" not in shown
    kept = [button for button in page.button if button.label == "Open"]
    kept[0].click().run()
    assert page.session_state["opened"] == state.Opened(DEMOS[1].name, 0)
    assert str(tmp_path) not in "".join(page.query_params)


def test_the_marks_go_one_by_one_and_stay_away_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    page = app(monkeypatch).run()
    for number, (name, _) in enumerate(coach.MARKS, 1):
        told = "\n".join(mark.value for mark in page.markdown)
        assert f"{number} of {len(coach.MARKS)} · {name}." in told
        page.button(key="coach-next").click().run()
        assert not page.exception
    assert "of 4 ·" not in "\n".join(mark.value for mark in page.markdown)
    again = app(monkeypatch).run()
    assert "of 4 ·" not in "\n".join(mark.value for mark in again.markdown)


def test_the_marks_can_be_put_away_at_once(
    monkeypatch: pytest.MonkeyPatch, remembered: Path
) -> None:
    page = app(monkeypatch).run()
    page.button(key="coach-never").click().run()
    assert "of 4 ·" not in "\n".join(mark.value for mark in page.markdown)
    assert json.loads(remembered.read_text())["coached"] is True
