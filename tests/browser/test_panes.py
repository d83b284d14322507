"""The four panes: what they exchange with the server, what they draw, and hostile text in them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from mwviz.windows import NAMES, class_window
from tests.browser.conftest import Open, Wire, at_rest, serve_panes
from tests.browser.panes import ELEMENTS, STAGES, spot
from tests.browser.trees import CACHE_VIEWS, demo_calls, dropping_calls, unit_contents

pytestmark = pytest.mark.browser

HERE = Path(__file__).parent
FRONT_END = HERE.parents[1] / "mwviz" / "frontend"
PICTURE = """stage => [...stage.querySelectorAll('canvas')].map(c => c.toDataURL()).join()
  + stage.querySelector('.mw-sheet')?.innerHTML"""
CHANGED = f"([stage, before]) => ({PICTURE})(stage) !== before"
PIXELS = """canvas => {
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  return [canvas.width, canvas.height, [...new Uint32Array(data.buffer)]];
}"""
SAMPLED = "rgb(76, 151, 173)"
MESSAGES = (
    ("system", "<b>bold</b><img src=x onerror=\"document.title='HIT'\">"),
    ("user", "<script>document.title='HIT'</script> \u202egnp.exe\u202c \u0000\u001b[31m\u009b"),
    ("assistant", "\"><svg onload=document.title='HIT'> [a](javascript:document.title='HIT')"),
)


class Opened(Protocol):
    """Opens the page with a query, drawn and quiet, and says what it exchanges from then on."""

    def __call__(self, query: str = "") -> tuple[Page, Wire]: ...


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("panes")
    for size in ("15k", "150k"):
        _write_stress(size, folder / f"{size}.jsonl")
    (folder / "hostile.jsonl").write_text(_hostile())
    yield from serve_panes(folder)


def _write_stress(size: str, path: Path) -> None:
    """200 calls whose contexts are cut again and again: the same segments at both sizes."""
    calls = demo_calls(200, scale={"15k": 8, "150k": 80}[size], every=4)
    lines = [json.dumps({"prompt_ids": c.prompt, "completion_ids": c.completion}) for c in calls]
    path.write_text("\n".join(lines))


def _hostile() -> str:
    told = [{"role": role, "content": text} for role, text in MESSAGES]
    calls = [
        {"messages": told[:2], "completion": MESSAGES[2][1]},
        {"messages": [told[0], told[2]], "completion": MESSAGES[1][1]},
    ]
    return "\n".join(json.dumps(call) for call in calls)


@pytest.fixture
def opened(open_page: Open, address: str) -> Opened:
    """Opens the page of a trace and waits until it is drawn and quiet."""

    def open_trace(query: str = "") -> tuple[Page, Wire]:
        page, wire = open_page(f"{address}/{query}")
        page.locator(".mw-stage canvas").wait_for()
        page.get_by_text("nothing selected").wait_for()
        at_rest(page)
        wire.forget()
        return page, wire

    return open_trace


def test_hover_zoom_drag_scroll_and_keys_never_call_the_server(opened: Opened) -> None:
    page, wire = opened()
    for stage in STAGES:
        at = spot(page, stage)
        pane = page.locator(stage)
        before = pane.evaluate(PICTURE)
        page.mouse.move(*at)
        page.mouse.wheel(0, -240)
        page.wait_for_function(CHANGED, arg=[pane.element_handle(), before])
        if stage != ".mw-text":
            page.mouse.down()
            page.mouse.move(at[0] - 60, at[1] + 4, steps=3)
            page.mouse.up()
    page.locator(".mw-mask").focus()
    for key in ("j", "n", "d", "d", "l", "ArrowRight", "ArrowDown", "+", "1", "0", "o", "o", "?"):
        page.keyboard.press(key)
    at_rest(page)
    assert (wire.sent, wire.received) == ([], [])


def test_the_metric_changes_strip_and_text_without_a_message(opened: Opened) -> None:
    page, wire = opened()
    strip = page.locator(".mw-drift")
    drift = strip.evaluate(PICTURE)
    expect(page.locator(".mw-metric:visible")).to_have_count(1)
    picker = page.locator(".mwm select")
    picker.select_option("leaks")
    page.get_by_text("Wrong keys under").wait_for()
    at_rest(page)
    assert strip.evaluate(PICTURE) != drift
    assert "tokens" in page.locator(".mw-pane.text .mw-foot").inner_text(), "its key has a unit"
    picker.select_option("kl")
    why = "KL to what it saw is not known because"
    expect(page.locator(".mw-pane.drift .mw-caption")).to_contain_text(why)
    expect(page.locator(".mw-pane.text .mw-caption")).to_contain_text(why)
    strip.focus()
    page.keyboard.press("f")
    in_pane = page.locator(".mw-pane.drift .mw-metric")
    expect(in_pane).to_be_visible()
    expect(in_pane).to_have_value("kl")
    in_pane.select_option("drift")
    page.keyboard.press("Escape")
    expect(picker).to_have_value("drift")
    page.get_by_text("Drift under").first.wait_for()
    at_rest(page)
    assert strip.evaluate(PICTURE) == drift
    assert (wire.sent, wire.received) == ([], [])


def test_every_row_of_the_text_has_the_edge_of_its_role_and_its_letter_is_in_sight(
    opened: Opened,
) -> None:
    page, _ = opened("?trace=hostile")
    text = page.locator(".mw-text")
    edges = text.locator(".mw-role").evaluate_all(
        "all => all.map(one => [one.textContent, getComputedStyle(one).backgroundImage])"
    )
    by_letter = {letter: edge for letter, edge in edges if letter}
    assert {"U", "A"} <= set(by_letter)
    assert len(set(by_letter.values())) == len(by_letter)
    letter = ""
    for own, edge in edges:
        letter = own or letter
        same = edge == by_letter[letter]
        assert same or (letter == "A" and SAMPLED in edge), "later rows of a message too"
    text.evaluate("element => { element.style.height = '90px' }")
    at_rest(page)
    text.evaluate("element => { element.scrollTop = 30 }")
    at_rest(page)
    assert text.evaluate("element => element.scrollTop") == 30
    letters = text.locator(".mw-row").evaluate_all(
        "all => all.map(row => [row.offsetTop, row.querySelector('.mw-role').textContent])"
    )
    assert dict(letters)[40], "the first whole row in sight"
    keys = page.locator(".mw-pane.text .mw-key.role:visible")
    assert {key[0] for key in keys.all_inner_texts()} == set(by_letter)


@pytest.mark.parametrize("stage", STAGES)
def test_a_click_in_any_pane_sends_one_small_message(opened: Opened, stage: str) -> None:
    page, wire = opened()
    at = spot(page, stage, x=0.25, y=0.6)
    page.mouse.move(*at)
    wire.forget()
    page.mouse.click(*at)
    page.get_by_text("call ", exact=False).filter(has_text=", segment ").first.wait_for()
    at_rest(page)
    assert len(wire.sent) == 1
    assert wire.sent[0] <= 500
    assert sum(wire.received) <= 3000


def test_a_token_chosen_in_one_pane_is_marked_in_all_within_three_frames(opened: Opened) -> None:
    page, _ = opened()
    at = spot(page, ".mw-drift", x=0.93)
    before = [page.locator(stage).evaluate(PICTURE) for stage in STAGES]
    page.mouse.click(*at)
    page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() =>"
        " requestAnimationFrame(done))))"
    )
    after = [page.locator(stage).evaluate(PICTURE) for stage in STAGES]
    assert all(new != old for new, old in zip(after, before, strict=True))


@pytest.mark.parametrize(
    ("query", "view"),
    [("", "rightmost"), ("", "replay"), ("?cache=1", "packed_mask"), ("?cache=1", "union_mask")],
)
def test_mask_pixels_equal_the_reference_at_a_token_a_pixel(
    opened: Opened, query: str, view: str
) -> None:
    page, _ = opened(query)
    if view != "rightmost":
        page.get_by_role("radio", name=view).click()
        page.get_by_text(f"Who sees what under {view}").wait_for()
    if query:
        page.mouse.click(*spot(page, ".mw-mask", x=0.12, y=0.8))
    else:
        page.get_by_role("button", name="largest").click()
    page.get_by_role("button", name="1:1").click()
    page.mouse.move(5, 5)
    at_rest(page)
    picture = page.locator(".mw-picture")
    x0, x1, y0, y1 = map(int, (picture.get_attribute("data-window") or "").split(","))
    width, height, pixels = picture.evaluate(PIXELS)
    assert (width, height) == (x1 - x0, y1 - y0)
    shown = np.array(pixels, dtype=np.uint32).reshape(height, width)
    names = _class_of_colour(page)
    if query:
        contents = unit_contents(dropping_calls(), CACHE_VIEWS, semantics="kv_orig")
    else:
        contents = unit_contents(demo_calls(60))
    [laid] = [one for one in contents.views if one.method == view]
    keys = range(x0, min(x1, len(contents.tree.birth)))
    targets = range(y0, min(y1, len(contents.tree.token)))
    cells = class_window(contents.tree, laid, targets, keys).cells
    expected = np.full((height, width), "none", dtype=object)
    expected[: len(targets), : len(keys)] = np.array(NAMES, dtype=object)[cells]
    drawn = np.array([names[int(pixel)] for pixel in shown.ravel()]).reshape(expected.shape)
    assert int((drawn != expected).sum()) == 0
    classes = set(expected.ravel().tolist())
    assert len(classes) >= (3 if view == "union_mask" else 4)
    if query:
        assert ("shifted" in classes) == (view != "union_mask")


def _class_of_colour(page: Page) -> dict[int, str]:
    """Every colour that the mask may have in this theme, as its pixel, and its class."""
    theme = page.locator(".mw").evaluate(
        "e => Object.fromEntries(['background', 'text'].map(name =>"
        " [name, getComputedStyle(e).getPropertyValue(`--st-${name}-color`)]))"
    )
    script = (
        f"const {{classColours}} = await import('{FRONT_END}/theme.js');"
        f"const {{NAMES}} = await import('{FRONT_END}/classes.js');"
        f"const theme = {{background: '{theme['background']}', ink: '{theme['text']}'}};"
        "const told = classColours(theme, NAMES).map(({base, shade}) => [base, shade]);"
        "console.log(JSON.stringify(NAMES.map((name, i) => [name, told[i]])));"
    )
    told = json.loads(
        subprocess.check_output(["node", "--input-type=module", "-e", script], text=True)
    )
    colours = {}
    for name, shades in told:
        for red, green, blue in shades:
            pixel = red | green << 8 | blue << 16 | 0xFF << 24
            colours[pixel] = "none" if name == "untrained" else name
    return colours


def test_python_shows_a_token_and_another_view_without_the_payload(opened: Opened) -> None:
    page, wire = opened()
    page.get_by_role("button", name="show token 3").click()
    page.get_by_text("Text of call 0").wait_for()
    page.get_by_text("call 0, segment 0, token 3").wait_for()
    page.get_by_role("radio", name="replay").click()
    page.get_by_text("Who sees what under replay").wait_for()
    at_rest(page)
    assert sum(wire.received) <= 2 * 3000
    at = spot(page, ".mw-drift", x=0.93)
    page.mouse.click(*at)
    page.get_by_text("call 0, segment 0, token 3").wait_for(state="detached")
    page.get_by_role("button", name="show token 3").click()
    page.get_by_text("call 0, segment 0, token 3").wait_for()
    at_rest(page)
    page.mouse.click(*at)  # what was chosen before Python chose is chosen again
    page.get_by_text("call 0, segment 0, token 3").wait_for(state="detached")


def test_hostile_text_is_inert_in_the_text_pane_and_every_tooltip(opened: Opened) -> None:
    page, _ = opened("?trace=hostile")
    for stage in STAGES:
        at = spot(page, stage, x=0.3, y=0.5 if stage != ".mw-text" else 0.08)
        page.mouse.move(*at)
        at_rest(page)
    page.locator(".mw-text .mw-token").nth(3).hover()
    for key in ("n", "d", "j", "k"):
        page.keyboard.press(key)
    page.get_by_title("The call before").click()
    at_rest(page)
    shown = page.locator(".mw").inner_text()
    assert "<script>" in shown
    assert "onerror" in shown
    assert "⟨202E⟩" in shown
    assert "⟨1B⟩" in shown
    raw = {"\u202e", "\u202c", "\x00", "\x1b", "\x9b"}
    assert not raw & set(page.locator(".mw").evaluate("bench => bench.textContent"))
    assert page.title() == "workbench"
    for selector in ("img", "script", "svg", "b b", "a"):
        assert page.locator(f".mw {selector}").count() == 0


def test_elements_do_not_grow_with_the_rollout(opened: Opened) -> None:
    counts = []
    for size in ("15k", "150k"):
        page, wire = opened(f"?trace={size}")
        wire.forget()
        bench = page.locator(".mw")
        page.locator(".mw-text").evaluate("stage => { stage.scrollTop = 4000 }")
        at_rest(page)
        most = bench.evaluate(ELEMENTS)
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size({"width": 1100, "height": 900})
        at_rest(page)
        most = max(most, bench.evaluate(ELEMENTS))
        assert most <= 2000
        counts.append(most)
        assert wire.sent == []
    assert counts[1] <= 1.1 * counts[0]


def test_panes_become_tabs_on_a_narrow_page(opened: Opened) -> None:
    page, _ = opened()
    page.set_viewport_size({"width": 900, "height": 900})
    at_rest(page)
    expect(page.locator(".mw-mask")).to_be_visible()
    expect(page.locator(".mw-text")).to_be_hidden()
    page.get_by_role("tab", name="Text").click()
    expect(page.locator(".mw-text")).to_be_visible()
    expect(page.locator(".mw-mask")).to_be_hidden()
    page.locator(".mw-text .mw-token").first.wait_for()


def test_buttons_that_look_alike_are_told_apart_by_name(opened: Opened) -> None:
    page, _ = opened()
    for pane in ("Contexts", "Who sees what", "Text", "Drift"):
        for what in ("The same as a table (key t)", "Full screen (key f)"):
            name = f"{pane}: {what}"
            expect(page.get_by_role("button", name=name, exact=True)).to_have_count(1)
