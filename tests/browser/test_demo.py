"""The main job in a browser: the demo's verdict, its fix, its worst token; a run; hostile text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from mwviz import load, serve
from mwviz.demos import DEMOS
from mwviz.verdict import judge
from tests.app.conftest import TABS
from tests.browser.conftest import Open, Wire, at_rest
from tests.saved_model import save_tiny_model
from tests.servers import app_command, free_port, served

pytestmark = pytest.mark.browser

HEADLINE = judge(load(DEMOS[0].path).analyses[0], "rightmost").headline
CASE = Path(__file__).parents[1] / "data" / "cases" / "V02" / "session.jsonl"
OBEYED = "h1, img[src='x'], svg[onload], a[href^='javascript'], b:not(.mw-tip b), [onerror]"
"""Elements that only trace text that was read as markup would make, beside our own headings."""
POLLS = "() => new Promise(done => setTimeout(done, 2_000))"
"""In the page: longer than it waits before it asks for news of a job, several times."""
CHOSEN = ".mw-token[style*='solid 2px']"
"""The token that is selected, in the text pane."""
FOCUSED = """() => {
  let at = document.activeElement;
  while (at.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
  const { outlineStyle, boxShadow } = getComputedStyle(at);
  const name = at.getAttribute("aria-label") || at.innerText || at.title || "";
  const ring = `${outlineStyle} ${boxShadow}`;
  return { tag: at.tagName, class: String(at.className), name, ring };
}"""
"""In the page: what has the focus, through shadow roots, and what shows that it has."""
HIGHEST = """bars => bars.map(bar => bar.getBoundingClientRect())
  .sort((one, other) => other.height - one.height)
  .map(({x, y, width, height}) => [x + width / 2, y + height / 2])[0]"""
"""Of bars: the middle of the highest."""
MOST_STOPS = 150
NAVIGATION = 60
"""Pixels at the top of the window that the navigation takes."""
RAW = "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]"


def started(folder: Path, launch: serve.Launch, **environment: str) -> Iterator[str]:
    port = free_port()
    command = app_command(serve.entry(), port, launch=launch)
    with served(command, port, folder, **environment) as running:
        yield running


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app as `mwviz app` starts it."""
    yield from started(tmp_path_factory.mktemp("demo"), serve.Launch())


def whole(page: Page) -> None:
    """Waits until the Debug page is whole and at rest."""
    page.get_by_text("Where the context changed").wait_for()
    at_rest(page)


def verdict(page: Page) -> str:
    """The verdict, once both of its lines are there."""
    shown = page.locator("[class*='st-key-verdict']")
    expect(shown).to_contain_text(re.compile("drift", re.IGNORECASE))
    return shown.inner_text()


def press(page: Page, label: str) -> None:
    page.get_by_role("button", name=label).click()
    at_rest(page)


def test_the_first_screen_is_the_verdict_on_the_busy_demo(open_page: Open, demo: str) -> None:
    page, _ = open_page(demo)
    told = verdict(page)
    assert HEADLINE in told
    assert "Worst: call " in told
    page.get_by_text("Where the context changed").wait_for()
    expect(page.locator(".mw-stage")).to_be_visible()


def test_switching_to_packed_mask_drops_the_drift_to_the_floor(open_page: Open, demo: str) -> None:
    page, _ = open_page(demo)
    assert "Mean |drift| on its " in verdict(page)
    page.get_by_test_id("stButtonGroup").get_by_text("packed_mask").click()
    page.get_by_text("packed_mask trains every sampled token in its true context").wait_for()
    assert "Drift is at the floor" in verdict(page)
    press(page, "See rightmost")
    page.get_by_text(HEADLINE).wait_for()
    press(page, "Fix: packed_mask")
    page.get_by_text("Drift is at the floor").wait_for()


def test_the_key_of_the_next_view_is_heard_again_after_another_choice(
    open_page: Open, demo: str
) -> None:
    page, _ = open_page(demo)
    whole(page)
    radio = partial(page.get_by_role, "radio", exact=True)
    replay, rightmost = radio(name="replay"), radio(name="rightmost")
    for _ in range(2):
        page.locator(".mw-drift").focus()
        page.keyboard.press("m")
        expect(replay).to_be_checked()
        rightmost.click()
        expect(rightmost).to_be_checked()
        at_rest(page)


def test_a_click_on_a_bar_of_the_triage_keeps_those_rollouts(open_page: Open, demo: str) -> None:
    page, _ = open_page(f"{demo}/triage")
    bars = page.locator(".js-plotly-plot .point path")
    bars.first.wait_for(state="attached")
    at_rest(page)
    x, y = bars.evaluate_all(HIGHEST)
    page.mouse.click(x, y)
    page.get_by_text("Shown: ").wait_for()


@pytest.mark.parametrize(
    ("width", "height", "motion"),
    [
        (1440, 900, "no-preference"),
        (1366, 768, "reduce"),
        (1024, 768, "no-preference"),
        (390, 844, "reduce"),
    ],
)
def test_the_worst_token_and_its_sentence_come_into_sight(
    open_page: Open, demo: str, width: int, height: int, motion: Literal["no-preference", "reduce"]
) -> None:
    page, _ = open_page(demo)
    page.emulate_media(reduced_motion=motion)
    page.set_viewport_size({"width": width, "height": height})
    whole(page)
    press(page, "Show me the worst one")
    for part in (page.locator(CHOSEN), page.locator(".mwi-quote")):
        expect(part.first).to_be_in_viewport(ratio=1)
    top, bottom = (page.locator(one).bounding_box() for one in (CHOSEN, ".mwi-said"))
    status = page.locator(".st-key-status").bounding_box()
    assert top
    assert bottom
    assert status
    assert top["y"] > NAVIGATION
    assert bottom["y"] + bottom["height"] < min(status["y"], height)


def test_every_stop_of_the_tab_key_has_a_name_and_shows_where_it_is(
    open_page: Open, demo: str
) -> None:
    page, wire = open_page(demo)
    whole(page)
    wire.forget()
    stops: list[dict[str, str]] = []
    while len(stops) < MOST_STOPS and (not stops or stops[-1]["tag"] != "BODY"):
        page.keyboard.press("Tab")
        stops.append(page.evaluate(FOCUSED))
    assert stops[-1]["tag"] == "BODY", "no pane keeps the focus"
    own = [one for one in stops if one["tag"] in ("A", "BUTTON", "SELECT") or "mw" in one["class"]]
    assert [one for one in own if not one["name"].strip()] == []
    assert [one["name"] for one in own if one["ring"] == "none none"] == []
    panes = [one["class"] for one in own if one["tag"] == "DIV"]
    assert panes == ["mw-stage", "mw-mask", "mw-text", "mw-drift", "mwi"]


def test_the_text_shows_the_selected_token_again_after_another_page(
    open_page: Open, demo: str
) -> None:
    page, _ = open_page(demo)
    whole(page)
    press(page, "Show me the worst one")
    page.get_by_role("link", name="Learn").click()
    expect(page.locator(".mw-text")).to_have_count(0)
    page.get_by_role("link", name="Debug").click()
    expect(page.locator(CHOSEN)).to_have_count(1)
    at_rest(page)
    token, pane = (page.locator(one).bounding_box() for one in (CHOSEN, ".mw-text"))
    assert token
    assert pane
    assert pane["y"] <= token["y"] <= pane["y"] + pane["height"] - token["height"]


def test_the_worst_token_is_selected_and_its_sources_named(open_page: Open, demo: str) -> None:
    page, _ = open_page(demo)
    call, token = verdict(page).split("Worst: call ")[1].split(", token ")[:2]
    token = token.split(",")[0]
    press(page, "Show me the worst one")
    page.get_by_text(f"Call {call}, token {token}, sampled after").wait_for()
    page.get_by_text("written after it: time travel.").wait_for()
    page.get_by_text("a later eviction is applied too early").first.wait_for()
    page.get_by_text("Sources, the longest first").wait_for()
    page.get_by_text(f"Text of call {call}").wait_for()
    page.keyboard.press("?")  # the focus is still on the button of the page
    expect(page.locator(".mw-dialog")).to_contain_text("find text, evicted text too")
    page.keyboard.press("Escape")
    expect(page.locator(".mw-dialog")).to_be_hidden()
    page.locator("button.mwi-number[name=drift]").click()
    page.get_by_text("drift = log p under rightmost").wait_for()
    page.get_by_role("button", name="All sources as a table").click()
    page.get_by_text("Missing: ").wait_for()


def selected(page: Page, wire: Wire, x: float) -> int:
    """Bytes of the one message that a click in the tree sends."""
    box = page.locator(".mw-stage").bounding_box()
    assert box is not None
    wire.forget()
    page.mouse.click(box["x"] + x * box["width"], box["y"] + box["height"] - 40)
    at_rest(page)
    (told,) = wire.sent
    return told


@pytest.mark.parametrize(("name", "inside"), [("Judged by", "Model"), ("Run on a model", "Method")])
def test_a_popover_that_was_closed_adds_nothing_to_what_a_selection_sends(
    open_page: Open, demo: str, name: str, inside: str
) -> None:
    page, wire = open_page(demo)
    whole(page)
    selected(page, wire, 0.6)  # by then all that the page sends along is there
    before = selected(page, wire, 0.3)
    for at in (0.7, 0.5):
        press(page, name)
        expect(page.get_by_role("combobox", name=inside)).to_be_visible()
        at_rest(page)
        press(page, name)
        expect(page.get_by_role("combobox", name=inside)).to_have_count(0)
        after = selected(page, wire, at)
    assert after <= before + 2, "another call's number may be longer"
    assert after <= 500


def test_choices_outlive_a_change_of_page(open_page: Open, demo: str) -> None:
    page, _ = open_page(demo)
    verdict(page)
    press(page, "Fix: packed_mask")
    page.get_by_text("Drift is at the floor").wait_for()
    page.get_by_role("link", name="Open").click()
    page.get_by_text("What it cannot show").wait_for()
    page.get_by_role("link", name="Debug").click()
    page.get_by_text("packed_mask trains every sampled token").wait_for()


def test_a_demo_card_leads_to_its_verdict(open_page: Open, demo: str) -> None:
    page, _ = open_page(f"{demo}/open")
    page.get_by_text("Control: nothing evicted").first.wait_for()
    page.locator(".st-key-demo-control button").click()
    page.get_by_text("rightmost trains every sampled token in its true context").wait_for()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app with a trace and a tiny model named at the start; its score cache is its own."""
    folder = tmp_path_factory.mktemp("runs")
    save_tiny_model(folder / "tiny")
    calls = [([1, 2], [3, 4]), ([1, 3, 4], [5])]
    lines = [json.dumps({"prompt_ids": p, "completion_ids": c}) for p, c in calls]
    (folder / "run.jsonl").write_text("\n".join(lines))
    launch = serve.Launch((str(folder / "run.jsonl"),), (str(folder / "tiny"),), "cpu")
    yield from started(folder, launch, XDG_CACHE_HOME=str(folder / "cache"))


def test_a_run_shows_progress_then_drift_then_silence(open_page: Open, runs: str) -> None:
    page, wire = open_page(runs)
    assert "Drift: not run yet." in verdict(page)
    page.get_by_role("button", name="Run on a model").click()
    page.get_by_role("combobox", name="Model").last.click()
    page.get_by_role("option", name="tiny").click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("loading the model").first.wait_for()
    expect(page.get_by_role("combobox", name="Method")).to_have_count(0)  # it would hide that
    page.get_by_text("Mean |drift| on its 2 diverging tokens").wait_for()
    page.get_by_text("loading the model").wait_for(state="detached")
    expect(page.get_by_text("waiting for the jobs before it")).to_have_count(0)
    at_rest(page)
    wire.forget()
    page.evaluate(POLLS)
    assert (wire.sent, wire.received) == ([], [])


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Case V02, the same text around a junction and a broken file, under a hostile name."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "0 <b>x.jsonl").write_bytes(CASE.read_bytes())
    texts = [json.loads(line)["content"] for line in CASE.read_text().splitlines()]
    said = "\u202e \x1b[31m \x9b " + " ".join(texts)
    calls = [([said, said * 2], f"one {said}"), ([said, f"summary {said}"], "two")]
    lines = [
        json.dumps(
            {
                "messages": [{"role": "user", "content": content} for content in prompt],
                "completion": [{"role": "assistant", "content": sampled}],
                "lineage": texts[0],
                "model": texts[1],
            }
        )
        for prompt, sampled in calls
    ]
    (folder / "1 junction.jsonl").write_text("\n".join(lines))
    (folder / "2 broken.jsonl").write_text(f"{texts[0]}\n")
    yield from started(folder, serve.Launch((str(folder),)))


def choose(page: Page, name: str) -> None:
    page.get_by_role("link", name="Open").click()
    page.get_by_text("What was read").wait_for()
    at_rest(page)
    page.get_by_role("combobox", name="Traces named").click()
    page.get_by_role("option", name=name).click()


def assert_inert(page: Page) -> None:
    at_rest(page)
    assert page.title() == "mwviz"
    made = page.locator(OBEYED).all_inner_texts()
    assert made in ([], ["Open a rollout"])
    assert page.evaluate(f"document.body.innerText.match(/{RAW}/)") is None


def test_hostile_text_is_shown_and_never_obeyed(open_page: Open, hostile: str) -> None:
    page, _ = open_page(hostile)
    assert "sampled token" in verdict(page)
    assert_inert(page)
    page.get_by_role("link", name="Open").click()
    page.get_by_text("0 <b>x.jsonl").first.wait_for()
    assert_inert(page)
    choose(page, "1 junction")
    page.get_by_text("What it cannot show").wait_for()
    assert_inert(page)
    page.get_by_role("link", name="Debug").click()
    page.get_by_text("Call 1 no longer shows").wait_for()
    page.get_by_text("onerror=").first.wait_for()
    stage = page.locator(".mw-stage")
    stage.focus()
    for key in ("ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    page.get_by_text("selected in call").wait_for()
    box = stage.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert_inert(page)
    for tab in TABS:
        page.get_by_role("tab", name=tab).click()
        assert_inert(page)
    page.get_by_role("tab", name=TABS[0]).click()
    page.locator(".mw-text .mw-token").last.click()
    page.get_by_role("button", name="All sources as a table").click()
    assert_inert(page)
    page.keyboard.press("Escape")
    choose(page, "2 broken")
    page.get_by_text("mwviz cannot show this.").wait_for()
    assert_inert(page)
