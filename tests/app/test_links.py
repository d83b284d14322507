from __future__ import annotations

import sys
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Selectbox

from mwviz import serve
from mwviz.compare import Comparison
from mwviz.demos import DEMOS
from mwviz.jobs import Job
from mwviz.trace import Trace, load
from mwviz.verdict import judge
from mwviz_app import asked, checkpoints, links, pointed, state, studies
from mwviz_app.jobs import Worker
from mwviz_app.scored import Scored, Setup, Tokens, name_of
from tests.app.conftest import PATIENCE

HOSTILE = "<img src=x>"
SIDES = "replay-01234567-rightmost-01234567-p"
UNREAD = f"01234567-{'0' * 32}"


def opened_by(**asked: str) -> AppTest:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE)
    for key, value in asked.items():
        page.query_params[key] = value
    page.run()
    assert not page.exception
    return page


def params(page: AppTest) -> list[tuple[str, str | list[str]]]:
    return list(page.query_params.items())


def said(page: AppTest) -> str:
    return "\n".join([*(text.value for text in page.text), *(code.value for code in page.code)])


def test_a_link_opens_its_rollout_view_and_token() -> None:
    page = opened_by(t="busy", A="replay", call="9", tok="3")
    assert page.session_state["opened"] == state.Opened("busy", 0)
    assert judge(state.analysis(state.Opened("busy", 0)), "replay").headline in said(page)
    chosen = page.session_state["selection"]
    tree = state.analysis(state.Opened("busy", 0)).tree
    assert (chosen.call, int(tree.offset[chosen.target])) == (9, 3)
    assert not page.info


def test_a_link_is_followed_although_the_page_starts_again_while_its_trace_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, cut = state.trace, [True]

    def trace(trace_id: str) -> Trace:
        if cut:
            cut.pop()
            st.rerun()
        return read(trace_id)

    monkeypatch.setattr(state, "trace", trace)
    page = opened_by(t="control")
    assert not cut
    assert page.session_state["opened"] == state.Opened("control", 0)


def test_what_is_copied_leads_back_to_the_same_place() -> None:
    page = opened_by(t="busy", A="replay", call="9", tok="3")
    page.session_state["selection"] = None
    [button] = [button for button in page.button if button.label == "Show me the worst one"]
    button.click().run()
    [copy] = [button for button in page.button if button.label == "Copy link"]
    copy.click().run()
    assert not page.exception
    chosen = page.session_state["selection"]
    asked = {key: told if isinstance(told, str) else told[0] for key, told in params(page)}
    assert asked["t"] == "busy"
    setup = next(iter(state.scored(state.Opened("busy", 0))))
    told = f"?t=busy&A=replay-{setup.id}&B=logit_tree&call={chosen.call}&tok={asked['tok']}"
    assert told in said(page)
    page.session_state["selection"] = None
    page.run()
    assert told not in said(page)
    again = opened_by(**asked)
    assert again.session_state["selection"] == chosen


def test_a_link_brings_both_sides_of_what_is_subtracted() -> None:
    page = opened_by(t="busy", A="replay")
    page.session_state["deck"] = "B - A"
    page.run()
    for key, value in {"A-view": "replay", "B-view": "last_call", "quantity": "|drift|"}.items():
        page.session_state[f"contrast-{key}"] = value
    page.run()
    [about] = [
        text for text in said(page).split("\n") if text.startswith("|drift| of B (last_call")
    ]
    [copy] = [button for button in page.button if button.label == "Copy link"]
    copy.click().run()
    asked = {key: told if isinstance(told, str) else told[0] for key, told in params(page)}
    setup = next(iter(state.scored(state.Opened("busy", 0)))).id
    assert asked["ba"] == f"replay-{setup}-last_call-{setup}-d"
    again = opened_by(**asked)
    assert again.session_state["deck"] == "B - A"
    assert about in said(again)
    assert not again.info


def test_sides_that_are_not_here_are_told(fresh_caches: Path) -> None:
    page = opened_by(t="busy", ba="replay-01234567-rightmost-01234567-p")
    assert page.info[0].value.startswith("The link compares two scorings that are not both here.")
    assert "log p of B (" in said(page), fresh_caches
    page = opened_by(t="busy", ba="replay-01234567-rightmost-0123456-p", tk="0-1")
    assert set(page.text[0].value.split(", ")) == {"ba", "tk"}


