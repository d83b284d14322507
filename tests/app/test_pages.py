from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mwviz import load, serve
from mwviz.demos import DEMOS, STRESS
from mwviz.figures import LIGHT
from mwviz.figures.histogram import CLEAR
from mwviz.leaks import sources
from mwviz.verdict import judge
from mwviz_app import cards, charts, context, example, kept, state, widgets, workbench
from mwviz_app.jobs import Worker
from tests.app.conftest import PATIENCE, TABS, press

BIDI = "\u202e"
pytestmark = pytest.mark.usefixtures("fresh_caches")


def app() -> AppTest:
    return AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE)


def name_at_start(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    named = serve.Launch(tuple(str(path) for path in paths))
    monkeypatch.setattr(sys, "argv", ["main.py", named.to_argument()])


def said(page: AppTest) -> str:
    """All plain text of a page."""
    return "\n".join([*(text.value for text in page.text), *(code.value for code in page.code)])


def shown_markup(page: AppTest) -> str:
    """All text of a page that is read as markdown, labels included."""
    marked = [*page.markdown, *page.caption, *page.info, *page.error, *page.header, *page.subheader]
    return "\n".join([*(each.value for each in marked), *(each.label for each in page.button)])


@pytest.fixture
def two_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trace named at the start: call 1 drops token 2 and keeps what was sampled."""
    path = tmp_path / "run.jsonl"
    calls = [([1, 2], [3, 4]), ([1, 3, 4], [5])]
    lines = [json.dumps({"prompt_ids": p, "completion_ids": c}) for p, c in calls]
    path.write_text("\n".join(lines))
    name_at_start(monkeypatch, tmp_path)
    return path


def test_charts_stand_on_the_ground_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "get_option", {"theme.textColor": "#002B36"}.get)
    theme = widgets.theme()
    assert (theme.background, theme.classes["none"], theme.text) == (CLEAR, CLEAR, "#002B36")
    monkeypatch.setattr(st, "get_option", lambda _: None)
    assert widgets.theme().text == LIGHT.text
    for step in example.STEPS:
        figure = example.mask(step.method, widgets.theme())
        assert "#0E1117" not in figure.to_json()


def test_without_a_file_debug_opens_the_busy_demo_with_its_verdict() -> None:
    page = app()
    page.session_state["deck"] = "All views"
    page.run()
    assert not page.exception
    found = judge(state.analysis(state.Opened(DEMOS[0].name, 0)), "rightmost")
    assert found.diverging
    assert page.text[0].value == found.headline
    assert "in a wrong context: " in page.text[0].value
    assert "Worst: call " in page.text[1].value
    overview = page.dataframe[0].value
    drift = dict(zip(overview["view"], overview["mean |d|"].to_numpy(), strict=True))
    assert drift["rightmost"] > 0.1
    assert drift["sdcc"] == drift["rightmost"]
    assert drift["packed_mask"] < 1e-4


def test_the_app_shows_a_demo_without_torch() -> None:
    script = (
        "import sys; from streamlit.testing.v1 import AppTest; from mwviz import serve; "
        "page = AppTest.from_file(str(serve.entry()), default_timeout=60).run().run(); "
        "print(len(page.exception), 'torch' in sys.modules, page.text[0].value[:9])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "0 False rightmost\n"


def test_the_fix_removes_the_leaks_and_drops_the_drift_to_the_floor() -> None:
    page = press(app().run(), "Fix: packed_mask")
    assert page.text[0].value == (
        "packed_mask trains every sampled token in its true context; 100 % coverage."
    )
    assert "Drift is at the floor: at most " in page.text[1].value
    assert [b.disabled for b in page.button if b.label == "Show me the worst one"] == [True]
    press(page, "See rightmost")
    assert page.text[0].value.startswith("rightmost")


def test_the_worst_one_is_selected_and_its_sources_are_named() -> None:
    page = app().run()
    where = page.text[1].value.split("Worst: ")[1].split(",")
    page.session_state["sources"] = True
    press(page, "Show me the worst one")
    assert not page.exception
    chosen = page.session_state["selection"]
    analysis = state.analysis(state.Opened(DEMOS[0].name, 0))
    told = cards.card(analysis, "rightmost", chosen, None, None)
    assert told["said"].startswith(f"{where[0].capitalize()},{where[1]}, sampled after")
    pairs = analysis.pairs("rightmost")
    for name in ("future", "erased"):
        assert told["counts"].get(name, 0) == int(pairs.of(name)[chosen.target])
    named = {span.name for span in sources(analysis, "rightmost", chosen.target)}
    assert {span[0] for span in told["spans"]} <= named
    [table] = [f.value for f in page.dataframe if "class" in f.value.columns]
    assert named == set(table["class"])
    assert int(table["tokens"].sum()) == sum(told["counts"].get(name, 0) for name in named)


def test_every_demo_card_opens_its_demo() -> None:
    for demo in DEMOS:
        page = app().run().switch_page("open_page.py").run()
        [card] = [b for b in page.button if b.key == f"demo-{demo.name}"]
        card.click().run()
        assert not page.exception
        assert page.session_state["opened"] == state.Opened(demo.name, 0)


def test_the_control_is_clean_under_every_view() -> None:
    page = app()
    page.session_state["opened"] = state.Opened("control", 0)
    page.run()
    assert not page.exception
    assert "rightmost trains every sampled token in its true context" in page.text[0].value
    assert "Every call extends the one before it." in page.info[0].value


def test_the_first_file_of_a_folder_that_begins_as_a_trace_opens(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"lr": 1e-4, "steps": 20}))
    (tmp_path / "run.jsonl").write_text(json.dumps({"prompt_ids": [1], "completion_ids": [2]}))
    name_at_start(monkeypatch, tmp_path)
    page = app().run()
    assert not page.error
    assert "rightmost trains every sampled token" in page.text[0].value
    page.switch_page("open_page.py").run()
    names = page.selectbox[0].options
    assert names == ["config.json", "run.jsonl"]  # what is no trace is still offered, and says why


def test_where_no_file_begins_as_a_trace_the_first_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps({"lr": 1e-4, "steps": 20}))
    name_at_start(monkeypatch, tmp_path)
    page = app().run()
    assert page.error[0].value == "mwviz cannot show this."
    assert "a.json:1: a record with the keys 'lr, steps'" in said(page)


def test_traces_named_at_the_start_come_before_the_demos(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def parts() -> list[str]:
        page = app().run().switch_page("open_page.py").run()
        return [node.type for node in page.main if node.type in {"selectbox", "button"}]

    assert parts()[0] == "button"  # a demo's
    (tmp_path / "run.jsonl").write_text(json.dumps({"prompt_ids": [1], "completion_ids": [2]}))
    name_at_start(monkeypatch, tmp_path)
    assert parts()[0] == "selectbox"


def test_a_folder_without_traces_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name_at_start(monkeypatch, tmp_path)
    page = app().run()
    assert [info.value for info in page.info] == [
        "No rollout is open. Choose one on the Open page."
    ]
    assert f"{tmp_path}: holds no trace yet, expected files that end in .json" in said(page)
    links = [link.proto.label for link in page.get("page_link")]
    assert links == ["Open a trace or a demo", "Learn what goes wrong"]
    page.switch_page("open_page.py").run()
    assert not page.exception
    assert page.info[0].value == "No trace is open. Open a demo, choose a file or drop one."


def test_a_rollout_in_which_nothing_was_sampled_has_no_coverage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "nothing.jsonl"
    path.write_text('{"prompt_ids": [1, 2], "completion_ids": []}\n')
    name_at_start(monkeypatch, path)
    page = app()
    page.session_state["deck"] = "All views"
    page.run()
    assert not page.exception
    assert "0 of 0 sampled tokens trained (coverage -) · not scored" in said(page)
    assert "100" not in said(page)
    assert page.dataframe[0].value["coverage"].isna().all()


def test_the_sizes_of_a_view_are_told_whether_or_not_it_is_scored(two_calls: Path) -> None:
    page = app().run()
    assert not page.exception, two_calls
    rollout = "2 calls · 7 tokens · 1 eviction · contexts exact · "  # 1-2-3-4 and 1-3-4-5
    row = "rightmost: 1 row of 4 tokens · 3 of 3 sampled tokens trained (coverage 100\xa0%)"
    assert f"{rollout}{row} · not scored · ? for keys\n" in said(page)
    assert "No model has scored this view" in said(page)
    page.session_state["view"] = "last_call"
    page.run()
    row = "last_call: 1 row of 4 tokens · 1 of 3 sampled tokens trained (coverage 33\xa0%)"
    assert f"{rollout}{row} · not scored" in said(page)
    page.session_state["opened"] = state.Opened("busy", 0)
    page.session_state["view"] = "rightmost"
    page.run()
    assert "272 of 272 sampled tokens trained (coverage 100\xa0%) · kernel sdpa" in said(page)
    assert "SmolLM2-135M-Instruct+search-agent · float32 · floor 0.00001 nats" in said(page)


def test_every_call_is_a_row_with_what_its_tokens_see(two_calls: Path) -> None:
    page = app()
    page.session_state["deck"] = "Every call"
    page.run()
    assert not page.exception, two_calls
    [calls] = [f.value for f in page.dataframe if "prompt tokens" in f.value.columns]
    # 1 2 -> 3 4 | 1 3 4 -> 5: training shows 3 and 4 without the 2 that they saw.
    assert calls.set_index("call").drop(columns="agent").to_dict("index") == {
        0: {
            "prompt tokens": 2,
            "sampled tokens": 2,
            "change before it": "",
            "tokens evicted": 0,
            "% that see wrong text or miss some": 100.0,
            "agree": 3,  # 3 saw 1; 4 saw 1 and 3
            "erased": 2,
            "shifted": 2,  # 1, by both; 3 stands next to 4 either way
            "tainted": 1,  # the 3 that 4 sees has not seen 2
        },
        1: {
            "prompt tokens": 3,
            "sampled tokens": 1,
            "change before it": "summary",
            "tokens evicted": 1,
            "% that see wrong text or miss some": 0.0,
            "agree": 3,
            "erased": 0,
            "shifted": 0,
            "tainted": 0,
        },
    }


def test_the_text_of_a_call_is_a_table_of_all_its_tokens_and_of_what_left_where_it_stood(
    two_calls: Path,
) -> None:
    page = app()
    page.session_state["deck"] = "The text of a call"
    page.run()
    assert not page.exception, two_calls
    # 1 2 -> 3 4 | 1 3 4 -> 5: the 2 left before call 1, between 1 and 3.
    [shown] = [f.value for f in page.dataframe if "what it is" in f.value.columns]
    assert shown[["token id", "what it is", "here", "trained"]].fillna(-1).values.tolist() == [
        [1, "given", "", -1],
        [2, "given", "left before call 1", -1],
        [3, "sampled", "", 1],
        [4, "sampled", "", 1],
        [5, "sampled", "", 1],
    ]
    assert shown["wrong keys"].tolist()[2:] == [1, 1, 0], "3 and 4 miss the 2; 5 misses nothing"
    page.number_input(key="context-call").set_value(0).run()
    [shown] = [f.value for f in page.dataframe if "what it is" in f.value.columns]
    assert shown["token id"].tolist() == [1, 2, 3, 4]


def test_the_text_of_a_call_follows_the_selection_and_tells_roles_and_numbers() -> None:
    page = app()
    page.session_state["deck"] = "The text of a call"
    page.session_state["selection"] = state.Selection(10, 0)
    page.run()
    assert not page.exception
    [shown] = [f.value for f in page.dataframe if "what it is" in f.value.columns]
    analysis = state.analysis(state.Opened(DEMOS[0].name, 0))
    change = next(one for one in analysis.junction_list if one.call == 10)
    context = analysis.tree.context(10)
    assert len(shown) == len(context) + len(change.evicted)
    assert shown["token id"][shown["here"] == ""].tolist() == analysis.tree.ids[context].tolist()
    assert "\u21b5" in set(shown["text"]), "the end of a line has the sign of the text pane"
    assert set(shown["role"]) == {"system", "user", "agent", "tool"}
    own = shown[shown["what it is"] == "sampled"]
    assert own["drift"].notna().all()
    assert shown["drift"].notna().sum() == len(own)
    page.session_state["selection"] = state.Selection(0, 0)
    page.run()
    assert page.number_input(key="context-call").value == 0


def test_a_long_text_is_listed_in_parts(two_calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "MOST_ROWS", 2)
    page = app()
    page.session_state["deck"] = "The text of a call"
    page.run()
    assert not page.exception, two_calls
    [first] = [one for one in page.number_input if one.label == "From place"]
    first.set_value(2).run()
    [shown] = [f.value for f in page.dataframe if "what it is" in f.value.columns]
    assert shown["place"].tolist() == [2, 3]


def test_every_sampled_token_is_a_row_without_a_model_too(two_calls: Path) -> None:
    page = app()
    page.session_state["deck"] = "Every sampled token"
    page.run()
    assert not page.exception, two_calls
    [shown] = [f.value for f in page.dataframe if "offset" in f.value.columns]
    assert shown[["call", "offset", "erased"]].values.tolist() == [[0, 0, 1], [0, 1, 1], [1, 0, 0]]
    assert "drift" not in shown
    assert "No model has scored this view" in shown_markup(page)


@pytest.mark.parametrize("deck", ["Every call", "Every sampled token"])
def test_a_row_that_is_picked_again_selects_again(
    two_calls: Path, monkeypatch: pytest.MonkeyPatch, deck: str
) -> None:
    row: int | None = 1
    selected: list[state.Selection] = []
    monkeypatch.setattr(widgets, "picked", lambda *_, **__: row)
    monkeypatch.setattr(workbench, "command", selected.append)
    page = app()
    page.session_state["deck"] = deck
    page.run()
    assert not page.exception, two_calls
    row = None
    page.run()
    row = 1
    page.run()
    assert [one.call for one in selected] == [selected[0].call] * 2


def test_an_unscored_trace_shows_structure_and_says_that_nothing_ran(two_calls: Path) -> None:
    page = app().run()
    assert not page.exception, two_calls
    assert page.text[0].value.startswith(
        "rightmost trains 2 of 3 sampled tokens in a wrong context: "
    )
    assert page.text[1].value == "Drift: not run yet."
    [junctions] = [f.value for f in page.dataframe if "kind" in f.value.columns]
    assert list(junctions["call"]) == [1]
    assert list(junctions["evicted"]) == [1]
    for tab in ("Drift in charts", "Gap and SDCC"):
        page.session_state["deck"] = tab
        page.run()
        assert not page.exception
        assert page.info[-1].value.startswith("This view is not scored.")


def test_without_a_model_the_worst_one_is_the_token_with_most_wrong_keys(two_calls: Path) -> None:
    page = press(app().run(), "Show me the worst one")
    chosen = page.session_state["selection"]
    (analysis,) = load(two_calls).analyses
    pairs = analysis.pairs("rightmost")
    wrong = pairs.of("future") + pairs.of("erased")
    assert wrong[chosen.target] == wrong.max() > 0


def test_the_inspector_says_what_was_selected(two_calls: Path) -> None:
    (analysis,) = load(two_calls).analyses

    def told(chosen: state.Selection | None) -> cards.Card:
        return cards.card(analysis, "rightmost", chosen, None, None)

    assert told(None)["said"].startswith("Click a rectangle or a token")
    piece = told(state.Selection(call=1, segment=2))
    sentence = "Segment 2: 3 tokens at depth 1, first sent in call 1, selected in call 1"
    assert piece["said"] == sentence
    token = told(state.Selection(call=1, segment=2, target=2))
    assert token["said"] == "Call 1, token 0, sampled after 3 tokens:"
    assert "true" not in token["n"]
    assert token["times"] == 1


def test_the_card_of_any_token_of_the_demo_is_small() -> None:
    """Screens, bar 2: what a selection sends must stay below 3 kB with Streamlit's own messages."""
    analysis = state.analysis(state.Opened(DEMOS[0].name, 0))
    page = app().run()
    assert not page.exception
    sizes = []
    for target in range(0, len(analysis.tree.token), 7):
        chosen = cards.of_target(analysis, target)
        for method in ("rightmost", "replay"):
            told = cards.card(analysis, method, chosen, None, None)
            sizes.append(len(json.dumps(told, ensure_ascii=False).encode()))
    assert max(sizes) < 950


def test_open_tells_what_was_read_and_what_it_cannot_show(two_calls: Path) -> None:
    page = app().run().switch_page("open_page.py").run()
    assert not page.exception
    assert page.selectbox[0].options == [two_calls.name]
    assert list(page.dataframe[0].value["calls"]) == [2]
    assert "Format calls; contexts exact. 2 calls of 1 agent, 3 sampled tokens" in said(page)
    assert "(0 recorded by the log, 1 derived from the prompts, 0 unexplained)" in said(page)
    missing = page.table[0].value.set_index("not recorded")
    assert missing.loc["logprobs", "calls without"] == "2 of 2"
    assert "token ids" not in missing.index
    press(page, "Debug this rollout")
    assert page.text[0].value.startswith("rightmost trains")


def test_a_chosen_file_is_opened_and_remembered(two_calls: Path) -> None:
    other = two_calls.with_name("other.jsonl")
    shutil.copy(DEMOS[2].path, other)
    page = app().run().switch_page("open_page.py").run()
    page.selectbox[0].select(page.selectbox[0].options.index("other.jsonl"))
    chosen = next(key for key, source in state.traces().items() if source.path == other)
    page.selectbox[0].set_value(chosen).run()
    assert not page.exception
    assert page.session_state["opened"].trace == chosen
    assert list(page.dataframe[0].value["calls"]) == [len(load(other).rollouts[0].calls)]


def test_damage_is_listed_with_its_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    good = json.dumps({"prompt_ids": [1], "completion_ids": [2]})
    path = tmp_path / "torn.jsonl"
    path.write_text(f'{good}\n{{"prompt_ids": [1, 2], "compl')
    name_at_start(monkeypatch, path)
    page = app().run().switch_page("open_page.py").run()
    assert not page.exception
    [damage] = [f.value for f in page.dataframe if "line" in f.value.columns]
    assert list(damage["line"]) == [2]


def test_a_broken_trace_is_named_with_its_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "run.jsonl").write_text("not json\n")
    name_at_start(monkeypatch, tmp_path)
    for name in ("debug_page.py", "open_page.py"):
        page = app().run().switch_page(name).run()
        assert not page.exception
        assert page.error[0].value == "mwviz cannot show this."
        assert "run.jsonl" in page.text[-1].value


