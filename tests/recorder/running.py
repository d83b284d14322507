"""Servers in a thread, which may be asked from the moment their address is told."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from mwviz.recorder.server import listen

HOST = "127.0.0.1"
DEADLINE = 120
"""Seconds that what must happen may take on a busy machine; met only by what never happens."""


@contextmanager
def running(server: uvicorn.Server, at: socket.socket | None = None) -> Iterator[str]:
    """The server's URL, at a port of its own; clients that come before it runs wait for it."""
    with at or listen(HOST, 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"http://{HOST}:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
