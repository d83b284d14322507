"""What is kept of answers and requests that are odd, and when clients or the disk misbehave."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import httpx
import pytest

from mwviz.recorder.bodies import ended
from mwviz.recorder.calllog import CallLog
from mwviz.recorder.proxy import Proxy
from mwviz.recorder.secrets import Secrets
from mwviz.recorder.server import listen
from mwviz.recorder.writing import Exchanged, Writing
from mwviz.trace import load
from tests.recorder.conftest import finished, soon
from tests.recorder.running import DEADLINE
from tests.recorder.test_proxy import CHAT, post
from tests.recorder.upstream import reply_to, upstream

Recording = Callable[..., Any]


def test_a_client_that_leaves_at_the_end_does_not_take_its_call_back(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    free = threading.Event()
    queued = asyncio.Event()

    class SlowDisk(Writing):
        def submit(self, exchanged: Exchanged) -> Future[None]:
            queued.set()
            return super().submit(exchanged)

    async def leaving() -> None:
        messages = [{"type": "http.request", "body": json.dumps(CHAT).encode()}]

        async def receive() -> dict[str, Any]:
            if not messages:
                await queued.wait()
                return {"type": "http.disconnect"}
            return messages.pop()

        async def send(message: Any) -> None:
            pass

        path = "/r/a/v1/chat/completions"
        scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""}
        proxy = Proxy(provider.url, writing, engine=None, detect=False)
        await proxy(scope, receive, send)
        await proxy.aclose()

    with upstream() as provider:
        writing = SlowDisk(CallLog(path))
        writing._thread.submit(free.wait, DEADLINE)
        finished(leaving)
        free.set()
        writing.close()
    (call,) = load(path).rollouts[0].calls
    assert call.completion is not None
    assert call.completion[0].text == reply_to("Which pier?")


@pytest.mark.parametrize("name", ["a b", "t%C3%A4sk", "x" * 65, "a:b"])
def test_a_rollout_of_another_name_is_refused_by_the_proxy(name: str, recording: Recording) -> None:
    with recording() as recorder:
        answer = post(recorder.base(name), CHAT)
        assert answer.status_code == 404
        assert "1 to 64 ASCII letters" in answer.json()["error"]["message"]
        assert not recorder.upstream.bodies
        assert b'"t":"call"' not in recorder.path.read_bytes()


def test_a_compressed_request_is_recorded(recording: Recording) -> None:
    with recording() as recorder:
        url = recorder.base() + "/v1/chat/completions"
        content = gzip.compress(json.dumps({**CHAT, "model": "error"}).encode())
        httpx.post(url, content=content, headers={"content-encoding": "gzip"}, timeout=DEADLINE)
        soon(lambda: b'"t":"call"' in recorder.path.read_bytes())
        (call,) = recorder.trace().rollouts[0].calls
    assert call.prompt is not None
    assert call.prompt[1].text == "Which pier?"


def exchanged(response: dict[str, Any], request: dict[str, Any] | None = None) -> Exchanged:
    asked = json.dumps(request or CHAT).encode()
    return Exchanged("a", "chat", asked, json.dumps(response).encode(), 1.0, 200, True)


def test_an_answer_that_cannot_be_read_leaves_the_prompt(tmp_path: Path) -> None:
    writing = Writing(CallLog(tmp_path / "run.jsonl"))
    writing.submit(exchanged({"choices": [{"message": {"content": 5}}]})).result()
    writing.close()
    (call,) = load(tmp_path / "run.jsonl").rollouts[0].calls
    assert call.prompt is not None
    assert (call.prompt[1].text, call.completion, call.content) == ("Which pier?", None, "partial")
    assert "the answer could not be read: content is 5" in call.holes[0].why


def test_a_fault_of_the_log_does_not_reach_the_client(tmp_path: Path) -> None:
    told: list[str] = []
    writing = Writing(CallLog(tmp_path / "run.jsonl", secrets=Secrets()), tell=told.append)
    deep: Any = []
    for _ in range(600):
        deep = [deep]
    writing.submit(exchanged({}, {**CHAT, "metadata": deep})).result()
    writing.close()
    assert "not recorded: a request of rollout a: RecursionError" in told[0]


def test_half_a_character_is_written_as_it_came(tmp_path: Path) -> None:
    writing = Writing(CallLog(tmp_path / "run.jsonl"))
    asked = {**CHAT, "messages": [{"role": "user", "content": "a \ud800 b"}]}
    writing.submit(exchanged({}, asked)).result()
    writing.close()
    (record,) = [
        found
        for line in (tmp_path / "run.jsonl").read_text("utf-8").splitlines()
        if (found := json.loads(line))["t"] == "msg"
    ]
    assert record["content"] == "a \ud800 b"


COMPLETED = b'event: response.completed\ndata: {"type":"response.completed","x":"%s"}\n\n'


@pytest.mark.parametrize(
    ("stream", "whole"),
    [
        (b"data: {}\n\ndata: [DONE]\n\n", True),
        (b"data: {}\r\n\r\ndata:[DONE]\r\n", True),
        (b"data: [DONE]", False),
        (b'data: {"a": "data: [DONE]"}\n\n', False),
        (b"data: {}\n\n" + COMPLETED % (b"x" * 200_000), True),
        (COMPLETED % b"x", True),
        (b"data: {}\n\nevent: response.completed\n", False),
        (b"event: error\ndata: {}\n\n", True),
        (b"event: ping\ndata: {}\n\n", False),
        (b"", False),
    ],
)
def test_the_end_of_a_stream_is_known_when_it_is_in(stream: bytes, whole: bool) -> None:
    assert ended(bytearray(stream)) == whole


def test_small_pieces_are_sent_at_once() -> None:
    async def sends_at_once() -> int:
        opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        listening = listen("127.0.0.1", 0)
        server = await asyncio.start_server(lambda _, w: opened.set_result(w), sock=listening)
        _, client = await asyncio.open_connection(*listening.getsockname())
        writer = await opened
        accepted = writer.get_extra_info("socket")
        found: int = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        for end in (client, writer, server):
            end.close()
        return found

    assert finished(sends_at_once)


def test_who_is_told_the_address_can_come_at_once() -> None:
    listening = listen("127.0.0.1", 0)
    with listening, socket.create_connection(listening.getsockname(), timeout=5):
        pass