def test_an_upload_that_cannot_be_read_is_named_as_it_was_and_comes_before_the_demos() -> None:
    page = app().run().switch_page("open_page.py").run()
    assert not page.expander
    page.file_uploader[0].upload("broken.jsonl", b"not json\n").run()
    [demos] = page.expander
    assert demos.label == "Demos"
    assert page.error[0].value == "mwviz cannot show this."
    told = [text.value for text in page.text]
    assert any(one.startswith("broken.jsonl:1: ") for one in told), told


def test_an_upload_is_read_like_a_file() -> None:
    page = app().run().switch_page("open_page.py").run()
    page.file_uploader[0].upload(f"<b>x</b>{BIDI}.jsonl", DEMOS[1].path.read_bytes()).run()
    assert not page.exception
    assert page.session_state["opened"].trace in page.session_state["uploads"]
    assert "<b>x</b>⟨U+202E⟩.jsonl" in said(page)
    assert "<b>x</b>" not in shown_markup(page)


def test_hostile_text_reaches_no_markup_on_any_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """V02 of the cases with a junction, so that every panel has some of its text to show."""
    hostile = f"<img src=x onerror=alert(1)> [a](javascript:alert(1)) \x1b[31m {BIDI} $x$ :red[x]"
    calls = [
        {"prompt": [("user", hostile), ("tool", hostile * 2)], "completion": f"one {hostile}"},
        {"prompt": [("user", hostile), ("user", f"summary {hostile}")], "completion": "two"},
    ]
    lines = [
        json.dumps(
            {
                "messages": [{"role": r, "content": c} for r, c in call["prompt"]],
                "completion": [{"role": "assistant", "content": call["completion"]}],
            }
        )
        for call in calls
    ]
    path = tmp_path / "<b>hostile.jsonl"
    path.write_text("\n".join(lines))
    name_at_start(monkeypatch, path)
    page = app()
    page.session_state["selection"] = state.Selection(0, 0, 2)
    page.run()
    for name in ("debug_page.py", "open_page.py"):
        page.switch_page(name).run()
        assert not page.exception
        assert "<b>" not in shown_markup(page)
        assert "onerror" not in shown_markup(page)
        assert not {BIDI, "\x1b"} & set(said(page) + shown_markup(page))
    page.session_state["sources"] = True
    for tab in TABS:
        page.session_state["deck"] = tab
        page.switch_page("debug_page.py").run()
        assert not page.exception
        assert "onerror" not in shown_markup(page)
        assert not {BIDI, "\x1b"} & set(said(page) + shown_markup(page))
        for frame in page.dataframe:
            assert BIDI not in frame.value.to_string()
        if tab == TABS[0]:
            assert "onerror=alert(1)" in said(page)
    analysis = state.analysis(state.opened() or state.Opened("", 0))
    for target in range(len(analysis.tree.token)):
        told = cards.card(analysis, "replay", cards.of_target(analysis, target), None, None)
        assert not {BIDI, "\x1b"} & set(json.dumps(told, ensure_ascii=False))


