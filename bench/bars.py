"""Measures the app against the bars of its screens and prints a table: bar, value, limit, pass.

    python -m bench.bars [NUMBER ...] [--big]

Drives Chromium over the real app on the stress logs. Bars 9, 10 and 13 run the browser tests that
compare pixels and look for obeyed text. `--big` adds the log of 131 MB to bar 15 (minutes).
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from bench.first_paint import BLANK, drawn
from mwviz import load, serve
from mwviz.analysis import Analysis
from mwviz.compare import Comparison
from mwviz.engine.scores import Floor, Scores
from mwviz.numberpacking import SHIPPED
from mwviz.payload import ID, pack
from mwviz.stress import stress_log
from tests.browser.conftest import CHROMIUM, QUIET, Wire, watch
from tests.browser.panes import ELEMENTS, fiddle, spot
from tests.servers import app_command, free_port, served

ROOT = Path(__file__).parents[1]
PATIENCE = 240_000
"""Milliseconds a page may take: the largest log has millions of tree tokens."""
SETTLE = 900
"""Milliseconds after which a page is quiet; longer than any of its debounces."""
PAUSE = 150
"""Milliseconds in which a pane is drawn anew after its zoom."""
FRAME = 1000 / 60
"""Milliseconds."""
VIEWS = ("rightmost", "replay", "packed_mask")
KB, MB = 1_000, 1e6
BESIDE = {
    "role",
    "role_start",
    "token",
    "vocabulary_id",
    "vocabulary_length",
    "vocabulary_text",
    "drift",
}
"""Sections of a payload that are no part of the mask."""
WIDTHS = {"u8": 1, "u16": 2, "u32": 4, "i32": 4}
"""Bytes of a number once it is unpacked; it travels in fewer."""
SELECTIONS = 150
SESSIONS = 8
HEAP = "() => { window.gc?.(); return performance.memory.usedJSHeapSize; }"
DRAWN = """stage => new Promise(done => {
  const took = [];
  const step = n => {
    if (!n) return done(took);
    stage.dispatchEvent(new KeyboardEvent('keydown', {key: n % 2 ? '+' : '-', bubbles: true}));
    requestAnimationFrame(() => requestAnimationFrame(() => {
      took.push(Number(stage.querySelector('.mw-picture').dataset.milliseconds));
      step(n - 1);
    }));
  };
  step(12);
})"""
"""Milliseconds that the mask took to draw after each of some zooms."""


class Measured(NamedTuple):
    """One line of the table."""

    bar: str
    what: str
    value: str
    limit: str
    passes: bool


@dataclass(slots=True)
class Bench:
    """What the bars share: a browser, a folder of logs, the hosts that any page asked."""

    browser: Browser
    folder: Path
    hosts: set[str] = field(default_factory=set)
    big: bool = False

    def log(self, size: str, seed: int = 7) -> Path:
        """The file of a stress log, written once."""
        path = self.folder / f"{size}-{seed}.jsonl"
        if not path.exists():
            with path.open("w") as file:
                file.writelines(json.dumps(line) + "\n" for line in stress_log(size, seed))
        return path

    @contextmanager
    def app(self, *paths: Path, script: Path | None = None) -> Iterator[Served]:
        """The app on some traces, in a process of its own with its own cache."""
        port = free_port()
        launch = serve.Launch(tuple(map(str, paths)))
        command = app_command(script or serve.entry(), port, launch=launch)
        cache = str(self.folder / "cache")
        with served(
            command, port, self.folder, PYTHONPATH=str(ROOT), XDG_CACHE_HOME=cache
        ) as address:
            yield Served(address, port)

    @contextmanager
    def page(self, address: str, *, drawn: bool = True) -> Iterator[tuple[Page, Wire]]:
        """A page of the app, drawn and quiet."""
        context = self.browser.new_context(viewport={"width": 1440, "height": 900})
        page, wire = context.new_page(), Wire(hosts=self.hosts)
        page.set_default_timeout(PATIENCE)
        page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))
        page.on("websocket", lambda socket: watch(socket, wire))
        page.goto(address)
        if drawn:
            page.locator(".mw-stage canvas").wait_for()
            page.get_by_text("Click a rectangle or a token").wait_for()
            _quiet(page, wire)
        try:
            yield page, wire
        finally:
            context.close()


class Served(NamedTuple):
    """A running app."""

    address: str
    port: int

    def memory(self) -> int:
        """Bytes of resident memory of the process that listens on the port."""
        listing = subprocess.check_output(["ps", "-eo", "rss=,args="], text=True)
        wanted = f"--server.port={self.port}"
        return sum(int(line.split()[0]) * 1024 for line in listing.splitlines() if wanted in line)


def _quiet(page: Page, wire: Wire) -> None:
    """Waits until no run is under way and nothing was exchanged for a while."""
    before = -1
    while before != wire.frames or wire.asked:
        before = wire.frames
        page.wait_for_timeout(SETTLE)


class Cost(NamedTuple):
    """What committing a selection cost."""

    frames: int
    up: int
    down: int
    kept: bool
    """Whether the workbench is the same element as before."""


def _select(page: Page, wire: Wire) -> list[Cost]:
    """Commits two segments by keyboard, also of a log without evictions, and a token by mouse."""
    costs = []
    page.locator(".mw-stage").evaluate("stage => { stage.dataset.probe = 'first' }")
    for keys in (("n", "ArrowDown", "Enter"), ("j", "ArrowUp", "Enter")):
        page.locator(".mw-stage").focus()
        wire.forget()
        for key in keys:
            page.keyboard.press(key)
        _quiet(page, wire)
        costs.append(_cost(page, wire))
    wire.forget()
    page.mouse.click(*spot(page, ".mw-drift", x=0.93))
    _quiet(page, wire)
    costs.append(_cost(page, wire))
    return costs


def _cost(page: Page, wire: Wire) -> Cost:
    kept = page.locator(".mw-stage").get_attribute("data-probe") == "first"
    return Cost(len(wire.sent), max(wire.sent, default=0), sum(wire.received), kept)


def _told(costs: list[Cost]) -> tuple[str, bool]:
    frames, up, down = (max(values) for values in list(zip(*costs, strict=True))[:3])
    kept = all(cost.kept for cost in costs)
    value = f"{frames} frame, {up} B up, {down:,} B down, {0 if kept else 1} remounts"
    return value, frames <= 1 and up <= 500 and down <= 3 * KB and kept and min(
        cost.frames for cost in costs
    ) >= 1


def silence(bench: Bench) -> list[Measured]:
    """Bars 1, 2, 3 and 6 on one opened page of each size."""
    lines, elements = [], []
    for size in ("15k", "150k"):
        with bench.app(bench.log(size)) as app, bench.page(app.address) as (page, wire):
            wire.forget()
            fiddle(page, pause=PAUSE)
            page.wait_for_timeout(SETTLE)
            frames = len(wire.sent) + len(wire.received)
            most = page.locator(".mw").evaluate(ELEMENTS)
            page.emulate_media(color_scheme="dark")
            page.set_viewport_size({"width": 1100, "height": 900})
            page.wait_for_timeout(SETTLE)
            most = max(most, page.locator(".mw").evaluate(ELEMENTS))
            page.set_viewport_size({"width": 1440, "height": 900})
            _quiet(page, wire)
            elements.append(most)
            value, passes = _told(_select(page, wire))
            if size == "150k":
                lines.append(
                    Measured(
                        "1", "frames on hover, zoom, pan, scroll", str(frames), "0", not frames
                    )
                )
                lines.append(
                    Measured(
                        "2", "a committed selection, at most", value, "1, 500 B, 3 kB, 0", passes
                    )
                )
    ratio = elements[1] / elements[0]
    lines.append(
        Measured(
            "6",
            "elements of the workbench, 150k and 15k",
            f"{elements[1]:,}, {ratio:.2f}x",
            "2,000, 1.1x",
            elements[1] <= 2_000 and ratio <= 1.1,
        )
    )
    return lines


def rerun(bench: Bench) -> list[Measured]:
    """Bar 3, on a page with the workbench alone, as the payload must not travel again."""
    script = ROOT / "tests" / "browser" / "demo_page.py"
    with bench.app(script=script) as app, bench.page(app.address, drawn=False) as (page, wire):
        page.get_by_text("nothing selected").wait_for()
        _quiet(page, wire)
        wire.forget()
        page.get_by_role("button", name="run again").click()
        _quiet(page, wire)
        down = sum(wire.received)
    return [
        Measured("3", "a rerun with nothing changed", f"{down:,} B", "3 kB", 0 < down <= 3 * KB)
    ]


def payload(bench: Bench) -> list[Measured]:
    """Bars 4 and 5: the size of what is sent, of logs of which every view is scored."""
    described, lines = [], []
    for size in ("15k", "150k"):
        (analysis,) = load(bench.log(size)).analyses
        tree = analysis.tree
        told = pack(analysis, VIEWS, {name: _compared(analysis, name) for name in VIEWS})
        decoder, sent = analysis.decoder, len(told)
        text = sum(len(decoder.piece(int(token))) for token in tree.ids)
        described.append(_mask(told) / len(tree.start))
        budget = text + 2 * tree.size + 64 * len(tree.start) + SHIPPED * len(tree.token)
        lines.append(
            Measured(
                "5",
                f"payload of {size}, share of its budget",
                f"{sent / MB:.2f} MB, {sent / budget:.2f}",
                "1.00",
                sent <= budget,
            )
        )
    ratio = described[1] / described[0]
    first = Measured(
        "4",
        "mask description a segment, 150k against 15k",
        f"{described[1]:.1f} B, {ratio:.2f}x",
        "64 B, 1.1x",
        described[1] <= 64 and ratio <= 1.1,
    )
    return [first, *lines]


def _compared(analysis: Analysis, view: str) -> Comparison:
    """A view beside the truth, both with made-up numbers of the widest spread."""
    draw = np.random.default_rng(7)
    targets = len(analysis.tree.token)

    def scores(method: str) -> Scores:
        return Scores(
            method=method,
            model="made",
            kernel="none",
            dtype="float32",
            device="cpu",
            logprob=-draw.exponential(3, targets).astype(np.float32),
            entropy=draw.exponential(1, targets).astype(np.float32),
            rank=np.zeros(targets, dtype=np.int32),
            hidden=None,
            floor=Floor(1e-5, 1e-4, 10),
            seconds=0.0,
        )

    return analysis.compared(scores(view), scores("logit_tree"))


def _mask(told: bytes) -> int:
    """Bytes of all that a payload says of segments, rows and junctions, once it is unpacked."""
    (size,) = struct.unpack("<I", told[8:12])
    header = told[12 + ID : 12 + ID + size]
    sections: dict[str, tuple[str, int, int]] = json.loads(header)["sections"]
    return sum(
        WIDTHS[kind] * count
        for name, (kind, _, count) in sections.items()
        if name.split(":")[-1] not in BESIDE
    )


def drawing(bench: Bench) -> list[Measured]:
    """Bar 7: how long the mask takes to draw after a zoom; both sizes in turn, as load changes."""
    sizes = ("15k", "150k")
    took: dict[str, list[float]] = {size: [] for size in sizes}
    with ExitStack() as stack:
        masks = {}
        for size in sizes:
            app = stack.enter_context(bench.app(bench.log(size)))
            page, _ = stack.enter_context(bench.page(app.address))
            masks[size] = page.locator(".mw-mask")
        for _ in range(6):
            for size in sizes:
                took[size] += masks[size].evaluate(DRAWN)
    small, large = (statistics.median(took[size]) for size in sizes)
    return [
        Measured(
            "7",
            "the mask after a zoom: median at 150k; against 15k",
            f"{large:.1f} ms, {large / small:.2f}x",
            f"{FRAME:.1f} ms, 1.5x",
            large <= FRAME and large <= 1.5 * small,
        )
    ]


def first_paint(bench: Bench) -> list[Measured]:
    """Bar 8: from the address to the drawn workbench, warm, against a blank page of the app."""
    script = bench.folder / "blank.py"
    script.write_text(BLANK)
    with bench.app() as app, bench.app(script=script) as empty:
        found = drawn(bench.browser, {"app": app.address, "blank": empty.address})
    first, blank, whole = found["app"].first, found["blank"].first, found["app"].whole
    return [
        Measured(
            "8",
            "first paint against a blank page; the whole page",
            f"{first:.2f} s, {first / blank:.2f}x; {whole:.2f} s",
            "1.3x",
            first <= 1.3 * blank,
        )
    ]


def growth(bench: Bench) -> list[Measured]:
    """Bar 11: what many selections and sessions cost in memory."""
    with bench.app(bench.log("150k")) as app, ExitStack() as stack:
        page, wire = stack.enter_context(bench.page(app.address))
        stage = page.locator(".mw-stage")
        stage.focus()
        for _ in range(5):
            page.keyboard.press("j")
            page.keyboard.press("Enter")
            page.wait_for_timeout(150)
        _quiet(page, wire)
        heap, before = page.evaluate(HEAP), app.memory()
        for number in range(SELECTIONS):
            page.keyboard.press("j" if number % 40 < 20 else "k")
            page.keyboard.press("Enter")
            page.wait_for_timeout(120)
        _quiet(page, wire)
        after, one = page.evaluate(HEAP) / heap, app.memory()
        for _ in range(SESSIONS - 1):
            stack.enter_context(bench.page(app.address))
        many = app.memory()
    return [
        Measured("11", f"{SELECTIONS} selections: heap", f"{after:.2f}x", "1.4x", after <= 1.4),
        Measured(
            "11",
            f"{SELECTIONS} selections: server",
            _grown(before, one),
            "1.15x",
            one <= 1.15 * before,
        ),
        Measured(
            "11", f"{SESSIONS} sessions: server", _grown(one, many), "1.15x", many <= 1.15 * one
        ),
    ]


def _grown(before: int, after: int) -> str:
    return f"{before / MB:.0f} to {after / MB:.0f} MB, {after / before:.2f}x"


def jobs(bench: Bench) -> list[Measured]:
    """Bar 12: reruns beside a running job, cancelling it, silence after it."""
    script = bench.folder / "job_page.py"
    script.write_text(JOB_PAGE)
    with bench.app(script=script) as app, bench.page(app.address, drawn=False) as (page, wire):
        page.get_by_text("runs: 1").wait_for()
        idle = _latency(page)
        page.get_by_role("button", name="start").click()
        page.get_by_text("endless").first.wait_for()
        busy = _latency(page)
        page.get_by_role("button", name="Cancel").click()
        start = time.perf_counter()
        page.get_by_text("The job was cancelled.").wait_for()
        seen = time.perf_counter() - start
        _quiet(page, wire)
        wire.forget()
        page.wait_for_timeout(4 * SETTLE)
        frames = len(wire.sent) + len(wire.received)
    return [
        Measured(
            "12", "rerun beside a job against idle", f"{busy / idle:.2f}x", "2x", busy <= 2 * idle
        ),
        Measured(
            "12", "cancel is seen after", f"{seen:.2f} s", "2 polls of 0.5 s + 1 step", seen <= 1.6
        ),
        Measured("12", "frames after it ended", str(frames), "0", not frames),
    ]


JOB_PAGE = """
import streamlit as st
from mwviz.jobs import Job
from mwviz_app import state, widgets
from mwviz_app.jobs import Worker