def test_a_link_names_the_job_under_way_and_a_later_start_says_that_it_is_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    worker = Worker(["tests.app.fake_jobs"])
    monkeypatch.setattr(state, "worker", lambda: worker)
    page = opened_by(t="tidy")
    opened = state.Opened("tidy", 0)
    path, rollout = str(state.traces()["tidy"].path), state.analysis(opened).rollout.id
    worker.submit(Job("before", "endless", str(tmp_path / "log"), "r1", "replay"))
    worker.submit(Job("0f" * 16, "score", path, rollout, "replay"))
    [copy] = [button for button in page.run().button if button.label == "Copy link"]
    copy.click().run()
    told = {key: value if isinstance(value, str) else value[0] for key, value in params(page)}
    assert told["job"] == "0f" * 16
    assert not opened_by(**told).info
    worker.close()
    monkeypatch.setattr(state, "worker", lambda: Worker(["tests.app.fake_jobs"]))
    assert opened_by(**told).info[0].value.startswith(links.LOST_JOB)


def test_a_link_is_followed_once() -> None:
    page = opened_by(t="tidy")
    page.session_state["opened"] = state.Opened("control", 0)
    page.run()
    assert page.session_state["opened"] == state.Opened("control", 0)


def test_unknown_keys_and_values_are_ignored_with_a_note() -> None:
    page = opened_by(t="tidy", A=HOSTILE, **{HOSTILE: "1", "tok": "3"})
    assert page.session_state["opened"] == state.Opened("tidy", 0)
    assert page.info[0].value.startswith("Part of this link was ignored")
    assert set(page.text[0].value.split(", ")) == {"A", HOSTILE, "tok"}
    assert not [mark.value for mark in page.markdown if HOSTILE in mark.value]


@pytest.mark.parametrize(
    ("asked", "ignored"),
    [
        ({"t": "../busy"}, ("t",)),
        ({"t": "nowhere"}, ("t",)),
        ({"t": "busy-x"}, ("t",)),
        ({"call": "-1"}, ("call",)),
        ({"call": "²"}, ("call",)),
        ({"call": "9" * 30}, ("call",)),
        ({"t": "busy-7", "call": "1"}, ()),
        ({"view": "replay"}, ("view",)),
        ({"A": "replay-d1a0b876", "B": "packed_mask"}, ()),
        ({"A": "nothing-d1a0b876", "B": "nothing"}, ("A", "B")),
        ({"k": "12", "pin": "3", "m": "leaks", "sel": "4-9", "ev": "2"}, ()),
        (
            {"k": "x", "pin": "-3", "m": "LEAKS", "sel": "4", "ev": "x"},
            ("k", "pin", "m", "sel", "ev"),
        ),
        ({"z": "m0-5k-0-50_d0-50"}, ()),
        ({"z": "m0"}, ("z",)),
        ({"z": "d0-50_"}, ("z",)),
        ({"p": "drift"}, ()),
        ({"p": "timeline"}, ("p",)),
        ({"z": "d" + "0" * 62 + "-1"}, ("z",)),
    ],
)
def test_only_ids_are_read(asked: dict[str, str], ignored: tuple[str, ...]) -> None:
    assert links.read(asked).ignored == ignored


def test_a_link_says_what_the_browser_is_to_show_and_is_followed_once() -> None:
    page = opened_by(t="busy", k="12", pin="3", m="leaks", z="d0-50", sel="4-9")
    sight = {"k": "12", "sel": "4-9", "m": "leaks", "z": "d0-50", "pin": "3"}
    order = page.session_state["order"]
    assert order == state.Order(order.serial, None, {**sight, "p": "text"})
    page.run()
    assert page.session_state["order"].serial == order.serial


def test_orders_of_a_later_session_are_new_to_a_tab() -> None:
    first, later = (opened_by(t="busy", k="12").session_state["order"].serial for _ in range(2))
    assert later > first


