"""Every page can be read: letters of 12 px at least, 4.5 to 1 against what is behind them, no
scrolling sideways; light and dark, on a desk and on a phone. In a narrow window nothing is cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from mwviz import serve
from tests.browser import fitting
from tests.browser.conftest import Open, at_rest
from tests.servers import app_command, free_port, served

pytestmark = pytest.mark.browser

PAGES = {
    "debug": "Where the context changed",
    "open": "What it cannot show",
    "triage": "Worst first",
    "train": "No run yet.",
    "jobs": "Nothing was run.",
    "learn": "Every word, class and method",
}
"""By address: words near the end of the page."""
WIDTHS = (1440, 390)
NARROW = 800
"""Pixels of a window beside another one."""
HARD_TO_READ = r"""() => {
  const found = [];
  const rgba = colour => {
    const [r, g, b, a] = colour.match(/[\d.]+/g).map(Number);
    const scale = colour.startsWith('color(srgb') ? 255 : 1;
    return [r * scale, g * scale, b * scale, a ?? 1];
  };
  const over = ([r, g, b, a], behind) => [r, g, b].map((v, i) => v * a + behind[i] * (1 - a));
  const linear = v => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const bright = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]) + 0.05;
  const above = e => e.assignedSlot ?? e.parentElement ?? e.getRootNode().host;
  const app = document.querySelector('[data-testid="stApp"]');
  const ground = rgba(getComputedStyle(app).backgroundColor);
  const exempt = 'svg, :disabled, [aria-disabled="true"], [aria-hidden="true"], .mw-said';
  const look = root => {
    for (const element of root.querySelectorAll('*')) {
      if (element.shadowRoot) look(element.shadowRoot);
      const own = [...element.childNodes].find(node => node.nodeType === 3 && node.data.trim());
      if (!own || ['STYLE', 'SCRIPT', 'NOSCRIPT', 'OPTION'].includes(element.tagName)) continue;
      const range = document.createRange();
      range.selectNodeContents(own);
      const { width, height } = range.getBoundingClientRect();
      const style = getComputedStyle(element);
      if (width < 2 || height < 2 || style.visibility === 'hidden') continue;
      const line = [];
      for (let at = element; at; at = above(at)) line.unshift(at);
      if (line.some(at => at.matches(exempt))) continue;
      let behind = ground, opacity = 1;
      for (const at of line) {
        const { backgroundColor, opacity: part } = getComputedStyle(at);
        opacity *= Number(part);
        const [r, g, b, a] = rgba(backgroundColor);
        behind = over([r, g, b, a * opacity], behind);
      }
      const [r, g, b, a] = rgba(style.color);
      const pair = [bright(over([r, g, b, a * opacity], behind)), bright(behind)];
      const ratio = Math.max(...pair) / Math.min(...pair), size = parseFloat(style.fontSize);
      if (ratio < 4.5 || size < 12)
        found.push(`${own.data.trim().slice(0, 40)}: ${ratio.toFixed(2)} to 1, ${size} px`);
    }
  };
  look(document);
  return [...new Set(found)];
}"""
"""In the page: the texts that are too small or too faint. Disabled controls may be faint."""
CUT = """buttons => buttons.flatMap(button => [...button.querySelectorAll('*')])
  .filter(part => part.clientWidth && part.scrollWidth > part.clientWidth)
  .map(part => part.textContent)"""
"""In the page: the words of buttons that have no room."""
SIDEWAYS = """() => [document.scrollingElement, document.querySelector('[data-testid="stMain"]')]
  .map(box => box.scrollWidth - box.clientWidth)"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app on its first demo, with a cache of its own."""
    folder = tmp_path_factory.mktemp("legible")
    port = free_port()
    command = app_command(serve.entry(), port, launch=serve.Launch())
    with served(command, port, folder, XDG_CACHE_HOME=str(folder)) as address:
        yield address


def at(page: Page, words: str, width: int, scheme: Literal["light", "dark"]) -> None:
    """Has the page be so wide and in these colours, whole and at rest."""
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    page.get_by_text(words).first.wait_for()
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0)  # the look of a page is one of them
    page.mouse.move(2, 400)
    at_rest(page)


@pytest.mark.parametrize("name", PAGES)
def test_every_text_can_be_read_and_nothing_sticks_out(
    open_page: Open, demo: str, name: str
) -> None:
    page, _ = open_page(f"{demo}/{name}")
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            at(page, PAGES[name], width, scheme)
            assert page.evaluate(HARD_TO_READ) == [], (name, width, scheme)
        assert page.evaluate(SIDEWAYS) == [0, 0], (name, width)


@pytest.mark.parametrize("width", [1440, 720, 390])
def test_no_button_of_the_verdict_is_cut(open_page: Open, demo: str, width: int) -> None:
    page, _ = open_page(demo)
    at(page, PAGES["debug"], width, "light")
    assert page.locator(".st-key-judged button").evaluate_all(CUT) == []


def test_what_is_chosen_for_a_training_is_seen_whole_in_a_narrow_window(
    open_page: Open, demo: str
) -> None:
    page, _ = open_page(f"{demo}/train")
    at(page, PAGES["train"], NARROW, "light")
    page.get_by_role("button", name="Remove sdcc").wait_for()
    assert fitting.misfits(page, fitting.CHOICES) == []
    assert fitting.misfits(page, fitting.OPEN) == []


@pytest.mark.parametrize("width", [1440, 1001, NARROW, 390])
def test_words_below_the_matrix_do_not_touch(open_page: Open, demo: str, width: int) -> None:
    page, _ = open_page(f"{demo}/learn")
    at(page, PAGES["learn"], width, "light")
    page.locator(".xtick text").nth(23).wait_for()
    assert fitting.misfits(page, fitting.SLANTED) == []


def test_charts_and_pickers_of_debug_fit_a_narrow_window(open_page: Open, demo: str) -> None:
    page, _ = open_page(demo)
    at(page, PAGES["debug"], NARROW, "light")
    page.get_by_role("tab", name="Drift in charts").click()
    page.locator(".legendtext", has_text="middle half").nth(1).wait_for()
    at_rest(page)
    assert fitting.misfits(page, fitting.CHARTS) == []
    page.get_by_role("tab", name="B - A").click()
    page.get_by_text("First divergence: ").wait_for()
    at_rest(page)
    assert fitting.misfits(page, fitting.CHOICES) == []
    assert fitting.misfits(page, fitting.OPEN) == []


def test_texts_of_a_change_of_context_stand_at_one_height(open_page: Open, demo: str) -> None:
    page, _ = open_page(demo)
    at(page, PAGES["debug"], NARROW, "light")
    texts = page.locator("[data-testid=stCode]")
    texts.nth(2).wait_for()
    tops = texts.evaluate_all("all => all.map(e => Math.round(e.getBoundingClientRect().top))")
    assert len(set(tops)) == 1


def test_what_opens_above_a_page_can_be_read(open_page: Open, demo: str) -> None:
    page, _ = open_page(demo)
    for scheme in ("light", "dark"):
        at(page, PAGES["debug"], 1440, scheme)
        page.get_by_role("button", name="Run on a model").click()
        page.get_by_text("Runs in a process of its own").wait_for()
        page.mouse.move(2, 400)
        at_rest(page)
        assert page.evaluate(HARD_TO_READ) == [], scheme
        page.keyboard.press("Escape")
        page.get_by_text("Runs in a process of its own").wait_for(state="detached")
