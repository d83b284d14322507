"""A file that grows: new calls appear, and what was selected stays selected."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mwviz import serve
from mwviz.errors import MwvizError, TraceError
from mwviz_app import follow, kept, links, state, widgets
from tests.app.conftest import PATIENCE

pytestmark = pytest.mark.usefixtures("fresh_caches")
CALLS = (
    ([1, 2], [3, 4]),
    ([1, 2, 3, 4, 5], [6, 7]),
    ([1, 2, 5], [8]),
    ([1, 9], [10]),
)


def write(path: Path, calls: int) -> None:
    lines = [json.dumps({"prompt_ids": p, "completion_ids": c}) for p, c in CALLS[:calls]]
    path.write_text("\n".join(lines) + "\n")


def opened(monkeypatch: pytest.MonkeyPatch, path: Path) -> AppTest:
    launch = serve.Launch((str(path),))
    monkeypatch.setattr(sys, "argv", ["main.py", launch.to_argument()])
    return AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()


def opened_file(
    monkeypatch: pytest.MonkeyPatch, folder: Path, calls: int = 2
) -> tuple[Path, AppTest]:
    """A file of so many calls, and the page that shows it."""
    path = folder / "run.jsonl"
    write(path, calls)
    return path, opened(monkeypatch, path)


def text_of(chosen: state.Selection) -> list[int]:
    """Ids of the selected segment, or of the selected token, in the tree as it is now."""
    found = state.opened()
    assert found is not None
    tree = state.analysis(found).tree
    if chosen.target is not None:
        return [int(tree.ids[tree.token[chosen.target]])]
    start = int(tree.start[chosen.segment])
    return [int(token) for token in tree.ids[start : start + int(tree.length[chosen.segment])]]


@pytest.mark.parametrize("target", [None, 2])
def test_a_selection_stays_on_its_text_when_calls_are_added(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, target: int | None
) -> None:
    path, page = opened_file(monkeypatch, tmp_path)
    assert not page.exception
    found = state.analysis(state.opened() or state.Opened("", 0))
    segment = int(found.tree.segment_of(found.tree.token[2 if target else 0]))
    page.session_state["selection"] = state.Selection(1, segment, target)
    page.run()
    before = text_of(page.session_state["selection"])
    for calls in (3, 4):
        write(path, calls)
        page.run()
        assert not page.exception
        chosen = page.session_state["selection"]
        after = text_of(chosen)
        assert before[: len(after)] == after
        assert chosen.target == target
        assert chosen.call == 1
    assert "4 calls" in text_on_open(page)


def text_on_open(page: AppTest) -> str:
    page.switch_page("open_page.py").run()
    return "\n".join(text.value for text in page.text)


def test_only_files_named_at_the_start_can_be_followed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, page = opened_file(monkeypatch, tmp_path)
    assert [one.label for one in page.toggle] == ["Follow"]
    page.toggle(key=follow.KEY).set_value(True).run()
    assert not page.exception
    page.session_state["opened"] = state.Opened("control", 0)
    page.run()
    assert not page.toggle


def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Named folders are not looked through again: what vanishes stays in their list."""
    monkeypatch.setattr(kept, "time", SimpleNamespace(monotonic=lambda: 10.0))


@pytest.mark.parametrize("at", ["", "open_page.py", "triage_page.py", "train_page.py"])
def test_a_file_that_vanishes_is_said_to_be_gone_on_every_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, at: str
) -> None:
    stopped_clock(monkeypatch)
    path, page = opened_file(monkeypatch, tmp_path, 4)
    page.session_state[follow.KEY] = True
    page.run()
    path.unlink()
    page = page.switch_page(at).run() if at else page.run()
    assert not page.exception
    if at != "train_page.py":
        told = [text.value for text in page.text]
        told += [str(table.value.to_dict()) for table in page.dataframe]
        assert any("run.jsonl: is gone" in text for text in told), told


def test_a_file_that_has_lost_the_opened_rollout_is_open_at_its_last_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, page = opened_file(monkeypatch, tmp_path)
    found = state.opened()
    assert found is not None
    page.session_state["opened"] = found._replace(rollout=3)
    page.switch_page("open_page.py").run()
    assert not page.exception
    assert page.session_state["opened"] == found
    assert path.name in text_on_open(page)


