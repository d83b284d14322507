"""Numbers that the payload does not hold come once they are to be shown, and disturb nothing."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from mwviz import serve
from mwviz.demos import DEMOS, open_demo
from mwviz.numberpacking import shipped
from mwviz.payload import MAGIC, VERSION
from tests.browser.conftest import Open, at_rest
from tests.servers import app_command, free_port, served

pytestmark = pytest.mark.browser

(ANALYSIS,) = open_demo(DEMOS[0]).analyses
PICTURE = "canvas => canvas.toDataURL()"
STRIP = ".mw-drift canvas"
CAPTION = ".mw-pane.drift .mw-caption"
FAR = "branch_all"
"""A view whose drift is asked for."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app as `mwviz app` starts it: its demo is scored under every view."""
    port = free_port()
    folder = tmp_path_factory.mktemp("demo")
    with served(app_command(serve.entry(), port, launch=serve.Launch()), port, folder) as running:
        yield running


def settled(page: Page) -> None:
    page.locator(".mw-stage canvas").wait_for()
    page.get_by_text("Click a rectangle or a token").wait_for()
    at_rest(page)
    page.locator(".mw-stage").evaluate("stage => { stage.dataset.probe = 'first' }")


def is_kept(page: Page) -> bool:
    return page.locator(".mw-stage").get_attribute("data-probe") == "first"


def pick(page: Page, kind: str) -> None:
    page.locator("select.mw-metric").locator("visible=true").first.select_option(kind)


def came(page: Page, words: str) -> str:
    """The picture of the strip, once it shows a number of these words."""
    caption = page.locator(CAPTION)
    expect(page.locator(".mw-pane.drift h4")).to_contain_text(words)
    expect(caption).not_to_contain_text("Loading")
    page.mouse.move(5, 5)
    at_rest(page)
    picture: str = page.locator(STRIP).evaluate(PICTURE)
    return picture


def test_the_first_message_holds_the_drift_of_two_views_alone(open_page: Open, demo: str) -> None:
    page, _ = open_page("about:blank")
    frames: list[bytes] = []

    def keep(frame: bytes | str) -> None:
        frames.append(frame if isinstance(frame, bytes) else frame.encode())

    page.on("websocket", lambda socket: socket.on("framereceived", keep))
    page.goto(demo)
    settled(page)
    start = MAGIC + struct.pack("<I", VERSION)
    payloads = [frame[frame.index(start) :] for frame in frames if start in frame]
    assert len(payloads) == 1, "it is never sent again"
    (size,) = struct.unpack("<I", payloads[0][8:12])
    header = json.loads(payloads[0][20 : 20 + size])
    assert set(header["numbers"]) == set(shipped(ANALYSIS.scores))
    targets = len(ANALYSIS.tree.token)
    of_targets = [n for n, (_, _, count) in header["sections"].items() if count == targets]
    assert sorted(of_targets) == sorted(shipped(ANALYSIS.scores))


def test_a_further_number_is_asked_for_once_and_then_kept(open_page: Open, demo: str) -> None:
    page, wire = open_page(demo)
    settled(page)
    drift = came(page, "Drift under rightmost")
    wire.forget()
    pick(page, "change")
    change = came(page, "Change of entropy")
    assert change != drift
    assert len(wire.sent) == 1, "one question"
    assert sum(wire.received) < 4 * len(ANALYSIS.tree.token) + 4_000, "and no payload"
    pick(page, "drift")
    assert came(page, "Drift under rightmost") == drift
    pick(page, "change")
    assert came(page, "Change of entropy") == change
    assert len(wire.sent) == 1, "what came is kept"
    assert is_kept(page)


def test_a_third_view_comes_with_its_drift_and_the_selection_holds(
    open_page: Open, demo: str
) -> None:
    page, wire = open_page(demo)
    settled(page)
    rightmost = came(page, "Drift under rightmost")
    page.locator(".mw-stage").focus()
    for key in ("d", "Enter"):
        page.keyboard.press(key)
    page.get_by_text("log p true").first.wait_for()
    page.keyboard.press("Escape")
    at_rest(page)
    wire.forget()
    page.get_by_test_id("stButtonGroup").get_by_text(FAR, exact=True).click()
    far = came(page, f"Drift under {FAR}")
    assert far != rightmost
    assert len(wire.sent) == 1, "the page sends the view's drift without being asked"
    assert page.get_by_text("log p true").first.is_visible()
    expect(page.locator(".mw-pane.text .mw-caption")).to_contain_text(FAR)
    assert is_kept(page)
    page.locator(".mw-stage").focus()
    page.keyboard.press("m")
    expect(page.locator(".mw-pane.drift h4")).not_to_contain_text(FAR)
    came(page, "Drift under last_call")
    expect(page.get_by_test_id("stButtonGroup").locator("[aria-checked=true]")).to_have_text(
        "last_call"
    )
    assert is_kept(page)


def test_a_link_leads_to_a_view_and_a_number_that_are_asked_for(open_page: Open, demo: str) -> None:
    page, _ = open_page(f"{demo}/?t={DEMOS[0].name}&A={FAR}&m=gap")
    settled(page)
    linked = came(page, f"Gap to recorded under {FAR}")
    page, _ = open_page(demo)
    settled(page)
    page.get_by_test_id("stButtonGroup").get_by_text(FAR, exact=True).click()
    came(page, f"Drift under {FAR}")
    pick(page, "gap")
    assert came(page, f"Gap to recorded under {FAR}") == linked


def test_the_table_of_the_strip_fetches_all_its_numbers(open_page: Open, demo: str) -> None:
    page, wire = open_page(demo)
    settled(page)
    wire.forget()
    page.locator(".mw-drift").focus()
    page.keyboard.press("t")
    table = page.locator(".mw-dialog table")
    expect(table.locator("th", has_text="change of entropy")).to_be_visible()
    expect(table).not_to_contain_text("…")
    expect(page.locator(".mw-dialog").get_by_role("button", name="CSV")).to_be_enabled()
    assert len(wire.sent) == 1
