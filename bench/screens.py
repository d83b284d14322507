"""Takes the pictures of `docs/screens/`: every page, light and dark, wide and narrow.

python -m bench.screens [NAME ...]     a name stands for all that start with it
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import platformdirs
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from mwviz import serve
from mwviz.demos import DEMOS, write_stress
from mwviz.stress import in_words, stress_log
from tests.browser.conftest import CHROMIUM, QUIET
from tests.servers import app_command, free_port, served

FOLDER = Path(__file__).parents[1] / "docs" / "screens"
PATIENCE = 240_000
"""Milliseconds a page may take; the first one reads a trace of 150k tokens."""
SETTLE = 2_500
"""Milliseconds after the last text, for canvases and fonts."""
COMPLETE = """() => !document.querySelector('[data-testid="stSkeleton"]')
  && ![...document.querySelectorAll('[data-testid="stPlotlyChart"]')].some(
    (chart) => chart.offsetParent && !chart.querySelector('.main-svg'))"""
"""Whether all that the page promises is there."""
DEBUG = "Where the context changed"
"""Words near the end of the Debug page."""
LARGEST, MOST = 260_000, 6_000_000
"""Bytes of one picture, and of all together."""
COLOURS = 200
"""Colours of a picture: screens have few, and files stay small."""
WIDE, MIDDLE, NARROW = (1440, 900), (1024, 768), (390, 844)
HOSTILE = (
    "<img src=x onerror=alert(1)> <script>alert(2)</script> [click](javascript:alert(3)) "
    "\x1b[31m red \u202e desrever \u2066 :red[x] $x^2$ 検索 👩‍💻 "
)


def _hostile(path: Path) -> None:
    """Text that a careless page would obey, before, across and after an eviction."""
    user, tool, more = (f"{name} {HOSTILE}" for name in ("Question", "Result", "More"))
    note = f"Summary: {HOSTILE}"
    prompts = ([user], [user, tool * 3], [user, note], [user, note, more])
    with path.open("w") as file:
        for call, prompt in enumerate(prompts):
            messages = [{"role": "user", "content": content} for content in prompt]
            said = [{"role": "assistant", "content": f"Answer {call} {HOSTILE}"}]
            file.write(json.dumps({"messages": messages, "completion": said}) + "\n")


def _unknown(path: Path) -> None:
    path.write_text('{"weather": "fair"}\n{"weather": "rain"}\n')


def _folder(path: Path) -> None:
    """A folder of rollouts: the demos, smaller and hostile ones, and a broken one."""
    path.mkdir(exist_ok=True)
    for demo in DEMOS:
        (path / demo.path.name).write_bytes(demo.path.read_bytes())
    _hostile(path / "hostile.jsonl")
    _unknown(path / "weather.jsonl")
    for seed in range(6):
        lines = in_words(stress_log("15k", seed))
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (path / f"search-{seed}.jsonl").write_text(text)


def _nothing(path: Path) -> None:
    """A folder without a trace."""
    path.mkdir(exist_ok=True)


TRACES: dict[str, Callable[[Path], None]] = {
    "stress.jsonl": write_stress,
    "hostile.jsonl": _hostile,
    "weather.jsonl": _unknown,
    "runs": _folder,
    "nothing": _nothing,
}
"""What writes each trace; `demo` starts the app without one."""


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
    page.get_by_role("button", name="drift").first.click()
    _seen(page, "What the selected token was sampled from")


def _tab(name: str, words: str) -> Callable[[Page], None]:
    """Opens a tab of the Debug page and scrolls to it."""

    def act(page: Page) -> None:
        page.get_by_role("tab", name=name).click()
        page.get_by_text(words).first.wait_for()
        page.get_by_role("tab", name=name).evaluate(
            "element => element.scrollIntoView({block: 'start'})"
        )
        page.mouse.wheel(0, -70)

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


def _leak(page: Page) -> None:
    page.get_by_text("3 Leak").click()
    page.get_by_text("Another simple layout").wait_for()


def _jobs(page: Page) -> None:
    page.get_by_role("button", name="Run on a model").click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("waiting for the jobs before it").first.wait_for()
    folded = page.get_by_test_id("stExpandSidebarButton")  # where the pages find no room on top
    narrow = folded.is_visible()
    if narrow:
        folded.click()
    page.get_by_role("link", name="Jobs").click()
    page.get_by_text("they run one at a time").wait_for()
    if narrow:
        page.get_by_test_id("stSidebarCollapseButton").get_by_role("button").click()
    page.get_by_text("loading the model").wait_for(state="detached")


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
    *_both(Screen("junction", "demo", "", DEBUG, _tab(DEBUG, CARD))),
    Screen("views", "demo", "", DEBUG, _tab("All views", "Drift d in nats")),
    *_both(Screen("b-minus-a", "demo", "", DEBUG, _tab("B - A", "Download every token as CSV"))),
    *_both(Screen("coloured", "demo", "", DEBUG, _coloured)),
    Screen("branches", "demo", "", DEBUG, _branches),
    *_both(Screen("charts", "demo", "", DEBUG, _tab("Drift in charts", "How large it is"))),
    *_both(Screen("tree", "demo", "", DEBUG, _nodes)),
    Screen("gap", "demo", "", DEBUG, _tab("Gap and SDCC", "What the gap is made of")),
    *_both(Screen("calls", "demo", "", DEBUG, _tab("Every call", "The rows behind"))),
    Screen("tokens", "demo", "", DEBUG, _tab("Every sampled token", "Download as CSV")),
    *_all_ways(Screen("open", "demo", "open", "What it cannot show")),
    *_all_ways(Screen("learn", "demo", "learn", "Every word, class and method", _leak)),
    *_all_ways(Screen("train", "demo", "train", "Train")),
    *_both(Screen("jobs-empty", "demo", "jobs", "Nothing was run.")),
    *_all_ways(Screen("triage", "runs", "triage", PICK)),
    *_all_ways(Screen("stress", "stress.jsonl", "", DEBUG)),
    *_all_ways(Screen("hostile", "hostile.jsonl", "", DEBUG)),
    Screen("hostile-junction", "hostile.jsonl", "", DEBUG, _tab(DEBUG, CARD)),
    *_all_ways(Screen("empty", "nothing", "", "No rollout is open.")),
    *_all_ways(Screen("error", "weather.jsonl", "", "mwviz cannot show this.")),
    Screen("first", "first", "", DEBUG),
    *_both(Screen("causes", "model", "", DEBUG, _causes)),
    *_both(Screen("jobs", "jobs", "", DEBUG, _jobs)),
    Screen("jobs", "jobs", "", DEBUG, _jobs, size=NARROW),
)
"""`demo`, `first`, `model` and `jobs` start the app without a file; `first` as on a first visit."""


def main(names: list[str]) -> int:
    """Takes the named pictures, or all; says their sizes, and 1 if they are too large."""
    by_trace: dict[str, list[Screen]] = defaultdict(list)
    for screen in SCREENS:
        if not names or screen.file.startswith(tuple(names)):
            by_trace[screen.trace].append(screen)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=QUIET)
        for trace, screens in by_trace.items():
            _take(browser, trace, screens)
        browser.close()
    sizes = [path.stat().st_size for path in FOLDER.glob("*.png")]
    print(f"{len(sizes)} pictures, {sum(sizes):,} bytes")
    return int(max(sizes, default=0) > LARGEST or sum(sizes) > MOST)


def _take(browser: Browser, trace: str, screens: list[Screen]) -> None:
    """The pictures of one running app."""
    folder = Path(tempfile.gettempdir()) / "mwviz-screens"
    folder.mkdir(exist_ok=True)
    launch = serve.Launch()
    if trace in TRACES:
        named = folder / trace
        TRACES[trace](named)
        launch = serve.Launch((str(named),))
    port = free_port()
    command = app_command(serve.entry(), port, launch=launch)
    cache = _cache(folder / "cache" / trace, visited=trace != "first")
    with served(command, port, folder, XDG_CACHE_HOME=str(cache)) as address:
        for screen in screens:
            path = FOLDER / screen.file
            _picture(browser, f"{address}/{screen.page}", screen, path)
            print(f"{screen.file}: {path.stat().st_size:,} bytes", flush=True)


def _cache(folder: Path, *, visited: bool) -> Path:
    """A cache of its own, without scores but with the user's models.

    Marks of a first visit are put away if visited.
    """
    own = folder / "mwviz"
    shutil.rmtree(own / "scores", ignore_errors=True)
    own.mkdir(parents=True, exist_ok=True)
    (own / "app.json").write_text(json.dumps({"coached": visited}))
    models = Path(platformdirs.user_cache_dir("mwviz", appauthor=False)) / "models"
    if models.exists() and not (own / "models").exists():
        (own / "models").symlink_to(models)
    return folder


def _picture(browser: Browser, address: str, screen: Screen, path: Path) -> None:
    width, height = screen.size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=screen.scheme
    )
    page = context.new_page()
    page.on("pageerror", lambda error: print(f"{screen.file}: {error}"))
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    page.get_by_text(screen.ready).first.wait_for()
    if screen.ready == DEBUG:
        page.locator(".mw-stage").wait_for()
    _settle(page)
    screen.act(page)
    _settle(page)
    _save(page.screenshot(), path)
    context.close()


def _settle(page: Page) -> None:
    """Waits until nothing in sight is a placeholder any more, charts are drawn, and a while."""
    page.mouse.move(2, 400)  # off every button and drawing
    page.wait_for_timeout(SETTLE)
    page.wait_for_function(COMPLETE)
    page.wait_for_timeout(SETTLE)


def _save(shot: bytes, path: Path) -> None:
    """The picture with few colours, none of them mixed from dots."""
    whole = Image.open(io.BytesIO(shot)).convert("RGB")
    few = whole.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
