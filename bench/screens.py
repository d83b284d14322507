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
from pathlib import Path

import numpy as np
import platformdirs
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from bench.screen_list import DEBUG, SCREENS, SETTLE, Screen
from bench.screen_traces import TRACES
from mwviz import serve
from tests.browser.conftest import CHROMIUM, QUIET
from tests.servers import app_command, free_port, served

FOLDER = Path(__file__).parents[1] / "docs" / "screens"
PATIENCE = 240_000
"""Milliseconds a page may take; the first one reads a trace of 150k tokens."""
COMPLETE = """() => !document.querySelector('[data-testid="stSkeleton"]')
  && ![...document.querySelectorAll('[data-testid="stPlotlyChart"]')].some(
    (chart) => chart.offsetParent && !chart.querySelector('.main-svg'))"""
"""Whether all that the page promises is there."""
LARGEST, MOST = 260_000, 6_000_000
"""Bytes of one picture, and of all together."""
COLOURS = 256
"""Colours of a picture, the most frequent: screens have few, and files stay small."""


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
    own = {"XDG_CACHE_HOME": str(cache), "XDG_DATA_HOME": str(cache)}
    with served(command, port, folder, **own) as address:
        for screen in screens:
            path = FOLDER / screen.file
            _picture(browser, f"{address}/{screen.page}", screen, path)
            print(f"{screen.file}: {path.stat().st_size:,} bytes", flush=True)


def _cache(folder: Path, *, visited: bool) -> Path:
    """A cache of its own, without scores but with the user's models.

    Marks of a first visit are put away if visited.
    """
    own = folder / "mwviz"
    for made in ("scores", "training"):
        shutil.rmtree(own / made, ignore_errors=True)
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
    """The picture in its most frequent colours, the others as the nearest of these."""
    whole = np.asarray(Image.open(io.BytesIO(shot)).convert("RGB"))
    colours, place, counts = np.unique(
        whole.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True
    )
    kept = colours[np.argsort(-counts, kind="stable")[:COLOURS]]
    apart = (colours[:, None].astype(np.int64) - kept[None]) ** 2
    nearest = apart.sum(axis=2).argmin(axis=1).astype(np.uint8)
    few = Image.fromarray(nearest[place].reshape(whole.shape[:2]))
    few.putpalette(kept.tobytes())
    few.save(path, optimize=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
