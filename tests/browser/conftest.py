from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, WebSocket, expect, sync_playwright
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests.servers import app_command, free_port, served

CHROMIUM = Path("/usr/bin/chromium")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
QUIET += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
PATIENCE = 120_000  # milliseconds; what must come is waited for, however busy the machine is
QUIET_FOR = 500  # milliseconds by the page's own clock; longer than any of its debounces
SETTLED = f"""() => new Promise(done => setTimeout(
  () => requestAnimationFrame(() => requestAnimationFrame(done)), {QUIET_FOR}))"""
"""In the page, whose timers fire in the order in which they are due: its debounces come first."""


@dataclass(slots=True)
class Wire:
    """What a page exchanged with its server, and which hosts it asked."""

    sent: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    scripts_failed: list[str] = field(default_factory=list)
    frames: int = 0
    """Both ways, since the page was opened."""
    asked: bool = False
    """Whether a run was asked for that has not ended."""
    begun: bool = False
    """Whether a run began since one was asked for last."""
    again: bool = False
    """Whether the last run ended early because another follows."""

    def forget(self) -> None:
        """Counts from here."""
        self.sent.clear()
        self.received.clear()

    def send(self, frame: bytes | str) -> None:
        self.frames += 1
        self.sent.append(len(frame))
        if isinstance(frame, bytes) and BackMsg.FromString(frame).HasField("rerun_script"):
            self.asked, self.begun = True, False

    def receive(self, frame: bytes | str) -> None:
        self.frames += 1
        self.received.append(len(frame))
        if isinstance(frame, str):
            return
        told = ForwardMsg.FromString(frame)
        kind = told.WhichOneof("type")
        if kind == "new_session":
            self.begun, self.again = True, False
        elif kind == "script_finished":
            self.again = told.script_finished == ForwardMsg.FINISHED_EARLY_FOR_RERUN
        elif kind == "session_status_changed" and not told.session_status_changed.script_is_running:
            self.asked = self.asked and (self.again or not self.begun)


WIRES: dict[Page, Wire] = {}
"""What each page that is open exchanged."""


def at_rest(page: Page) -> None:
    """Waits until the page has done what it was told: what it puts off, its runs, its drawing."""
    wire = WIRES[page]
    until = time.monotonic() + PATIENCE / 1000
    while True:
        before = wire.frames
        page.evaluate(SETTLED)
        if wire.frames == before and not wire.asked:
            return
        assert time.monotonic() < until, f"the page is never at rest: {wire}"


HERE = Path(__file__).parent

Open = Callable[[str], tuple[Page, Wire]]
"""Opens an address in a page of its own, watched."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.skip(f"needs {CHROMIUM}: apt-get install chromium")
    with sync_playwright() as playwright:
        expect.set_options(timeout=PATIENCE)
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=QUIET)
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Opens an address; at the end, no page may have asked another host or thrown an error."""
    wires: list[Wire] = []

    def open_address(address: str) -> tuple[Page, Wire]:
        context = browser.new_context(
            viewport={"width": 1440, "height": 900}, color_scheme="light", device_scale_factor=1
        )
        page, wire = context.new_page(), Wire()
        page.set_default_timeout(PATIENCE)
        wires.append(wire)
        WIRES[page] = wire
        page.on("request", lambda request: wire.hosts.add(request.url.split("/")[2]))
        page.on("pageerror", lambda error: wire.scripts_failed.append(str(error)))
        page.on("websocket", lambda websocket: watch(websocket, wire))
        page.goto(address)
        return page, wire

    yield open_address
    for context in browser.contexts:
        context.close()
    WIRES.clear()
    for wire in wires:
        assert {host.split(":")[0] for host in wire.hosts} == {"127.0.0.1"}
        assert wire.scripts_failed == []


def watch(websocket: WebSocket, wire: Wire) -> None:
    """Has `wire` count what a connection of a page carries."""
    wire.hosts.add(websocket.url.split("/")[2])
    websocket.on("framesent", lambda frame: wire.send(frame))
    websocket.on("framereceived", lambda frame: wire.receive(frame))


def serve_panes(folder: Path) -> Iterator[str]:
    """Address of the page that mounts the workbench alone, on the traces of a folder."""
    port = free_port()
    command = app_command(HERE / "demo_page.py", port)
    told = {"PYTHONPATH": str(HERE.parents[1]), "TRACES": str(folder)}
    with served(command, port, folder, **told) as running:
        yield running