@st.cache_resource
def worker():
    return Worker(["tests.app.fake_jobs"])

state.worker = worker
st.session_state["n"] = st.session_state.get("n", 0) + 1
st.text(f"runs: {st.session_state['n']}")
st.button("again")
if st.button("start"):
    worker().submit(Job("endless", "endless", "log", "r", "endless"))
widgets.show_jobs(list(worker().states()))
"""


def _latency(page: Page) -> float:
    """Median seconds from a click to the page it makes."""
    took = []
    for _ in range(7):
        count = int(page.get_by_text("runs: ").inner_text().split()[-1])
        start = time.perf_counter()
        page.get_by_role("button", name="again").click()
        page.wait_for_function(
            "n => +(document.body.innerText.match(/runs: (\\d+)/)?.[1] ?? 0) > n",
            arg=count,
        )
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def proved(bar: str, what: str, path: str, wanted: str) -> Callable[[Bench], list[Measured]]:
    """A bar that browser tests prove; they also run with all the others."""

    def run(_: Bench) -> list[Measured]:
        command = [sys.executable, "-m", "pytest", "-q", path, "-k", wanted]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        last = (done.stdout.strip().splitlines() or ["nothing ran"])[-1]
        told = re.sub(r", \d+ deselected", "", last.split(" in ")[0])
        return [Measured(bar, what, told, "all pass", done.returncode == 0)]

    return run


def large(bench: Bench) -> list[Measured]:
    """Bar 15: unusual shapes open within bars 1, 2 and 6."""
    lines = []
    sizes = ["branchy", "tail", *(["131 MB"] if bench.big else [])]
    for size in sizes:
        path = _repeating(bench) if size == "131 MB" else bench.log(size)
        with bench.app(path) as app:
            idle = app.memory()
            start = time.perf_counter()
            with bench.page(app.address) as (page, wire):
                opened = time.perf_counter() - start
                used = (app.memory() - idle) / MB
                wire.forget()
                fiddle(page, pause=PAUSE)
                page.wait_for_timeout(SETTLE)
                frames = len(wire.sent) + len(wire.received)
                elements = page.locator(".mw").evaluate(ELEMENTS)
                value, passes = _told(_select(page, wire))
        told = f"{frames} frames; {value}; {elements:,} elements; {opened:.0f} s; {used:,.0f} MB"
        small = size != "131 MB" or used < 300
        good = not frames and passes and elements <= 2_000 and small
        limit = "bars 1, 2, 6" + ("; 300 MB" if size == "131 MB" else "")
        lines.append(Measured("15", f"{size} opens", told, limit, good))
    return lines


def _repeating(bench: Bench) -> Path:
    """131 MB: 280 calls, each request repeating all before it."""
    path = bench.folder / "repeating.jsonl"
    if not path.exists():
        messages: list[dict[str, str]] = [{"role": "system", "content": "You are an agent. " * 20}]
        with path.open("w") as file:
            for call in range(280):
                messages.append(
                    {"role": "user", "content": f"step {call}: " + f"fact {call} " * 290}
                )
                said = {"role": "assistant", "content": f"done {call} " * 30}
                file.write(json.dumps({"messages": messages, "completion": [said]}) + "\n")
                messages.append(said)
    return path


def hosts(bench: Bench) -> list[Measured]:
    """Bar 14: whom any page of this run asked; measured last."""
    other = sorted({host for host in bench.hosts if not host.startswith("127.0.0.1")})
    return [Measured("14", "requests to other hosts", ", ".join(other) or "0", "0", not other)]


PANES = "tests/browser/test_panes.py"
BARS: dict[tuple[str, ...], Callable[[Bench], list[Measured]]] = {
    ("1", "2", "6"): silence,
    ("3",): rerun,
    ("4", "5"): payload,
    ("7",): drawing,
    ("8",): first_paint,
    ("9",): proved("9", "mask pixels against the Python reference", PANES, "pixels"),
    ("10",): proved("10", "views follow within three frames", PANES, "three_frames"),
    ("11",): growth,
    ("12",): jobs,
    ("13",): proved("13", "hostile text in every panel", "tests/browser", "hostile or obeyed"),
    ("15",): large,
    ("14",): hosts,
}


def main() -> int:
    """Measures the bars that were asked for, or all; 1 if one is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("bars", nargs="*", help="numbers of the bars; none measures all")
    parser.add_argument("--big", action="store_true", help="also open a log of 131 MB")
    options = parser.parse_args()
    lines: list[Measured] = []
    with (
        tempfile.TemporaryDirectory(prefix="mwviz-bars-") as folder,
        sync_playwright() as playwright,
    ):
        args = [*QUIET, "--enable-precise-memory-info", "--js-flags=--expose-gc"]
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=args)
        bench = Bench(browser, Path(folder), big=options.big)
        for numbers, measure in BARS.items():
            if not options.bars or set(numbers) & set(options.bars):
                lines += measure(bench)
                print(
                    *(f"{line.bar}: {line.value}" for line in lines[-3:]), sep="\n", file=sys.stderr
                )
        browser.close()
    print("| bar | what | value | limit | pass |\n| --- | --- | --- | --- | --- |")
    for line in sorted(lines, key=lambda line: int(line.bar)):
        passes = "yes" if line.passes else "**no**"
        print(f"| {line.bar} | {line.what} | {line.value} | {line.limit} | {passes} |")
    return int(not all(line.passes for line in lines))


if __name__ == "__main__":
    raise SystemExit(main())