def test_only_a_well_formed_selection_is_taken_from_the_browser() -> None:
    def sent(value: object) -> state.Sent | None:
        st.session_state["bench"] = {"selection": value}
        return state.sent_selection("bench")

    assert sent([0, 3, 0]) == (0, state.Selection(3, 0))
    assert sent([9, 3, 0, 7]) == (9, state.Selection(3, 0, 7))
    wrong: tuple[object, ...] = (None, "x", {}, {"call": 1, "segment": 2})
    lists: tuple[object, ...] = (
        [],
        [0, 1],
        [0, "1", 2],
        [0, -1, 2],
        [0, 3, 0, -7],
        [0, 3, True],
        [0, 3, 0, 7, 1],
    )
    for bad in (*wrong, *lists):
        assert sent(bad) is None, bad


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
    worker = Worker(["tests.app.fake_jobs"])
    monkeypatch.setattr(state, "worker", lambda: worker)
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
    assert page.text[0].value == "replay: tiny: no such model"


def test_a_view_that_cannot_lay_the_rollout_out_is_refused_in_words() -> None:
    page = app()
    page.session_state["view"] = "union_mask"
    page.run()
    assert not page.exception
    assert page.text[0].value == "union_mask cannot lay this rollout out."
    assert "take packed_mask" in page.text[1].value
    press(page, "Show packed_mask")
    assert page.text[0].value.startswith("packed_mask trains every sampled token")


