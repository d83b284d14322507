from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, WebSocket, expect, sync_playwright

from tests.servers import app_command, free_port, served

CHROMIUM = Path("/usr/bin/chromium")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
QUIET += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
PATIENCE = 120_000  # milliseconds; what must come is waited for, however busy the machine is
SETTLE = 700  # milliseconds; longer than any debounce of the page


@dataclass(slots=True)
class Wire:
    """What a page exchanged with its server, and which hosts it asked."""

    sent: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    scripts_failed: list[str] = field(default_factory=list)

    def forget(self) -> None:
        """Counts from here."""
        self.sent.clear()
        self.received.clear()


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
        page.on("request", lambda request: wire.hosts.add(request.url.split("/")[2]))
        page.on("pageerror", lambda error: wire.scripts_failed.append(str(error)))
        page.on("websocket", lambda websocket: _count(websocket, wire))
        page.goto(address)
        return page, wire

    yield open_address
    for context in browser.contexts:
        context.close()
    for wire in wires:
        assert {host.split(":")[0] for host in wire.hosts} == {"127.0.0.1"}
        assert wire.scripts_failed == []


def _count(websocket: WebSocket, wire: Wire) -> None:
    wire.hosts.add(websocket.url.split("/")[2])
    websocket.on("framesent", lambda frame: wire.sent.append(len(frame)))
    websocket.on("framereceived", lambda frame: wire.received.append(len(frame)))


def serve_panes(folder: Path) -> Iterator[str]:
    """Address of the page that mounts the workbench alone, on the traces of a folder."""
    port = free_port()
    command = app_command(HERE / "demo_page.py", port)
    told = {"PYTHONPATH": str(HERE.parents[1]), "TRACES": str(folder)}
    with served(command, port, folder, **told) as running:
        yield running
