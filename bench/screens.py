"""Takes the pictures of `docs/screens/`: every page as a user sees it, 1440 x 900.

python -m bench.screens [NAME ...]
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

from bench.workloads.stress import stress_log
from mwviz import serve
from mwviz.demos import DEMOS
from tests.browser.conftest import CHROMIUM, QUIET
from tests.servers import app_command, free_port, served

FOLDER = Path(__file__).parents[1] / "docs" / "screens"
PATIENCE = 240_000
"""Milliseconds a page may take; the first one reads a trace of 150k tokens."""
SETTLE = 2_500
"""Milliseconds after the last text, for canvases and fonts."""
DEBUG = "Where the context changed"
"""Words near the end of the Debug page."""
LARGEST = 300_000
"""Bytes of one picture."""
HOSTILE = (
    "<img src=x onerror=alert(1)> <script>alert(2)</script> [click](javascript:alert(3)) "
    "\x1b[31m red \u202e desrever \u2066 :red[x] $x^2$ 検索 👩‍💻 "
)


def _stress(path: Path) -> None:
    with path.open("w") as file:
        file.writelines(json.dumps(line) + "\n" for line in stress_log("150k"))


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
        lines = stress_log("15k", seed)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (path / f"search-{seed}.jsonl").write_text(text)


TRACES: dict[str, Callable[[Path], None]] = {
    "stress.jsonl": _stress,
    "hostile.jsonl": _hostile,
    "weather.jsonl": _unknown,
    "runs": _folder,
}
"""What writes each trace; `demo` starts the app without one."""


def _still(_: Page) -> None:
    """The page as it opens."""


def _worst(page: Page) -> None:
    page.get_by_role("button", name="Show me the worst one").click()
    page.get_by_text("sampled after").wait_for()
    heading = page.get_by_text("What the selected token was sampled from")
    heading.evaluate("element => element.scrollIntoView({block: 'start'})")


def _leak(page: Page) -> None:
    page.get_by_text("3 Leak").click()
    page.get_by_text("Another simple layout").wait_for()


def _jobs(page: Page) -> None:
    page.get_by_role("button", name="Run on a model").click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("waiting for the jobs before it").first.wait_for()
    page.get_by_role("link", name="Jobs").click()
    page.get_by_text("they run one at a time").wait_for()
    page.get_by_text("loading the model").wait_for(state="detached")


class Screen(NamedTuple):
    """One picture: which app, which page, and what to wait for and do before it is taken."""

    name: str
    trace: str
    page: str
    ready: str
    act: Callable[[Page], None] = _still
    scheme: Literal["light", "dark"] = "light"


SCREENS = (
    Screen("debug-light", "demo", "", DEBUG),
    Screen("debug-dark", "demo", "", DEBUG, scheme="dark"),
    Screen("worst-light", "demo", "", DEBUG, _worst),
    Screen("open-light", "demo", "open", "What it cannot show"),
    Screen("triage-light", "runs", "triage", "Select a row to open it in Debug"),
    Screen("jobs-light", "demo", "", DEBUG, _jobs),
    Screen("learn-light", "demo", "learn", "Every word, class and method", _leak),
    Screen("stress-light", "stress.jsonl", "", DEBUG),
    Screen("hostile-light", "hostile.jsonl", "", DEBUG),
    Screen("error-light", "weather.jsonl", "", "mwviz cannot show this."),
)


def main(names: list[str]) -> int:
    """Takes the named pictures, or all; says their sizes, and 1 if one is too large."""
    by_trace: dict[str, list[Screen]] = defaultdict(list)
    for screen in SCREENS:
        if not names or screen.name in names:
            by_trace[screen.trace].append(screen)
    FOLDER.mkdir(parents=True, exist_ok=True)
    sizes = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=QUIET)
        for trace, screens in by_trace.items():
            sizes += _take(browser, trace, screens)
        browser.close()
    return int(max(sizes, default=0) > LARGEST)


def _take(browser: Browser, trace: str, screens: list[Screen]) -> list[int]:
    """Bytes of each picture of one running app."""
    sizes = []
    folder = Path(tempfile.gettempdir()) / "mwviz-screens"
    folder.mkdir(exist_ok=True)
    launch = serve.Launch()
    if trace in TRACES:
        named = folder / trace
        TRACES[trace](named)
        launch = serve.Launch((str(named),))
    port = free_port()
    with served(app_command(serve.entry(), port, launch=launch), port, folder) as address:
        for screen in screens:
            path = FOLDER / f"{screen.name}.png"
            _picture(browser, f"{address}/{screen.page}", screen, path)
            sizes.append(path.stat().st_size)
            print(f"{screen.name}: {sizes[-1]:,} bytes", flush=True)
    return sizes


def _picture(browser: Browser, address: str, screen: Screen, path: Path) -> None:
    context = browser.new_context(
        viewport={"width": 1440, "height": 900}, color_scheme=screen.scheme
    )
    page = context.new_page()
    page.on("pageerror", lambda error: print(f"{screen.name}: {error}"))
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    page.get_by_text(screen.ready).first.wait_for()
    if screen.ready == DEBUG:
        page.locator(".mw-stage").wait_for()
    screen.act(page)
    page.wait_for_timeout(SETTLE)
    page.screenshot(path=path)
    context.close()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
