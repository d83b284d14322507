"""A copied link leads another browser to the same place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from mwviz import serve
from tests.browser.conftest import Open
from tests.servers import app_command, free_port, served

pytestmark = pytest.mark.browser

PATIENCE = 90_000  # milliseconds
PIXELS = "picture => picture.toDataURL()"
MARKED = """pane => {
  const marked = (pane.getRootNode().getSelection ? pane.getRootNode() : document).getSelection();
  return String(marked);
}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app on its demos."""
    folder = tmp_path_factory.mktemp("links")
    port = free_port()
    with served(app_command(serve.entry(), port), port, folder) as running:
        yield running


def whole(page: Page) -> None:
    """Waits for the page with all that comes after the workbench."""
    page.locator(".mw[data-drawn]").wait_for(timeout=PATIENCE)
    page.get_by_role("button", name="Copy link").first.wait_for(timeout=PATIENCE)


def copied(page: Page) -> str:
    """The link that the key y copies, once the address bar shows it too."""
    page.locator(".mw-stage").focus()
    page.keyboard.press("y")
    expect(page.locator(".mw-note")).to_contain_text("Link copied", timeout=PATIENCE)
    told: str = page.evaluate("navigator.clipboard.readText()")
    page.wait_for_function(
        f"link => {SORTED}(link) === {SORTED}(location.href)", arg=told, timeout=PATIENCE
    )
    return told


QUERY = "address => [...new URL(address).searchParams].map(part => part.join('='))"
SORTED = f"(address => ({QUERY})(address).sort().join('&'))"


def test_a_link_brings_selection_metric_zoom_pin_and_marks(open_page: Open, address: str) -> None:
    asked = "t=busy&A=replay&B=packed_mask&call=9&tok=3&k=100&ev=2&m=leaks&pin=2&sel=749-754"
    page, _ = open_page(f"{address}/?{asked}&z=m0-5k-0-50_d0-50")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    whole(page)
    expect(page.locator(".mw-pane.text h4")).to_have_text("Text of call 9, beside call 2")
    link = copied(page)
    parts = dict(part.split("=") for part in page.evaluate(QUERY, link))
    assert parts.pop("A").startswith("replay-")
    wanted = dict(part.split("=") for part in f"{asked}&z=m0-5k-0-50_d0-50".split("&"))
    assert parts == {key: value for key, value in wanted.items() if key != "A"}
    picture = page.locator(".mw-picture").evaluate(PIXELS)
    marked = page.locator(".mw-text").evaluate(MARKED)
    assert marked
    again, _ = open_page(link)
    again.context.grant_permissions(["clipboard-read", "clipboard-write"])
    whole(again)
    expect(again.locator(".mw-pane.text h4")).to_have_text("Text of call 9, beside call 2")
    assert set(again.evaluate(QUERY, copied(again))) == set(page.evaluate(QUERY, link))
    assert again.locator(".mw-picture").evaluate(PIXELS) == picture
    assert again.locator(".mw-text").evaluate(MARKED) == marked


def test_a_link_opens_the_pane_that_shows_its_place_in_a_narrow_window(
    open_page: Open, address: str
) -> None:
    page, _ = open_page(f"{address}/?t=busy&call=9&tok=3")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.set_viewport_size({"width": 800, "height": 900})
    whole(page)
    tab = page.get_by_role("tab", name="Text", exact=True)
    expect(tab).to_have_attribute("aria-selected", "true")
    expect(page.locator(".mw-pane.text h4")).to_have_text("Text of call 9")
    page.get_by_role("tab", name="Drift", exact=True).click()
    link = copied(page)
    again, _ = open_page(link)
    again.set_viewport_size({"width": 390, "height": 844})
    whole(again)
    tab = again.get_by_role("tab", name="Drift", exact=True)
    expect(tab).to_have_attribute("aria-selected", "true")


def test_what_a_link_cannot_mean_here_is_named_and_the_rest_is_shown(
    open_page: Open, address: str
) -> None:
    page, _ = open_page(f"{address}/?t=tidy&call=1&pin=99&m=nonsense&colour=red")
    page.get_by_text("Part of this link was ignored").wait_for(timeout=PATIENCE)
    expect(page.get_by_text("colour", exact=True)).to_be_visible()
    expect(page.locator(".mw-note")).to_contain_text("left out: m, pin", timeout=PATIENCE)
    whole(page)
    expect(page.locator(".mw-pane.text h4")).to_have_text("Text of call 1")
    stage = page.locator(".mw-stage")
    stage.evaluate("stage => { stage.dataset.probe = 'first' }")
    page.get_by_role("button", name="Copy link").first.click()
    page.wait_for_function("!location.search.includes('colour')", timeout=PATIENCE)
    expect(page.get_by_text("Part of this link was ignored")).to_have_count(0)
    assert stage.get_attribute("data-probe") == "first"