def test_a_link_brings_its_judge_its_model_and_its_junction() -> None:
    setup = next(iter(state.scored(state.Opened("busy", 0))))
    page = opened_by(t="busy", A=f"rightmost-{setup.id}", B="packed_mask", ev="3")
    [judge_by] = [box for box in page.selectbox if box.label == "What the agent saw, by"]
    assert judge_by.value == "packed_mask"
    assert page.session_state["junction-picked"] == 3
    [card] = [text.value for text in page.text if text.value.startswith("Before call")]
    analysis = state.analysis(state.Opened("busy", 0))
    assert card.startswith(f"Before call {analysis.junction_list[3].call}:")
    for box in page.selectbox:
        if box.label == "Model":
            assert box.index == 0
    page = opened_by(t="busy", A="rightmost-00000000", B="nothing", ev="999")
    assert not page.exception


def test_a_picked_model_outlives_its_popover_and_the_page_until_a_link_names_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scored, comparisons = state.scored, state.comparisons
    other, used = Setup("other@1", "float32", "cpu"), []

    def two_scored(opened: state.Opened) -> Scored:
        (found,) = scored(opened).items()
        return dict([found, (other, found[1])])

    def watched(opened: state.Opened, setup: Setup | None, against: str) -> dict[str, Comparison]:
        used.append(setup)
        return comparisons(opened, setup, against)

    def models(page: AppTest) -> list[Selectbox[str]]:
        named = f"{name_of(other.model)} · float32"
        return [box for box in page.selectbox if box.label == "Model" and named in box.options]

    monkeypatch.setattr(state, "scored", two_scored)
    monkeypatch.setattr(state, "comparisons", watched)
    page = opened_by(t="busy")
    first = used[-1]
    page.session_state["judged0"] = True
    [box] = models(page.run())
    box.select_index(1).run()
    assert used[-1] == other != first
    page.session_state["judged0"] = False
    page.run()
    assert not models(page)
    assert used[-1] == other
    page.switch_page("open_page.py").run()
    page.switch_page("debug_page.py").run()
    assert used[-1] == other
    page.session_state["judged0"] = True
    [box] = models(page.run())
    assert box.index == 1
    assert first is not None
    page.query_params.clear()
    page.query_params["t"], page.query_params["A"] = "busy", f"rightmost-{first.id}"
    page.run()
    assert used[-1] == first
    assert not page.exception


def test_the_address_leads_to_the_rollout_once_another_one_is_opened() -> None:
    page = opened_by()
    assert params(page) == []
    page.session_state["opened"] = state.Opened("tidy", 0)
    page.run()
    assert [(key, told if isinstance(told, str) else told[0]) for key, told in params(page)] == [
        ("t", "tidy")
    ]
    assert page.session_state["opened"] == state.Opened("tidy", 0)


def test_what_the_browser_copied_is_written_as_ids_only() -> None:
    def script() -> None:
        from mwviz_app import links

        links.write({"t": "busy", "z": "d0-50", "m": "<b>", "evil": "1", "call": "x y"})

    page = AppTest.from_function(script, default_timeout=PATIENCE).run()
    assert not page.exception
    assert dict(params(page)) in ({"t": "busy", "z": "d0-50"}, {"t": ["busy"], "z": ["d0-50"]})


def test_a_call_without_such_a_token_is_shown_at_its_end() -> None:
    (analysis,) = load(DEMOS[0].path).analyses
    last = len(analysis.tree.tip) - 1
    end = state.Selection(last, int(analysis.tree.segment_of(analysis.tree.tip[last])))
    assert pointed.selection(analysis, last, None) == end
    assert pointed.selection(analysis, last, 10**6) == end
    assert pointed.selection(analysis, last + 1, None) is None


def held(page: AppTest, key: str) -> object:
    known = key in page.session_state
    return page.session_state[key] if known else None


def test_a_link_to_a_trace_that_is_not_here_leads_to_no_place_in_another() -> None:
    setup = next(iter(state.scored(state.Opened("busy", 0)))).id
    page = opened_by(
        t="nowhere", A=f"replay-{setup}", call="9", tok="3", ev="3", tk=UNREAD, ba=SIDES, pin="3"
    )
    assert page.session_state["view"] == "replay"
    for key in ("opened", "selection", "order", "junction-picked", "points-into", asked.WANTED):
        assert held(page, key) is None, key
    assert f"{links.LOST_TRACE} {links.NAME_IT}" in [info.value for info in page.info]
    assert pointed.RUN not in [button.label for button in page.button]
    page = opened_by(t="busy-7", A="replay", call="9", tok="3")
    assert held(page, "opened") == state.Opened("busy", 0)
    assert held(page, "selection") is None
    assert [toast.value for toast in page.toast] == [links.LOST_ROLLOUT]
    page = opened_by(call="9", tok="3")
    assert page.session_state["selection"].call == 9, "without t it is of the rollout that is open"
    assert not page.info