def test_a_loss_that_only_usage_shows_is_told_without_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = [
        {"prompt_ids": [1], "completion_ids": [2], "usage": {"prompt_tokens": 90_000}},
        {"prompt_ids": [1, 2], "completion_ids": [3], "usage": {"prompt_tokens": 9_000}},
    ]
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(map(json.dumps, calls)))
    name_at_start(monkeypatch, path)
    page = app().run()
    assert not page.exception
    assert "The provider counts 81,000 tokens less in call 1" in said(page)


def test_the_stress_demo_is_made_when_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "upload_folder", lambda: tmp_path)
    assert STRESS.name not in state.traces()
    page = app().run()
    page.switch_page("open_page.py").run()
    page.button(key=f"demo-{STRESS.name}").click().run()
    assert not page.exception
    assert page.session_state["opened"] == state.Opened(STRESS.name, 0)
    assert len(state.analysis(state.Opened(STRESS.name, 0)).rollout.calls) == 200
    page.switch_page("open_page.py").run()
    assert "200 calls of 1 agent" in said(page)
    assert "Changes of context: 98" in said(page)


def test_the_table_of_the_tree_is_indented_by_branch() -> None:
    page = app().run()
    page.session_state["deck"] = "The eviction tree"
    page.session_state["tree-shape"] = "table"
    page.run()
    assert not page.exception
    [table] = [shown.value for shown in page.dataframe if "branch" in shown.value.columns]
    tree = state.analysis(state.Opened(DEMOS[0].name, 0)).tree
    assert len(table) == len(tree.start)
    assert table["branch"][0] == "segment 0"
    deepest = max(table["branch"], key=lambda name: name.count("│"))
    assert deepest.startswith("│ ")
    assert "└ segment" in deepest
    assert int(table["sampled"].sum()) >= len(tree.token)
    assert charts.indented(40, "x") == f"… {'│ ' * (charts.DEEPEST - 1)}└ x"


@pytest.mark.parametrize(
    "page", sorted(serve.entry().parent.glob("*_page.py")), ids=lambda p: p.stem
)
def test_no_page_shows_a_note_of_its_source(page: Path) -> None:
    notes = [
        node.lineno
        for node in ast.parse(page.read_text()).body[1:]
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    assert not notes, "Streamlit writes every bare value of a page on it"


def test_the_workbench_and_the_verdict_come_first_and_all_else_in_the_next_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state, "begins", lambda: state.is_new("session", "begun"))
    page = app().run()
    assert not page.exception
    verdict = judge(state.analysis(state.Opened(DEMOS[0].name, 0)), "rightmost")
    assert page.text[0].value == verdict.headline
    assert (len(page.tabs), len(page.button), len(page.dataframe)) == (0, 0, 0)
    page.run()
    assert page.text[0].value == verdict.headline
    assert [tab.label for tab in page.tabs][: len(TABS)] == list(TABS)
    assert page.dataframe
