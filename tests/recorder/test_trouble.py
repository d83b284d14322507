"""What the recorder does when the wire, the disk or its user is not as one would like."""

from __future__ import annotations

import json
import logging
import resource
import signal
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from mwviz.errors import SetupError, TraceError
from mwviz.recorder.calllog import Answer, CallLog
from mwviz.recorder.proxy import Proxy
from mwviz.recorder.server import Recording as Wanted
from mwviz.recorder.server import _is_news, serve, server
from mwviz.recorder.writing import Exchanged, Writing
from mwviz.rollout import Call
from mwviz.trace import load
from tests.recorder.conftest import finished, recorder, soon
from tests.recorder.running import DEADLINE
from tests.recorder.test_proxy import ASKED, CHAT, post, started
from tests.recorder.upstream import ODD_NAMES, upstream

Recording = Callable[..., Any]


def test_paths_queries_and_headers_pass_as_they_were_sent(recording: Recording) -> None:
    with recording() as recorder:
        answer = httpx.get(recorder.base() + "/v1/files/a%2Fb%20c?x=%2F&y=1+2", timeout=DEADLINE)
    assert answer.content == b"/v1/files/a%2Fb%20c?x=%2F&y=1+2"
    assert [value for name, value in answer.headers.raw if name == b"x-name"] == list(ODD_NAMES)


def test_a_websocket_is_refused_with_the_reason(tmp_path: Path) -> None:
    headers = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
    with started(tmp_path / "run.jsonl", "http://127.0.0.1:9") as (_, url):
        answer = httpx.get(url + "/r/a/v1/responses", headers=headers, timeout=DEADLINE)
    assert answer.status_code == 426
    assert "no WebSockets" in answer.json()["error"]["message"]


def test_clients_leave_an_idle_connection_before_the_recorder_does() -> None:
    """Else one of their requests may go out as the connection is closed, and get no answer."""
    longest = 90  # seconds; Go's `http.DefaultTransport` and Rust's `reqwest`
    assert server(Starlette()).config.timeout_keep_alive > longest


def test_a_recorded_answer_is_asked_for_without_an_encoding(recording: Recording) -> None:
    with recording() as recorder:
        url = recorder.base() + "/v1/chat/completions"
        httpx.post(url, json=CHAT, headers={"accept-encoding": "br, zstd"}, timeout=DEADLINE)
    assert [sent["accept-encoding"] for sent in recorder.upstream.headers] == ["identity"]


def test_what_is_said_of_the_clients_connection_is_not_passed_on(recording: Recording) -> None:
    """Java's client offers HTTP/2 so; any header may be named as one of the connection."""
    of_one = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": "AAMA"}
    with recording() as recorder:
        url = recorder.base() + "/v1/chat/completions"
        answer = httpx.post(url, json=CHAT, headers={**of_one, "x-own": "1"}, timeout=DEADLINE)
    (sent,) = recorder.upstream.headers
    assert (answer.status_code, sent["x-own"]) == (200, "1")
    assert not {"upgrade", "http2-settings"} & set(sent.keys())


@pytest.mark.parametrize("content", [b"\x8b\x0b\x80not JSON", b"<html>fine</html>"])
def test_an_answer_of_another_kind_leaves_its_prompt_with_the_reason(
    content: bytes, tmp_path: Path
) -> None:
    writing = Writing(CallLog(tmp_path / "run.jsonl"))
    asked = b'{"messages": [{"role": "user", "content": "Which pier?"}]}'
    writing.submit(Exchanged("a", "chat", asked, content, 1.0, 200, True)).result()
    writing.close()
    (call,) = load(tmp_path / "run.jsonl").rollouts[0].calls
    assert (call.content, call.completion) == ("partial", None)
    assert "expected JSON or a stream of events" in call.holes[0].why


def test_an_upstream_that_breaks_off_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with recorder(tmp_path) as recording, pytest.raises(httpx.HTTPError):
        post(recording.base("task-3"), {**CHAT, "model": "cut", "stream": True})
    assert "rollout task-3: the upstream broke its answer off" in capsys.readouterr().err


def test_a_client_that_leaves_while_it_asks_leaves_nothing(tmp_path: Path) -> None:
    async def leaving() -> None:
        messages: list[dict[str, Any]] = [
            {"type": "http.disconnect"},
            {"type": "http.request", "more_body": True},
        ]

        async def receive() -> dict[str, Any]:
            return messages.pop()

        async def send(message: Any) -> None:
            raise AssertionError(message)

        path = "/r/a/v1/chat/completions"
        scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""}
        proxy = Proxy("http://127.0.0.1:9", writing, engine=None)
        await proxy(scope, receive, send)
        await proxy.aclose()

    writing = Writing(CallLog(tmp_path / "run.jsonl"))
    finished(leaving)
    writing.close()
    assert not writing.log.calls


def _said(log: CallLog, number: int, messages: list[dict[str, str]]) -> None:
    """One turn of a chat that grows, with an answer of its own."""
    messages.append({"role": "user", "content": f"Turn {number}: " + "wave " * 200})
    reply = {"role": "assistant", "content": f"Answer {number}."}
    response = {"id": f"chat-{number}", "choices": [{"index": 0, "message": reply}]}
    asked: Any = {"messages": list(messages)}
    messages.append(reply)
    log.add("a", Answer("chat", asked, response, 1.0))  # type: ignore[arg-type]


