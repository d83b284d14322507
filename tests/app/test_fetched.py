"""Which numbers go to the browser after the payload, and when the navigation comes."""

from __future__ import annotations

from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mwviz import payload, serve
from mwviz.demos import DEMOS
from mwviz.numberpacking import shipped
from mwviz_app import fetched, frame, state
from mwviz_app.state import Opened
from tests.app.conftest import PATIENCE

OPENED = Opened(DEMOS[0].name, 0)
AGAINST = "logit_tree"
FAR = "branch_all"
"""A scored view whose drift the payload does not hold."""
pytestmark = pytest.mark.usefixtures("fresh_caches")


@pytest.fixture(autouse=True)
def drawn_workbench(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a browser: the first run of a session shows the workbench alone."""
    monkeypatch.setattr(state, "begins", lambda: state.is_new("session", "begun"))


def shown(view: str) -> fetched.Shown:
    setup = next(iter(state.scored(OPENED)))
    return fetched.Shown(
        OPENED,
        state.analysis(OPENED),
        setup,
        AGAINST,
        view,
        state.comparisons(OPENED, setup, AGAINST),
        state.payload(OPENED, setup, AGAINST),
    )


def page_of(view: str, **told: Any) -> AppTest:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE)
    page.session_state["opened"] = OPENED
    page.session_state["view"] = view
    for key, value in told.items():
        page.session_state[key] = value
    return page


def test_a_view_comes_with_its_drift_and_what_it_is_judged_by() -> None:
    assert shipped(shown(FAR).comparisons) == ("rightmost:drift", "replay:drift")
    assert fetched.names(shown("rightmost"), ()) == ["logit_tree:logprob"]
    assert fetched.names(shown(FAR), ()) == [f"{FAR}:drift", "logit_tree:logprob"]
    assert not fetched.comes_later(shown("replay"))
    assert fetched.comes_later(shown(FAR))
    unscored = shown(FAR)._replace(comparisons={})
    assert fetched.names(unscored, ["logprob"]) == ["logprob"]
    assert not fetched.comes_later(unscored)


def test_what_was_asked_for_one_view_comes_with_the_next_one_too() -> None:
    names = fetched.names(shown(FAR), ["rightmost:gap", "rightmost:drift", "logprob"])
    assert set(names) == {
        *(f"{FAR}:{kind}" for kind in ("drift", "gap")),
        "logit_tree:logprob",
        "rightmost:gap",
        "logprob",
    }


def test_the_page_sends_what_was_asked_for_and_nothing_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(fetched, "_mount", lambda **given: sent.append(given["data"]))
    of = payload.id_of(shown("rightmost").payload)
    wanted = fetched.Wanted(of, ("rightmost:change", "../nonsense", "no_view:drift"))
    page = page_of("rightmost", **{fetched.WANTED: wanted})
    page.run()
    assert sent == [], "the first picture needs nothing but the payload"
    page.run()
    assert not page.exception
    [told] = sent
    assert told["of"] == of
    assert set(told["scored"]) == {"logit_tree:logprob", "rightmost:change"}
    page.session_state[fetched.WANTED] = wanted._replace(of="another payload")
    page.run()
    assert set(sent[-1]["scored"]) == {"logit_tree:logprob"}


def test_a_view_of_a_link_comes_with_its_drift_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(fetched, "_mount", lambda **given: sent.append(given["data"]))
    page_of(FAR).run()
    [told] = sent
    assert f"{FAR}:drift" in told["scored"]


def test_a_question_of_another_form_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for bad in (None, 7, {"of": 3, "names": ["logprob"]}, {"of": "a", "names": "logprob"}, {}):
        kept: dict[str, Any] = {fetched.KEY: {"wanted": bad}}
        monkeypatch.setattr("streamlit.session_state", kept)
        fetched._want()
        assert fetched.wanted("a") == ()
    many = [str(number) for number in range(1_000)]
    kept = {fetched.KEY: {"wanted": {"of": "a", "names": many}}}
    monkeypatch.setattr("streamlit.session_state", kept)
    fetched._want()
    assert len(fetched.wanted("a")) == fetched.MOST_NAMES
    assert fetched.wanted("b") == ()


@pytest.mark.parametrize(
    ("view", "path", "positions"),
    [
        ("rightmost", "", ["hidden", "top"]),
        ("rightmost", "open", ["top", "top"]),
        ("union_mask", "", ["hidden", "top", "top"]),
        ("no such view", "", ["hidden", "top", "top"]),
    ],
    ids=["workbench", "another-page", "refused", "failing"],
)
def test_the_navigation_comes_with_the_second_run_or_at_once(
    monkeypatch: pytest.MonkeyPatch, view: str, path: str, positions: list[str]
) -> None:
    seen: list[str] = []
    navigation = st.navigation

    def listened(pages: Any, *, position: Any) -> Any:
        seen.append(position)
        return navigation(pages, position=position)

    monkeypatch.setattr(st, "navigation", listened)
    monkeypatch.setattr(frame, "_path", lambda: path)
    page = page_of(view)
    page.run()
    page.run()
    assert not page.exception
    assert seen == positions
