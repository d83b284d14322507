"""Which pictures of the app there are, and what is done on the page before each is taken."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from playwright.sync_api import Page

DEBUG = "Where the context changed"
"""Words near the end of the Debug page."""
TRAINS = 3_600_000
"""Milliseconds that a training of a few steps may take."""
SETTLE = 2_500
"""Milliseconds after the last text, for canvases and fonts."""
WIDE, MIDDLE, NARROW = (1440, 900), (1024, 768), (390, 844)


def _still(_: Page) -> None:
    """The page as it opens."""


def _seen(page: Page, text: str) -> None:
    """Scrolls so that some words are at the top."""
    place = page.get_by_text(text).first
    place.wait_for()
    place.evaluate("element => element.scrollIntoView({block: 'start'})")


def _worst(page: Page) -> None:
    page.get_by_role("button", name="Show me the worst one").click()
    page.get_by_text("sampled after").wait_for()
    _seen(page, "What the selected token was sampled from")


def _causes(page: Page) -> None:
    _worst(page)
    page.get_by_role("button", name="What causes this?").click()
    page.get_by_text("Most likely in the true context").wait_for()
    page.locator("button.mwi-number[name=drift]").click()
    _seen(page, "What the selected token was sampled from")


def _tab(name: str, words: str) -> Callable[[Page], None]:
    """Opens a tab of the Debug page and scrolls to it."""

    def act(page: Page) -> None:
        page.get_by_role("tab", name=name).click()
        page.get_by_text(words).first.wait_for()
        page.wait_for_timeout(SETTLE)  # what comes below makes room to scroll
        page.get_by_role("tab", name=name).evaluate(
            "element => { element.style.scrollMarginTop = '70px';"
            " element.scrollIntoView({block: 'start'}); }"
        )

    return act


def _nodes(page: Page) -> None:
    _tab("The eviction tree", "One lane a branch")(page)
    page.get_by_text("nodes and links").click()
    page.get_by_text("One circle a segment").wait_for()


def _coloured(page: Page) -> None:
    """Text and strip by B - A."""
    _tab("B - A", "Download every token as CSV")(page)
    page.get_by_role("button", name="Colour text and strip by B - A").click()
    page.get_by_text("more in B").first.wait_for()
    page.locator(".mw-pane.mask").evaluate("element => element.scrollIntoView({block: 'center'})")


def _branches(page: Page) -> None:
    """The tree as an indented table."""
    page.locator(".mw-stage").focus()
    page.keyboard.press("2")
    page.keyboard.press("t")
    page.get_by_text("indented by branch").wait_for()


def _fix(page: Page) -> None:
    page.get_by_role("button", name="Fix: packed_mask").click()
    page.get_by_text("packed_mask trains every sampled token in its true context").wait_for()


def _run(page: Page) -> None:
    """What is asked before a model runs."""
    page.get_by_role("button", name="Run on a model").click()
    page.get_by_text("Runs in a process of its own").wait_for()


def _trained(page: Page) -> None:
    """A short training of two arms that has ended; the first picture of an app starts it."""
    page.set_default_timeout(TRAINS)
    page.locator(".st-key-demo-tidy button").click()
    page.get_by_text(DEBUG).first.wait_for()
    page.get_by_role("link", name="Train lab").click()
    page.get_by_role("heading", name="Runs").wait_for()
    page.wait_for_timeout(SETTLE)
    if page.get_by_text("No run yet.").is_visible():
        for field, number in (("Steps", "4"), ("Look every", "2")):
            page.get_by_label(field, exact=True).fill(number)
            page.keyboard.press("Enter")
            page.wait_for_timeout(SETTLE)
        for arm in ("replay", "sdcc"):
            page.get_by_role("button", name=f"Remove {arm}").click()
            page.wait_for_timeout(SETTLE)
        page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("This run: done.").wait_for()
    page.get_by_role("heading", name="Before and after").wait_for()
    page.wait_for_timeout(SETTLE)
    page.get_by_role("heading", name="Runs").evaluate(
        "element => element.scrollIntoView({block: 'start'})"
    )


def _leak(page: Page) -> None:
    page.get_by_text("3 Leak").click()
    page.get_by_text("Another simple layout").wait_for()


def _jobs(page: Page) -> None:
    page.get_by_role("button", name="Run on a model").click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("button", name="Cancel these").wait_for()
    folded = page.get_by_test_id("stExpandSidebarButton")  # where the pages find no room on top
    narrow = folded.is_visible()
    if narrow:
        folded.click()
    page.get_by_role("link", name="Jobs").click()
    page.get_by_text("they run one at a time").wait_for()
    if narrow:
        page.get_by_test_id("stSidebarCollapseButton").get_by_role("button").click()
    page.set_default_timeout(TRAINS)  # a job that tells how far it is follows some that are short
    page.get_by_text(re.compile(r"\d of \d")).first.wait_for()


class Screen(NamedTuple):
    """One picture: which app, which page, and what to wait for and do before it is taken."""

    name: str
    trace: str
    page: str
    ready: str
    act: Callable[[Page], None] = _still
    scheme: Literal["light", "dark"] = "light"
    size: tuple[int, int] = WIDE

    @property
    def file(self) -> str:
        """Name, scheme and, if it is not the usual one, width."""
        width = "" if self.size == WIDE else f"-{self.size[0]}"
        return f"{self.name}-{self.scheme}{width}.png"


def _all_ways(screen: Screen) -> list[Screen]:
    """A main page in both schemes at every size."""
    return [
        screen._replace(scheme=scheme, size=size)
        for size in (WIDE, MIDDLE, NARROW)
        for scheme in ("light", "dark")
    ]


def _both(screen: Screen) -> list[Screen]:
    return [screen, screen._replace(scheme="dark")]


CARD = "What later calls quote of what left"
PICK = "Select a row to open it in Debug"
SCREENS = (
    *_all_ways(Screen("debug", "demo", "", DEBUG)),
    *_all_ways(Screen("worst", "demo", "", DEBUG, _worst)),
    *_both(Screen("fix", "demo", "", DEBUG, _fix)),
    *_both(Screen("run", "demo", "", DEBUG, _run)),
    *_both(Screen("junction", "demo", "", DEBUG, _tab(DEBUG, CARD))),
    *_both(Screen("views", "demo", "", DEBUG, _tab("All views", "Drift d in nats"))),
    *_both(Screen("b-minus-a", "demo", "", DEBUG, _tab("B - A", "Download every token as CSV"))),
    *_both(Screen("coloured", "demo", "", DEBUG, _coloured)),
    *_both(Screen("branches", "demo", "", DEBUG, _branches)),
    *_both(Screen("charts", "demo", "", DEBUG, _tab("Drift in charts", "How large it is"))),
    *_both(Screen("tree", "demo", "", DEBUG, _nodes)),
    *_both(Screen("gap", "demo", "", DEBUG, _tab("Gap and SDCC", "What the gap is made of"))),
    *_both(Screen("calls", "demo", "", DEBUG, _tab("Every call", "The rows behind"))),
    *_both(
        Screen(
            "context",
            "demo",
            "",
            DEBUG,
            _tab("The text of a call", "The rows behind the text pane"),
        )
    ),
    *_both(Screen("tokens", "demo", "", DEBUG, _tab("Every sampled token", "Download as CSV"))),
    *_all_ways(Screen("open", "demo", "open", "What it cannot show")),
    *_all_ways(Screen("learn", "demo", "learn", "Every word, class and method", _leak)),
    *_all_ways(Screen("train", "demo", "train", "Train")),
    *_both(Screen("jobs-empty", "demo", "jobs", "Nothing was run.")),
    *_all_ways(Screen("triage", "runs", "triage", PICK)),
    *_all_ways(Screen("stress", "stress.jsonl", "", DEBUG)),
    *_all_ways(Screen("hostile", "hostile.jsonl", "", DEBUG)),
    *_both(Screen("hostile-junction", "hostile.jsonl", "", DEBUG, _tab(DEBUG, CARD))),
    *_all_ways(Screen("empty", "nothing", "", "No rollout is open.")),
    *_all_ways(Screen("error", "weather.jsonl", "", "mwviz cannot show this.")),
    *_both(Screen("first", "first", "", DEBUG)),
    *_both(Screen("causes", "model", "", DEBUG, _causes)),
    *_both(Screen("jobs", "jobs", "", DEBUG, _jobs)),
    Screen("jobs", "jobs", "", DEBUG, _jobs, size=NARROW),
    *_both(Screen("trained", "trained", "open", "What it cannot show", _trained)),
)
"""`demo`, `first`, `model`, `jobs` and `trained` start the app without a file, each with what it
made of its own; `first` as on a first visit."""
