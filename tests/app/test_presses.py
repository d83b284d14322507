"""What was pressed is done although the page starts again before it comes to the button."""

from __future__ import annotations

import sys

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mwviz import serve
from mwviz.demos import DEMOS
from mwviz.errors import TraceError
from mwviz_app import bar, frame, lab, presses, runs, state, widgets, workbench
from mwviz_app.jobs import Worker
from tests.app.conftest import PATIENCE, open_popover, press

pytestmark = pytest.mark.usefixtures("fresh_caches")


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what was started; nothing of it runs."""
    found: list[str] = []
    monkeypatch.setattr(sys, "argv", ["main.py", serve.Launch((), (), "cpu").to_argument()])
    monkeypatch.setattr(runs, "start_all", lambda *_: found.append("score"))
    monkeypatch.setattr(lab, "start", lambda _: found.append("train"))
    return found


def opened(path: str) -> AppTest:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()
    return page.switch_page(path).run() if path else page


def restart_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run of the page ends before it has drawn anything, and the one after it does not."""
    style, left = widgets.style, [True]

    def cut() -> None:
        if left:
            left.pop()
            st.rerun()
        style()

    monkeypatch.setattr(widgets, "style", cut)


@pytest.mark.parametrize(
    ("path", "label", "wanted"),
    [
        ("", "Run", ["score"]),
        ("triage_page.py", "Run drift", ["score"]),
        ("train_page.py", "Run", ["train"]),
    ],
)
@pytest.mark.parametrize("restarts", [False, True])
def test_a_press_starts_its_work_once(
    monkeypatch: pytest.MonkeyPatch,
    done: list[str],
    path: str,
    label: str,
    wanted: list[str],
    restarts: bool,
) -> None:
    page = opened(path)
    if not path:
        open_popover(page, "run")
    if restarts:
        restart_once(monkeypatch)
    press(page, label)
    assert done == wanted
    page.run()
    assert done == wanted


def test_work_is_begun_again_where_the_page_starts_again_within_it(
    monkeypatch: pytest.MonkeyPatch, done: list[str]
) -> None:
    begun: list[str] = []

    def cut(*_: object) -> None:
        begun.append("score")
        if len(begun) == 1:
            st.rerun()
        done.append("score")

    monkeypatch.setattr(runs, "start_all", cut)
    page = opened("")
    open_popover(page, "run")
    press(page, "Run")
    page.run()
    assert (begun, done) == (["score"] * 2, ["score"])


def test_work_that_is_refused_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, done: list[str]
) -> None:
    def refuse(*_: object) -> None:
        done.append("score")
        raise TraceError("it is gone")

    monkeypatch.setattr(runs, "start_all", refuse)
    page = opened("")
    open_popover(page, "run")
    assert [error.value for error in press(page, "Run").error] == ["mwviz cannot show this."]
    assert not page.run().error
    assert done == ["score"]


def test_of_several_rollouts_all_are_queued_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    places = [state.Opened(demo.name, 0) for demo in DEMOS[:2]]
    planned: list[state.Opened] = []

    def cut(opened: state.Opened, _: object) -> list[str]:
        planned.append(opened)
        if len(planned) == 2:
            raise TraceError("it is gone")
        return ["rightmost"]

    submitted: list[str] = []
    monkeypatch.setattr(sys, "argv", ["main.py", serve.Launch((), (), "cpu").to_argument()])
    monkeypatch.setattr(runs, "queue_of", cut)
    monkeypatch.setattr(Worker, "submit", lambda _, job: submitted.append(job.trace))
    with pytest.raises(TraceError):
        runs.start_all(places, ("rightmost",), None)
    assert submitted == []
    runs.start_all(places, ("rightmost",), None)
    assert submitted == [str(demo.path) for demo in DEMOS[:2]]


@pytest.mark.usefixtures("done")
@pytest.mark.parametrize("path", ["", "learn_page.py"])
@pytest.mark.parametrize("since", ["nothing", "cut", "view", "order", "press"])
def test_a_selection_draws_the_card_alone_unless_the_page_was_being_drawn_or_is_older(
    monkeypatch: pytest.MonkeyPatch, path: str, since: str
) -> None:
    page = opened(path)
    if since == "cut":
        monkeypatch.setattr(widgets, "style", st.stop)
        page.run()
    again: list[str] = []
    held, kept = page.session_state, (state.VIEW, state._WHOLE)
    monkeypatch.setattr(st, "session_state", {key: held[key] for key in kept if key in held})
    monkeypatch.setattr(st, "rerun", again.append)
    if since == "view":
        state.set_view("replay")
    if since == "order":
        state.order(state.Selection(0, 0))
    if since == "press":
        presses._keep(presses._waiting(), bar._RUN, lambda: None)
    workbench._commit("workbench")
    assert again == ([workbench.INSPECTOR] if since == "nothing" else [])


@pytest.mark.parametrize(("followed", "overtakes"), [(4, True), (5, False)])
def test_what_is_selected_before_an_order_is_followed_is_the_later_wish(
    monkeypatch: pytest.MonkeyPatch, followed: int, overtakes: bool
) -> None:
    ordered = state.Order(5, state.Selection(1, 0), {}, False)
    told = {"bench": {"selection": [followed, 3, 0, 7]}, "order": ordered}
    again: list[str] = []
    monkeypatch.setattr(st, "session_state", told)
    monkeypatch.setattr(st, "rerun", again.append)
    workbench._commit("bench")
    assert state.selection() == state.Selection(3, 0, 7)
    later = ordered._replace(serial=6, selection=state.selection())
    assert state.ordered() == (later if overtakes else ordered)


def test_a_press_is_kept_before_anything_can_start_the_page_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting: set[str] = set()
    monkeypatch.delattr(st, "session_state")
    presses._keep(waiting, "key", lambda: None)
    assert waiting == {"key"}


def test_a_press_on_a_form_that_is_wrong_starts_nothing_once_it_is_mended(done: list[str]) -> None:
    page = opened("train_page.py")
    [arms] = [one for one in page.multiselect if one.label == "Arms"]
    wanted = arms.value
    arms.set_value([])
    [run] = [button for button in page.button if button.label == "Run"]
    run.click().run()
    [arms] = [one for one in page.multiselect if one.label == "Arms"]
    arms.set_value(wanted).run()
    assert not page.exception
    assert [button for button in page.button if button.label == "Run"]
    assert done == []


def test_a_press_on_a_page_that_was_left_is_not_acted_on_later(
    monkeypatch: pytest.MonkeyPatch, done: list[str]
) -> None:
    at = "jobs"
    monkeypatch.setattr(frame, "_path", lambda: at)
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE)
    page.session_state["presses"] = {bar._RUN}
    page.session_state["seen"] = {"page": at}
    at = ""
    page.run()
    assert not done
    page.session_state["presses"] = {bar._RUN}
    page.run()
    assert done == ["score"]


@pytest.mark.parametrize(
    ("closed", "told", "wanted"),
    [
        (0, {"run-closed": 1, "run0": False}, 1),
        (1, {"run-closed": 1, "run1": True}, 1),
        (1, {"run-closed": 1, "run1": False}, 2),
    ],
)
def test_a_popover_that_was_put_away_is_not_put_away_again(
    monkeypatch: pytest.MonkeyPatch, closed: int, told: dict[str, object], wanted: int
) -> None:
    monkeypatch.setattr(st, "session_state", told)
    bar._turned("run", closed)
    assert told["run-closed"] == wanted