def test_a_full_disk_costs_only_the_calls_that_did_not_fit(tmp_path: Path) -> None:
    path, messages = tmp_path / "run.jsonl", list[dict[str, str]]()
    with CallLog(path) as log:
        _said(log, 0, messages)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        room = path.stat().st_size + 100
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
        try:
            with pytest.raises(TraceError, match="cannot be written: File too large"):
                _said(log, 1, messages)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert path.stat().st_size < room  # no half record
        _said(log, 2, messages)
        _said(log, 3, messages)
    trace = load(path)
    (rollout,) = trace.rollouts
    assert not trace.damage
    assert [call.id for call in rollout.calls] == ["chat-0", "chat-2", "chat-3"]
    last = rollout.calls[-1]
    assert [m.text for m in last.prompt or ()] == [m["content"] for m in messages[:-1]]


def _responded(
    path: Path, number: int, *, after: str | None, instructions: str | None = None
) -> None:
    """A recorder that is started, takes one exchange with a Responses endpoint, and ends."""
    item = {"type": "message", "role": "assistant", "content": f"Answer {number}."}
    given = [{"role": "system", "content": f"Rule {number}."}, {"role": "user", "content": "Go."}]
    request: Any = {"input": given, "previous_response_id": after, "instructions": instructions}
    response: Any = {"id": f"resp-{number}", "output": [item], "status": "completed"}
    with CallLog(path) as log:
        log.add("a", Answer("responses", request, response, 1.0))


def _prompt(call: Call) -> list[str]:
    return [message.text for message in call.prompt or ()]


def test_a_response_is_continued_across_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    _responded(path, 0, after=None, instructions="First orders.")
    _responded(path, 1, after="resp-0", instructions="Other orders.")
    _responded(path, 2, after="resp-1")
    first, second, third = load(path).rollouts[0].calls
    own = ["Rule {0}.", "Go.", "Answer {0}."]
    turns = [[text.format(number) for text in own] for number in range(3)]
    assert _prompt(first) == ["First orders.", *turns[0][:2]]
    assert _prompt(second) == ["Other orders.", *turns[0], *turns[1][:2]]
    assert _prompt(third) == [*turns[0], *turns[1], *turns[2][:2]]
    assert {call.content for call in (first, second, third)} == {"exact"}


def test_what_continues_a_response_that_is_not_there_stays_partial(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    _responded(path, 0, after="resp-of-another-file")
    _responded(path, 1, after="resp-0")
    assert [call.content for call in load(path).rollouts[0].calls] == ["partial", "partial"]


def test_an_interrupted_recorder_says_what_it_wrote(tmp_path: Path) -> None:
    with upstream() as provider, started(tmp_path / "run.jsonl", provider.url) as (process, url):
        post(f"{url}/r/a", {"model": "ok", "messages": ASKED})
        httpx.post(f"{url}/r/a/v1/chat/completions", content=b"{nope", timeout=DEADLINE)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    assert "1 call written to" in told
    assert "1 request could not be recorded" in told


@pytest.mark.parametrize(
    ("stop", "model"), [(signal.SIGINT, "gate"), (signal.SIGTERM, "hang")], ids=["int", "term"]
)
def test_a_recorder_that_is_stopped_keeps_what_came_of_open_requests(
    stop: signal.Signals, model: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    with upstream() as provider, started(path, provider.url) as (process, url):
        asking = HTTPConnection(url.removeprefix("http://"), timeout=DEADLINE)
        body = json.dumps({**CHAT, "model": model, "stream": model == "gate"})
        asking.request("POST", "/r/a/v1/chat/completions", body)
        if model == "gate":
            asking.getresponse().readline()
        soon(lambda: bool(provider.bodies))
        process.send_signal(stop)
        _, told = process.communicate(timeout=DEADLINE)
        asking.close()
    (call,) = load(path).rollouts[0].calls
    assert call.finish == "aborted"
    assert bool(call.completion) == (model == "gate")
    assert "Traceback" not in told
    assert "Cancel" not in told


@pytest.mark.parametrize(
    ("said", "news"),
    [
        ("Traceback (most recent call last):\n  ...\nasyncio.exceptions.CancelledError\n", False),
        ("Cancel 1 running task(s), timeout graceful shutdown exceeded", False),
        ("Traceback (most recent call last):\n  ...\nKeyError: 'rollout'\n", True),
    ],
)
def test_what_the_server_says_as_it_is_stopped_twice_is_no_fault(said: str, news: bool) -> None:
    told = logging.LogRecord("uvicorn.error", logging.ERROR, "on.py", 1, said, None, None)
    assert _is_news(told) == news


def test_a_recorder_on_the_other_kind_of_address_answers(tmp_path: Path) -> None:
    from mwviz.recorder.app import recording_app
    from mwviz.recorder.server import LOCAL

    with upstream() as provider:
        writing = Writing(CallLog(tmp_path / "run.jsonl"))
        proxy = Proxy(provider.url, writing, engine=None)
        app = recording_app(proxy, writing, hosts=LOCAL)

        async def asked() -> int:
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, timeout=DEADLINE) as client:
                answer = await client.get("http://[::1]:8787/v1/models")
            await proxy.aclose()
            return answer.status_code

        assert finished(asked) == 200
        writing.close()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"upstream": "http://[::1"}, "is no URL"),
        ({"upstream": "http://"}, "is no URL"),
        ({"upstream": "http://h:port"}, "is no URL"),
        ({"upstream": "http://h/v1?key=x"}, "has a query"),
        ({"port": 99_999}, "no port 99999, expected 0 to 65535"),
        ({"raw": Path("/nowhere/raw.gz")}, "/nowhere/raw.gz: cannot be written"),
    ],
)
def test_what_cannot_be_recorded_is_said_at_the_start(
    wrong: dict[str, Any], message: str, tmp_path: Path
) -> None:
    wanted = {"upstream": "http://h", "out": tmp_path / "run.jsonl", "port": 0, **wrong}
    with pytest.raises((SetupError, TraceError), match=message):
        serve(Wanted(**wanted), ready=lambda _: None)
