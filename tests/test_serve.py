from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mwviz import serve
from mwviz.errors import ModelError, SetupError
from tests.servers import app_command, free_port, served

UPGRADE = """GET /_stcore/stream HTTP/1.1\r
Host: {host}\r
Connection: Upgrade\r
Upgrade: websocket\r
Sec-WebSocket-Version: 13\r
Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r
\r
"""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    number = free_port()
    with served(app_command(serve.entry(), number), number, tmp_path_factory.mktemp("app")):
        yield number


def status(port: int, host: str) -> str:
    """First line of the answer to a WebSocket request that names `host`."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(UPGRADE.format(host=host).encode())
        return connection.recv(4096).decode("latin-1").split("\r\n", 1)[0]


def test_the_app_listens_on_one_address_of_this_machine(port: int) -> None:
    socket.create_connection(("127.0.0.1", port), timeout=30).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=30)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_app_answers_to_its_own_names(port: int, host: str) -> None:
    assert "101" in status(port, f"{host}:{port}")


def test_the_app_does_not_answer_to_another_hosts_name(port: int) -> None:
    assert "403" in status(port, f"evil.example:{port}")


@pytest.mark.skipif(sys.platform != "linux", reason="a held port cannot be listened on elsewhere")
def test_a_free_port_is_given_to_nobody_else_and_can_be_listened_on() -> None:
    address = ("127.0.0.1", free_port())
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(address)
    with socket.create_server(address), socket.create_connection(address, timeout=30):
        pass


def test_a_launch_passes_through_the_command_line() -> None:
    launch = serve.Launch(("/a b.jsonl", "/é"), ("some/model",), "cuda")
    command = serve.command(serve.entry(), None, launch)
    assert serve.Launch.from_arguments(command) == launch
    assert serve.Launch.from_arguments(["main.py", "-q"]) == serve.Launch()


def test_a_folder_without_traces_is_named_with_what_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("none")
    (told,) = serve.notes([tmp_path])
    assert told.startswith(f"{tmp_path}: holds no trace yet, expected files that end in .json, ")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "run.jsonl.gz").write_bytes(b"")
    assert list(serve.notes([tmp_path])) == []
    assert list(serve.notes([tmp_path / "notes.txt"])) == []


def test_a_model_that_is_none_is_refused_before_anything_starts() -> None:
    with pytest.raises(ModelError, match="no/such/folder: no such folder"):
        serve.serve([], models=["no/such/folder"])


def test_a_missing_trace_is_named_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"gone\.jsonl: no such file or folder"):
        serve.serve([tmp_path / "gone.jsonl"])
