"""Starts the app the way `mwviz app` does, for tests that talk to it from outside."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mwviz import serve

DEADLINE = 180
"""Seconds that a start may take on a busy machine before the test gives up."""
HELD: list[socket.socket] = []
"""What keeps the ports that were given out; none of them listens."""


@contextmanager
def served(command: list[str], port: int, folder: Path, **environment: str) -> Iterator[str]:
    """The address of a running app; its log is shown if it does not start."""
    log = folder / "server.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **environment}, stdout=out, stderr=out
        )
    try:
        deadline = time.monotonic() + DEADLINE
        while not _healthy(port):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _healthy(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    """A TCP port that nothing listens on, and that is given to no other process while this runs."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the app does, which may take it
    held.bind(("127.0.0.1", 0))
    port = int(held.getsockname()[1])
    if sys.platform == "linux":
        HELD.append(held)
    else:  # two sockets of one address are refused there, even if neither listens
        held.close()
    return port


def app_command(
    script: Path, port: int, *, python: str = sys.executable, launch: serve.Launch | None = None
) -> list[str]:
    """The command that `mwviz app` runs, for any script; no browser is opened."""
    command = serve.command(script, port, launch or serve.Launch())
    at = command.index("--")
    return [python, *command[1:at], "--server.headless=true", *command[at:]]
