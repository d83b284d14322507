"""Bars of the screens that need no clock, on the whole app: unusual shapes, and memory.

`python -m bench.bars` measures them on the full logs, and the memory that the system sees.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from mwviz import serve
from mwviz.stress import stress_log
from tests.browser.conftest import Open, Wire, at_rest
from tests.browser.panes import ELEMENTS, STAGES, fiddle
from tests.servers import app_command, free_port, served

pytestmark = pytest.mark.browser

SELECTIONS, SESSIONS = 40, 8
PATIENCE = 120  # seconds until a server has counted
COUNTS = """
import gc, os, signal, tracemalloc

def count(*_):
    gc.collect()
    with open("live.new", "w") as file:
        file.write(str(tracemalloc.get_traced_memory()[0]))
    os.replace("live.new", "live")

tracemalloc.start()
signal.signal(signal.SIGUSR1, count)
"""
"""A `sitecustomize` of Python: counts the bytes of its live objects when it is told to."""


def repeating() -> Iterator[dict[str, Any]]:
    """Calls whose requests repeat all before them, message by message."""
    messages: list[dict[str, str]] = [{"role": "system", "content": "You are an agent. " * 20}]
    for call in range(60):
        messages.append({"role": "user", "content": f"step {call}: " + f"fact {call} " * 290})
        said = {"role": "assistant", "content": f"done {call} " * 30}
        yield {"messages": messages, "completion": [said]}
        messages.append(said)


SHAPES: dict[str, Callable[[], Iterable[dict[str, Any]]]] = {
    "branchy": lambda: islice(stress_log("branchy"), 2_000),
    "tail": lambda: islice(stress_log("tail"), 60),
    "repeating": repeating,
}
"""Logs of the bar, with as many calls as are enough to have the shape."""


def opened(
    folder: Path, lines: Iterable[dict[str, Any]], port: int, **environment: str
) -> Iterator[str]:
    """The app on a log, with a cache of its own."""
    path = folder / "run.jsonl"
    with path.open("w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    command = app_command(serve.entry(), port, launch=serve.Launch((str(path),)))
    with served(command, port, folder, XDG_CACHE_HOME=str(folder), **environment) as address:
        yield address


@pytest.fixture(params=SHAPES)
def shaped(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield from opened(tmp_path, SHAPES[request.param](), free_port())


def drawn(page: Page) -> None:
    page.locator(".mw-stage canvas").wait_for()
    page.get_by_text("Click a rectangle or a token").wait_for()
    at_rest(page)


def select(page: Page, wire: Wire, *keys: str) -> None:
    """Commits what keys point at: one small message, a small answer, the same drawing."""
    page.mouse.move(2, 400)  # what the page moves under a pointer is pointed at anew, instead
    page.locator(".mw-stage").focus()
    at_rest(page)
    wire.forget()
    for key in keys:
        page.keyboard.press(key)
    at_rest(page)
    assert len(wire.sent) == 1
    assert wire.sent[0] <= 500
    assert sum(wire.received) <= 3_000
    assert page.locator(".mw-stage").get_attribute("data-probe") == "first"


def test_unusual_shapes_keep_silent_small_and_few(open_page: Open, shaped: str) -> None:
    page, wire = open_page(shaped)
    drawn(page)
    for stage in STAGES:
        expect(page.locator(stage)).to_be_visible()
    wire.forget()
    fiddle(page)
    at_rest(page)
    assert (wire.sent, wire.received) == ([], [])
    assert page.locator(".mw").evaluate(ELEMENTS) <= 2_000
    page.locator(".mw-stage").evaluate("stage => { stage.dataset.probe = 'first' }")
    select(page, wire, "n", "ArrowDown", "Enter")
    select(page, wire, "j", "ArrowUp", "Enter")


def live(port: int, folder: Path) -> int:
    """Bytes of live objects of the app that listens on a port, run in a folder with `COUNTS`."""
    listing = subprocess.check_output(["ps", "-wweo", "pid=,args="], text=True)
    [mine] = [line for line in listing.splitlines() if f"--server.port={port}" in line]
    told = folder / "live"
    told.unlink(missing_ok=True)
    os.kill(int(mine.split()[0]), signal.SIGUSR1)
    until = time.monotonic() + PATIENCE
    while not told.exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    return int(told.read_text())


def heap(page: Page) -> float:
    """Bytes that live objects of a page take."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used: float = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return used


def test_selections_and_sessions_leave_memory_as_it_was(open_page: Open, tmp_path: Path) -> None:
    port, counts = free_port(), tmp_path / "counts"
    counts.mkdir()
    (counts / "sitecustomize.py").write_text(COUNTS)
    for address in opened(tmp_path, stress_log("15k"), port, PYTHONPATH=str(counts)):
        page, _ = open_page(address)
        drawn(page)

        def choose(number: int, page: Page = page) -> None:
            page.keyboard.press("j" if number % 40 < 20 else "k")
            page.keyboard.press("Enter")
            at_rest(page)

        page.locator(".mw-stage").focus()
        for number in range(5):
            choose(number)
        before, small = heap(page), live(port, tmp_path)
        for number in range(SELECTIONS):
            choose(number)
        assert heap(page) <= 1.4 * before
        one = live(port, tmp_path)
        assert one <= 1.05 * small
        for _ in range(SESSIONS - 1):
            drawn(open_page(address)[0])
        assert live(port, tmp_path) <= 1.05 * one
