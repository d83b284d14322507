"""What the proxy does when its upstream is late, loads, hangs or leaves."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from http.client import HTTPConnection
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from httpcore._async import http11

from mwviz.recorder import proxy
from mwviz.rollout import Call
from tests.recorder.conftest import Recorder, soon
from tests.recorder.running import DEADLINE, HOST
from tests.recorder.test_proxy import CHAT, post
from tests.recorder.upstream import upstream

Recording = Callable[..., Any]


def test_an_unused_connection_is_left_before_servers_leave_theirs(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do after 5 s; a request that is under way then gets no answer."""
    now = [100.0]
    monkeypatch.setattr(http11, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with recording() as recorder:
        for passed in (0, 2.5, 4):
            now[0] += passed
            httpx.get(recorder.base() + "/v1/models", timeout=DEADLINE)
        first, soon_after, later = recorder.upstream.looks
    assert soon_after == first
    assert later != first


def calls(recorder: Recorder) -> tuple[Call, ...]:
    return recorder.trace().rollouts[0].calls


def test_an_engine_that_starts_after_the_recorder_gives_its_ids(recording: Recording) -> None:
    later = socket.socket()
    later.bind((HOST, 0))  # and does not listen yet
    with recording(address=f"http://{HOST}:{later.getsockname()[1]}") as recorder:
        early = post(recorder.base(), CHAT)
        with upstream("vllm", later):
            post(recorder.base(), CHAT)
        assert early.status_code == 502
        assert [call.prompt_ids is not None for call in calls(recorder)] == [False, True]


@pytest.mark.parametrize("status", [503, 401, 429, 500])
def test_an_engine_that_does_not_answer_yet_is_asked_again_for_what_it_is(
    recording: Recording, status: int
) -> None:
    with recording(engine="vllm") as recorder:
        recorder.upstream.failing = status
        post(recorder.base(), CHAT)
        recorder.upstream.failing = 0
        for _ in range(2):
            post(recorder.base(), CHAT)
        assert len(recorder.upstream.looks) == 2
        assert [call.prompt_ids is not None for call in calls(recorder)] == [False, True, True]


def test_a_client_that_leaves_first_does_not_cost_the_others_their_ids(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy, "LOOK_S", DEADLINE)
    with recording(engine="vllm") as recorder:
        recorder.upstream.mute = True
        asking = HTTPConnection(recorder.url.removeprefix("http://"))
        asking.request("POST", "/r/a/v1/chat/completions", json.dumps(CHAT))
        soon(lambda: bool(recorder.upstream.looks))
        asking.close()
        assert recorder.upstream.left.wait(DEADLINE)
        soon(lambda: b'"t":"call"' in recorder.path.read_bytes())
        recorder.upstream.mute = False
        post(recorder.base(), CHAT)
        assert [call.prompt_ids is not None for call in calls(recorder)] == [False, True]


def test_an_engine_that_could_not_be_reached_in_time_is_asked_again(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    get, unreached = httpx.AsyncClient.get, [httpx.ConnectTimeout("no answer to the first packet")]

    async def late(*given: Any, **named: Any) -> httpx.Response:
        if unreached:
            raise unreached.pop()
        return await get(*given, **named)

    monkeypatch.setattr(httpx.AsyncClient, "get", late)
    with recording(engine="vllm") as recorder:
        for _ in range(2):
            post(recorder.base(), CHAT)
        assert [call.prompt_ids is not None for call in calls(recorder)] == [False, True]


@pytest.mark.parametrize(("status", "times"), [(403, 1), (404, 0)])
def test_an_upstream_that_refuses_to_say_what_it_is_is_told_once(
    recording: Recording, capsys: pytest.CaptureFixture[str], status: int, times: int
) -> None:
    with recording(engine="vllm") as recorder:
        recorder.upstream.failing = status
        for _ in range(2):
            post(recorder.base(), CHAT)
        assert len(recorder.upstream.looks) == 1
    told = capsys.readouterr().err
    assert told.count(f"answered {status} when it was asked what it is") == times


def test_an_upstream_that_does_not_say_what_it_is_is_told_once(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(proxy, "LOOK_S", 0.1)
    with recording(engine="vllm") as recorder:
        recorder.upstream.mute = True
        answers = [post(recorder.base(), CHAT) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    told = capsys.readouterr().err
    assert told.count("did not say within 0.1 s what it is, so token ids are not asked for") == 1