def test_a_file_that_comes_back_is_shown_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The page itself watches for it: `rerun` is what its fragment asks for."""
    path, page = opened_file(monkeypatch, tmp_path)
    path.unlink()
    kept._named.clear()
    page.run()
    assert not page.exception
    assert page.error[0].value == "mwviz cannot show this."
    assert "it is read again" in page.caption[-1].value
    asked: list[str] = []
    found = state.opened()
    assert found is not None
    watched = follow._await_change.__wrapped__  # type: ignore[attr-defined]  # a fragment's function
    with monkeypatch.context() as patched:
        patched.setattr(st, "rerun", lambda: asked.append("again"))
        watched(found, None)
        assert asked == []
        write(path, 3)
        watched(found, None)
        assert asked == ["again"]
    assert not page.run().error


def test_a_file_that_comes_back_while_it_is_said_to_be_gone_is_shown_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, page = opened_file(monkeypatch, tmp_path)
    path.unlink()
    told = widgets.show_error
    refusals: list[str] = []

    def returning(error: MwvizError) -> None:
        refusals.append(str(error))
        write(path, 3)
        told(error)

    monkeypatch.setattr(widgets, "show_error", returning)
    page.run()
    assert not page.exception
    assert refusals == [f"{path}: is gone, expected the trace that was there"]
    assert not page.error


def test_a_refusal_of_another_file_has_nobody_wait_for_the_opened_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, page = opened_file(monkeypatch, tmp_path)

    def refuse() -> None:
        raise TraceError("other.jsonl: is gone")

    monkeypatch.setattr(links, "follow", refuse)
    page.run()
    assert "other.jsonl: is gone" in [text.value for text in page.text]
    assert "it is read again" not in "".join(caption.value for caption in page.caption)
    path.write_text("not json\n")
    page.run()
    assert "it is read again" in page.caption[-1].value


def test_a_rollout_whose_file_left_its_folder_is_said_to_be_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        write(tmp_path / name, 4)
    page = opened(monkeypatch, tmp_path)
    a, b = (trace for trace, source in state.traces().items() if source.origin == "start")
    page.session_state["opened"] = state.Opened(b, 0)
    page.session_state["deck"] = "All views"  # the tab of the changes picks one itself
    page.session_state["junction-picked"] = 1
    assert not page.run().toast
    assert page.session_state["junction-picked"] == 1
    (tmp_path / "b.jsonl").unlink()
    kept._named.clear()
    page.run()
    assert not page.exception
    assert [toast.value for toast in page.toast] == [state.GONE]
    assert state.opened() == state.Opened(a, 0)
    assert page.session_state["junction-picked"] is None, "it is one of the other rollout"


def test_a_file_that_vanishes_from_a_folder_is_passed_over_for_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stopped_clock(monkeypatch)
    for name in ("a.jsonl", "b.jsonl", "c.jsonl"):
        write(tmp_path / name, 4)
    page = opened(monkeypatch, tmp_path)
    (tmp_path / "a.jsonl").unlink()
    assert not page.run().exception
    assert "b.jsonl" in text_on_open(page)


def test_what_was_opened_before_and_is_gone_is_not_opened_but_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now = [10.0]
    monkeypatch.setattr(kept, "time", SimpleNamespace(monotonic=lambda: now[0]))
    for name in ("a.jsonl", "b.jsonl"):
        write(tmp_path / name, 4)
    page = opened(monkeypatch, tmp_path)
    a, b = (trace for trace, source in state.traces().items() if source.origin == "start")
    page.session_state["recent"] = [state.Opened(a, 0)]
    page.session_state["opened"] = state.Opened(b, 0)
    page.switch_page("open_page.py").run()
    path = state.source(a).path
    path.unlink()
    now[0] = 11.0
    [again] = [button for button in page.button if button.label == "Open"]
    again.click().run()
    assert not page.exception
    assert [toast.value for toast in page.toast] == [state.GONE]
    assert page.session_state["opened"] == state.Opened(b, 0)
