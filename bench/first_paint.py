"""How soon a page of the app is drawn: timed in the page itself, warm, several pages in turn."""

from __future__ import annotations

import statistics
from typing import NamedTuple

from playwright.sync_api import Browser, Page

REPEATS = 15
PATIENCE = 120_000
"""Milliseconds."""
VIEWPORT = {"width": 1440, "height": 900}
BLANK = """
import streamlit as st
from mwviz_app import frame

def blank():
    st.text("a blank page")

def other():
    pass

names = ["open", "triage", "train", "jobs", "learn"]
pages = [st.Page(other, title=name, url_path=name) for name in names]
frame.show([*pages[:2], st.Page(blank, title="blank", default=True), *pages[2:]])
"""
"""The app's frame around one line of text: a script for `streamlit run`."""
WATCH = """(() => {
  const hosts = () => [...document.querySelectorAll('[data-testid="stBidiComponentIsolated"]')];
  const drawn = () => hosts().some((host) => host.shadowRoot?.querySelector(".mw[data-drawn]"));
  const told = () => [...document.querySelectorAll('[data-testid="stText"]')]
    .some((text) => text.textContent.trim() === "a blank page");
  const deck = () => document.querySelector('[data-testid="stTabs"] [data-testid="stMetric"]');
  const seen = window.seen = {};
  const look = () => {
    if (drawn() || told()) seen.first ??= performance.now();
    if (drawn() && deck()) seen.all ??= performance.now();
    if (!seen.all) requestAnimationFrame(look);
  };
  look();
})()"""
"""Milliseconds from the navigation to the first paint, and to all that the page shows at first."""


class Drawn(NamedTuple):
    """Medians in seconds from the navigation."""

    first: float
    whole: float | None
    """Until everything of the page is there; None for a page that has nothing else."""


def drawn(browser: Browser, addresses: dict[str, str]) -> dict[str, Drawn]:
    """When each of some pages is drawn; they are loaded in turn, so that they share what else runs.

    Args:
        browser: keeps its cache between the loads.
        addresses: by name; `whole` is timed for the one named `app`.
    """
    pages = {name: _opened(browser, name, address) for name, address in addresses.items()}
    took: dict[str, list[dict[str, float]]] = {name: [] for name in pages}
    for _ in range(REPEATS):
        for name, page in pages.items():
            page.reload()
            took[name].append(_timed(page, name))
    for page in pages.values():
        page.context.close()
    return {
        name: Drawn(
            statistics.median(times["first"] for times in all_times) / 1_000,
            statistics.median(times["all"] for times in all_times) / 1_000
            if name == "app"
            else None,
        )
        for name, all_times in took.items()
    }


def _opened(browser: Browser, name: str, address: str) -> Page:
    """A page whose first load has filled the caches of browser and server."""
    page = browser.new_context(viewport=VIEWPORT).new_page()
    page.set_default_timeout(PATIENCE)
    page.add_init_script(WATCH)
    page.goto(address)
    _timed(page, name)
    return page


def _timed(page: Page, name: str) -> dict[str, float]:
    wanted = "all" if name == "app" else "first"
    page.wait_for_function(f"window.seen?.{wanted}", polling=50)
    found: dict[str, float] = page.evaluate("window.seen")
    return found
