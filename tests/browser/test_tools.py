"""Finding, going to places, pinning, tables, files and keys of the workbench, in Chromium."""

from __future__ import annotations

import csv
import io
import json
import re
import struct
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from mwviz.pairs import count_pairs
from mwviz.windows import NAMES, class_window
from tests.browser.conftest import Open, Wire, at_rest, serve_panes
from tests.browser.trees import demo_calls, unit_contents

pytestmark = pytest.mark.browser

CONTENTS = unit_contents(demo_calls(60))
SCRIPTS = (
    "中文字符测试" * 30,
    "😀👍🏽🇩🇪 ok " * 30,
    "שלום עולם זה טקסט " * 20,
    "e\u0301a\u0308 " * 60,
)
WIDTHS = """bench => [...bench.querySelectorAll('.mw-row')].map(row => {
  const line = row.querySelector('.mw-line');
  return line.getBoundingClientRect().right - row.getBoundingClientRect().right;
})"""
LEFTS = """bench => [...bench.querySelectorAll('.mw-line')]
  .filter(line => /^[\\u0590-\\u05ff ]{20,}$/.test(line.textContent))
  .map(line => [...line.querySelectorAll('.mw-token')].map(t => t.getBoundingClientRect().left))[0]
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("tools")
    for name, texts in {"scripts": SCRIPTS, "hostile": ("<img src=x onerror=1>", "=1+1")}.items():
        told = [{"role": "user", "content": text} for text in texts]
        (folder / f"{name}.jsonl").write_text(
            json.dumps({"messages": told, "completion": "<script>1</script> done"})
        )
    yield from serve_panes(folder)


@pytest.fixture
def bench(open_page: Open, address: str) -> tuple[Page, Wire]:
    """The page, drawn and quiet, with the focus in the mask."""
    return opened(open_page, address)


def opened(open_page: Open, address: str) -> tuple[Page, Wire]:
    page, wire = open_page(address)
    page.locator(".mw-stage canvas").wait_for()
    page.get_by_text("nothing selected").wait_for()
    at_rest(page)
    page.locator(".mw-mask").focus()
    wire.forget()
    return page, wire


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_finding_counts_marks_and_walks_without_a_message(bench: tuple[Page, Wire]) -> None:
    page, wire = bench
    tree = CONTENTS.tree
    wanted = {int(token) for token in tree.ids if token % 10 == 0}
    held = {int(token) for token in tree.ids[tree.context(len(tree.tip) - 1)]}
    page.set_viewport_size({"width": 1440, "height": 420})
    page.locator(".mw-drift").evaluate("stage => stage.scrollIntoView({block: 'start'})")
    press(page, "/")
    expect(page.locator(".mw-finder")).to_be_in_viewport(ratio=1)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.keyboard.type("SEARCH")
    told = page.locator(".mw-told")
    expect(told).to_have_text(
        f"{len(wanted):,} found, {len(wanted - held):,} of them evicted by the end"
    )
    page.keyboard.press("Enter")
    expect(told).to_contain_text(f"of {len(wanted):,} found")
    expect(page.locator(".mw-token.current")).to_have_text("search")
    page.locator(".mw-token.found").nth(2).wait_for()
    first = told.inner_text()
    press(page, "Enter", "Enter", "Shift+Enter", "Shift+Enter")
    expect(told).to_have_text(first)
    page.keyboard.type("no such text")
    expect(told).to_contain_text("Found nowhere")
    press(page, "Escape")
    expect(page.locator(".mw-finder")).to_be_hidden()
    expect(page.locator(".mw-token.found")).to_have_count(0)
    assert (wire.sent, wire.received) == ([], [])


def test_going_to_a_call_a_token_and_a_part_of_the_mask(bench: tuple[Page, Wire]) -> None:
    page, wire = bench
    for text, title in (("call 22", "Text of call 22"), ("call 7 tok 3", "Text of call 7")):
        press(page, "g")
        page.keyboard.type(text)
        press(page, "Enter")
        page.get_by_text(title, exact=True).wait_for()
    press(page, "g")
    page.keyboard.type("call 60")
    press(page, "Enter")
    expect(page.locator(".mw-told")).to_have_text("There are 60 calls, 0 to 59")
    page.locator(".mw-finder input").fill("q 10-40 k 100-160")
    press(page, "Enter")
    at_rest(page)
    assert page.locator(".mw-picture").get_attribute("data-window") == "100,160,10,40"
    assert (wire.sent, wire.received) == ([], [])


def test_a_pinned_call_shows_what_differs_from_it(bench: tuple[Page, Wire]) -> None:
    page, _ = bench
    press(page, "g")
    page.keyboard.type("call 20")
    press(page, "Enter", "p", "j")
    page.get_by_text("Text of call 21, beside call 20", exact=True).wait_for()
    page.locator(".mw-token.added").first.wait_for()
    press(page, "k")
    page.get_by_text("Text of call 20", exact=True).wait_for()
    press(page, "p", "j")
    page.get_by_text("Text of call 21", exact=True).wait_for()
    expect(page.locator(".mw-token.added")).to_have_count(0)


def test_all_that_left_is_struck_through_and_says_when(bench: tuple[Page, Wire]) -> None:
    page, _ = bench
    press(page, "g")
    page.keyboard.type("call 59")
    press(page, "Enter")
    page.get_by_label("What has left").select_option("all")
    page.locator(".mw-text").evaluate("stage => { stage.scrollTop = 900 }")
    page.locator(".mw-token.gone").first.wait_for()
    title = page.locator(".mw-token.gone").first.get_attribute("title") or ""
    assert title.startswith("Not in call ")
    page.get_by_label("What has left").select_option("none")
    expect(page.locator(".mw-token.gone")).to_have_count(0)


def test_a_pane_fills_the_screen_and_goes_back(bench: tuple[Page, Wire]) -> None:
    page, wire = bench
    before = page.locator(".mw-mask").bounding_box()
    press(page, "f")
    at_rest(page)
    box = page.locator(".mw-mask").bounding_box()
    assert box is not None
    assert before is not None
    assert box["width"] > 1300
    assert box["height"] > 700
    expect(page.locator(".mw-text")).to_be_hidden()
    press(page, "Escape")
    at_rest(page)
    assert page.locator(".mw-mask").bounding_box() == before
    assert (wire.sent, wire.received) == ([], [])


def test_the_masks_table_counts_the_pairs_that_python_counts(bench: tuple[Page, Wire]) -> None:
    page, _ = bench
    press(page, "t")
    page.get_by_role("dialog").wait_for()
    with page.expect_download() as download:
        page.get_by_role("dialog").get_by_role("button", name="CSV").click()
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    view, tree = CONTENTS.views[0], CONTENTS.tree
    pairs = count_pairs(tree, view)
    for name in ("future", "erased", "stale", "lost", "shifted"):
        expected = np.bincount(tree.call, weights=pairs.of(name), minlength=len(tree.tip))
        assert [int(row[name]) for row in rows] == expected.tolist()
    agree = np.bincount(tree.call, weights=pairs.of("agree"), minlength=len(tree.tip))
    assert [int(row["agree"]) + int(row["shifted"]) for row in rows] == agree.tolist()
    expect(page.locator(".mw-dialog tbody tr")).to_have_count(20)
    press(page, "Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_a_row_of_a_table_selects(bench: tuple[Page, Wire]) -> None:
    page, wire = bench
    page.locator(".mw-drift").focus()
    press(page, "t")
    page.locator(".mw-dialog tbody tr").nth(2).click()
    page.get_by_text(", token ").first.wait_for()
    at_rest(page)
    assert len(wire.sent) == 1
    assert wire.sent[0] <= 500


def test_the_window_is_saved_as_counts_and_as_a_picture(bench: tuple[Page, Wire]) -> None:
    page, wire = bench
    press(page, "g")
    page.keyboard.type("q 100-220 k 300-460")
    press(page, "Enter")
    at_rest(page)
    with page.expect_download() as download:
        page.locator(".mw-pane.mask").get_by_role("button", name="CSV").click()
    assert download.value.suggested_filename == "mask-rightmost-time-q100-220-k300-460.csv"
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    cells = class_window(CONTENTS.tree, CONTENTS.views[0], range(100, 220), range(300, 460)).cells
    named = {row["class"] for row in rows} - {"untrained", "none"}
    for name in named | {"future", "erased"}:
        saved = sum(int(row["cells"]) for row in rows if row["class"] == name)
        assert saved == int((cells == NAMES.index(name)).sum()), name
    assert sum(int(row["cells"]) for row in rows) == cells.size
    with page.expect_download() as picture:
        page.get_by_role("button", name="PNG").click()
    content = picture.value.path().read_bytes()
    width, height = struct.unpack(">II", content[16:24])
    box = page.locator(".mw-mask").bounding_box()
    assert box is not None
    assert content.startswith(b"\x89PNG")
    assert (width, height) == (round(box["width"]), round(box["height"]))
    assert (wire.sent, wire.received) == ([], [])


def test_packed_order_and_explanations_stay_in_the_browser(bench: tuple[Page, Wire]) -> None:
    page, wire = bench
    picture = page.locator(".mw-picture")
    before = picture.evaluate("canvas => canvas.toDataURL()")
    press(page, "d", "x")
    at_rest(page)
    assert picture.evaluate("canvas => canvas.toDataURL()") != before
    x0, x1, y0, y1 = map(int, (picture.get_attribute("data-window") or "").split(","))
    row = CONTENTS.views[0].rows[0].size
    assert (x0, x1, y0, y1) == (0, row, 0, row)
    press(page, "e")
    told = page.get_by_role("dialog")
    expect(told).to_contain_text("log p in the true context, in nats")
    expect(told).to_contain_text("trained sampled tokens / sampled tokens")
    press(page, "Escape")
    assert (wire.sent, wire.received) == ([], [])


def test_the_tree_shows_branches_and_selects_a_call(bench: tuple[Page, Wire]) -> None:
    page, wire = bench
    press(page, "2")
    tree = page.locator(".mw-tree")
    expect(tree).to_be_visible()
    expect(page.locator(".mw-stage")).to_be_hidden()
    label = tree.get_attribute("aria-label") or ""
    assert label.startswith(f"Tree of {len(CONTENTS.tree.junction_calls) + 1} branches")
    at_rest(page)
    assert (wire.sent, wire.received) == ([], [])
    box = tree.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 20, box["y"] + 14 + 0.62 * 44)
    page.get_by_text("call 0, segment ").wait_for()
    press(page, "1")
    expect(page.locator(".mw-stage")).to_be_visible()


def test_the_tree_as_nodes_is_walked_by_keys_and_tells_python_nothing(
    bench: tuple[Page, Wire],
) -> None:
    page, wire = bench
    page.locator(".mw-stage").focus()
    press(page, "3")
    nodes = page.locator(".mw-nodes")
    expect(nodes).to_be_visible()
    expect(nodes).to_be_focused()
    press(page, "ArrowRight")
    expect(page.locator(".mw-tip")).to_contain_text("Call 0 of")
    press(page, "2")
    expect(page.locator(".mw-tree")).to_be_focused()
    press(page, "ArrowRight")
    assert (wire.sent, wire.received) == ([], [])
    press(page, "1")
    expect(page.locator(".mw-stage")).to_be_focused()


def test_calls_that_come_to_a_rollout_appear_and_the_selection_stays(
    bench: tuple[Page, Wire],
) -> None:
    page, wire = bench
    press(page, "g")
    page.keyboard.type("call 20 tok 4")
    press(page, "Enter")
    page.locator(".mw-drift").focus()
    press(page, "Enter")
    page.get_by_text("call 20, segment ").wait_for()
    page.get_by_role("button", name="more calls").click()
    expect(page.locator(".mw-stage")).to_have_attribute("aria-label", re.compile("of 65 calls"))
    page.get_by_text("Text of call 20", exact=True).wait_for()
    caption = page.locator(".mw-pane.text .mw-caption").inner_text()
    assert caption.startswith(("Drift", "Not trained"))
    wire.forget()
    page.locator(".mw-drift").focus()
    press(page, "Enter")
    at_rest(page)
    assert wire.sent == []


def test_m_tells_the_server_the_next_view_in_one_small_message(bench: tuple[Page, Wire]) -> None:
    page, wire = bench
    press(page, "m")
    page.get_by_text("Who sees what under replay").wait_for()
    at_rest(page)
    assert len(wire.sent) == 1
    assert wire.sent[0] <= 500
    assert sum(wire.received) <= 3000


def test_copies_hold_ids_and_links_hold_no_text(bench: tuple[Page, Wire]) -> None:
    page, _ = bench
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    press(page, "d", "Enter")
    page.get_by_text(", token ").first.wait_for()
    press(page, "y")
    page.get_by_text("Link copied").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    assert "A=rightmost&call=" in link
    assert "&tok=" in link
    page.get_by_role("button", name="copy with ids").click()
    page.get_by_text("with their ids").wait_for()
    lines = page.evaluate("navigator.clipboard.readText()").split("\n")
    call = int(link.split("call=")[1].split("&")[0])
    ids = CONTENTS.tree.ids[CONTENTS.tree.context(call)].tolist()
    assert [int(line.split("\t")[1]) for line in lines[1:]] == ids


def test_rows_of_every_script_fit_and_right_to_left_text_reads_so(
    open_page: Open, address: str
) -> None:
    page, _ = opened(open_page, f"{address}/?trace=scripts")
    page.locator(".mw-text").evaluate("stage => { stage.scrollTop = 0 }")
    at_rest(page)
    assert max(page.locator(".mw").evaluate(WIDTHS)) <= 1
    lefts = page.locator(".mw").evaluate(LEFTS)
    assert lefts == sorted(lefts, reverse=True)


def test_trace_text_in_tables_is_inert(open_page: Open, address: str) -> None:
    page, _ = opened(open_page, f"{address}/?trace=hostile")
    page.locator(".mw-text").focus()
    press(page, "t")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("img")
    for selector in ("img", "script", "svg", "a"):
        assert page.locator(f".mw {selector}").count() == 0
    with page.expect_download() as download:
        dialog.get_by_role("button", name="CSV").click()
    cells = [
        cell for row in csv.reader(io.StringIO(download.value.path().read_text())) for cell in row
    ]
    assert not [cell for cell in cells if cell.startswith("=")]
    press(page, "Escape", "/")
    page.keyboard.type("<img")
    expect(page.locator(".mw-told")).to_contain_text("1 found")


def test_two_fingers_zoom_the_mask(bench: tuple[Page, Wire]) -> None:
    page, wire = bench
    picture = page.locator(".mw-picture")
    page.locator(".mw-mask").scroll_into_view_if_needed()
    box = page.locator(".mw-mask").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    before = picture.get_attribute("data-window")
    session = page.context.new_cdp_session(page)

    def touch(kind: str, apart: int) -> None:
        ends = ({"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1})
        points = [] if kind == "touchEnd" else list(ends)
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    session.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})
    touch("touchStart", 20)
    for apart in (40, 60, 80):
        touch("touchMove", apart)
    touch("touchEnd", 0)
    at_rest(page)
    x0, x1, _, _ = map(float, (picture.get_attribute("data-window") or "").split(","))
    assert x1 - x0 < 0.5 * float((before or "").split(",")[1])
    assert wire.sent == []


def test_a_phone_shows_one_pane_below_the_timeline_and_nothing_sticks_out(
    bench: tuple[Page, Wire],
) -> None:
    page, _ = bench
    page.set_viewport_size({"width": 390, "height": 844})
    at_rest(page)
    for tab, stage in (("Mask", ".mw-mask"), ("Text", ".mw-text"), ("Drift", ".mw-drift")):
        page.get_by_role("tab", name=tab).click()
        expect(page.locator(stage)).to_be_visible()
        wide = page.locator(".mw").evaluate(
            "root => Math.max(...[...root.querySelectorAll('*')].filter(e => e.offsetParent)"
            ".map(e => e.getBoundingClientRect().right)) - root.getBoundingClientRect().right"
        )
        assert wide <= 1, tab
