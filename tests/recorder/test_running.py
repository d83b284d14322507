"""The servers of these tests may be asked at once, however late they start."""

from __future__ import annotations

import socket
import threading
from typing import Any

import uvicorn
from starlette.applications import Starlette

from tests.recorder.running import DEADLINE, running


class Late(uvicorn.Server):
    """Begins when it is told to."""

    begin: threading.Event

    def run(self, *sockets: Any, **more: Any) -> None:
        assert self.begin.wait(DEADLINE)
        super().run(*sockets, **more)


def test_who_comes_before_a_server_runs_is_answered() -> None:
    server = Late(uvicorn.Config(Starlette(), log_level="error"))
    server.begin = threading.Event()
    with running(server) as url:
        try:
            host, _, port = url.removeprefix("http://").partition(":")
            with socket.create_connection((host, int(port)), timeout=DEADLINE) as early:
                early.sendall(b"GET / HTTP/1.0\r\n\r\n")
                server.begin.set()
                assert early.recv(100).startswith(b"HTTP/1.1 404")
        finally:
            server.begin.set()