def test_a_new_link_drops_what_an_old_one_still_asks_for() -> None:
    page = opened_by(t="busy", call="1", tk=UNREAD, ba=SIDES)
    assert held(page, "points-into") is not None
    assert held(page, asked.WANTED) is not None
    del page.query_params["tk"], page.query_params["ba"]
    page.run()
    assert held(page, "points-into") is None
    assert held(page, asked.WANTED) is None
    assert page.session_state["selection"].call == 1


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What a session without a page holds."""
    kept: dict[str, object] = {}
    monkeypatch.setattr("streamlit.session_state", kept)
    return kept


TOKENS = Tokens("chatty@1", "0" * 32)
READ = state.Opened("busy", 0, TOKENS)
PLACE = pointed.Place(None, None, {"k": "12"})


@pytest.mark.parametrize(
    ("call", "sight", "pane"),
    [
        (None, {}, None),
        (3, {}, "text"),
        (3, {"k": "7", "z": "m0-5-0-50"}, "text"),
        (None, {"sel": "4-9", "z": "d0-50"}, "text"),
        (None, {"k": "7", "z": "d0-50"}, "mask"),
        (None, {"z": "t0-1-0-9_d0-50"}, "drift"),
        (None, {"z": "m0-5-0-50_d0-50"}, "mask"),
        (3, {"p": "drift"}, "drift"),
        (None, {"m": "kl", "pin": "2"}, None),
    ],
)
def test_a_link_is_shown_in_the_pane_that_it_names_or_that_shows_its_place(
    call: int | None, sight: dict[str, str], pane: str | None
) -> None:
    assert pointed.Place(call, None, sight).pane == pane


def test_a_kept_place_is_gone_to_once_its_tokens_are_there(session: dict[str, object]) -> None:
    pointed.hold(READ.plain, TOKENS.id, PLACE)
    pointed.resume(READ.plain, None)
    assert "order" not in session
    pointed.resume(READ, None)
    order = session["order"]
    assert isinstance(order, state.Order)
    assert (order.selection, order.sight) == (None, {**PLACE.sight, "p": "mask"})
    pointed.resume(READ, None)
    assert session["order"] == order


def test_a_kept_place_is_forgotten_if_something_else_was_selected(
    session: dict[str, object],
) -> None:
    pointed.hold(READ.plain, TOKENS.id, PLACE)
    pointed.resume(READ, state.Selection(1, 1))
    pointed.resume(READ, None)
    assert "order" not in session


def test_a_kept_place_is_never_gone_to_once_the_model_was_seen_to_read_other_tokens(
    session: dict[str, object],
) -> None:
    pointed.hold(READ.plain, TOKENS.id, PLACE)
    pointed.resume(READ._replace(tokens=Tokens("chatty@2", "1" * 32)), None)
    pointed.resume(READ, None)
    assert "order" not in session


def test_the_note_of_a_link_stands_in_a_view_that_is_refused() -> None:
    page = opened_by(t="busy", A="union_mask", call="1", tk=UNREAD)
    assert "union_mask cannot lay this rollout out." in said(page)
    assert [info for info in page.info if info.value.startswith(pointed.UNREAD)]


def test_a_damaged_checkpoint_hides_no_other_model_and_no_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "training.json").write_text("{")
    launch = serve.Launch((), (str(tmp_path), "sound"), "cpu")
    monkeypatch.setattr(sys, "argv", ["main.py", launch.to_argument()])
    offered = checkpoints.readable([None, str(tmp_path), "sound"])
    assert [one.model for one in offered] == [None, "sound"]
    page = opened_by(t="busy", call="1", tk=UNREAD)
    assert [info for info in page.info if info.value.startswith(pointed.UNREAD)]
    assert not page.error
    assert studies.model_of(READ.plain, Setup("sound@1", "float32", "cpu")) == "sound"
