"""What the proxy does to the wire, and what it keeps when things go wrong."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest

from mwviz.recorder.engines import EventStripper
from mwviz.recorder.secrets import Secrets
from mwviz.trace import load
from tests.recorder.conftest import Recorder, finished, soon
from tests.recorder.running import DEADLINE
from tests.recorder.test_clients import openai_client
from tests.recorder.upstream import ids, logprobs, rendered, reply_to, upstream

Recording = Callable[..., Any]
ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which pier?"}]
CHAT = {"model": "ok", "messages": ASKED}
MWVIZ = str(Path(sys.executable).with_name("mwviz"))


def post(base: str, body: dict[str, Any], path: str = "/v1/chat/completions") -> httpx.Response:
    return httpx.post(base + path, json=body, timeout=DEADLINE)


def texts(recorder: Recorder) -> list[str | None]:
    calls = recorder.trace().rollouts[0].calls
    return [call.completion[0].text if call.completion else None for call in calls]


@pytest.mark.parametrize("stream", [False, True])
def test_the_client_gets_the_bytes_that_the_upstream_sent(
    recording: Recording, stream: bool
) -> None:
    with recording() as recorder:
        body = {**CHAT, "stream": stream}
        direct, passed = post(recorder.upstream.url, body), post(recorder.base(), body)
    assert passed.content == direct.content.replace(b"chat-1", b"chat-2").replace(
        b"1700000001", b"1700000002"
    )
    assert passed.headers["content-type"] == direct.headers["content-type"]
    assert recorder.upstream.bodies == [body, body]


def test_an_event_reaches_the_client_before_the_next_is_sent(recording: Recording) -> None:
    with recording() as recorder:
        body = {**CHAT, "model": "gate", "stream": True}
        url = recorder.base() + "/v1/chat/completions"
        with httpx.stream("POST", url, json=body, timeout=DEADLINE) as answer:
            lines = answer.iter_lines()
            first = next(lines)
            recorder.upstream.gate.set()
            rest = list(lines)
    assert first.startswith("data:")
    assert "data: [DONE]" in rest


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body", "prompt"),
    [
        ("/v1/chat/completions", CHAT, rendered(ASKED)),
        ("/v1/completions", {"model": "ok", "prompt": "Which pier?"}, "Which pier?"),
    ],
)
def test_vllm_is_asked_for_ids_which_the_client_does_not_see(
    recording: Recording, path: str, body: dict[str, Any], prompt: str, stream: bool
) -> None:
    with recording(engine="vllm") as recorder:
        answer = post(recorder.base(), {**body, "stream": stream}, path)
        (call,) = recorder.trace().rollouts[0].calls
    assert b"token_ids" not in answer.content
    assert b"token_logprobs" not in answer.content
    assert b'"logprob"' not in answer.content
    reply = reply_to("Which pier?")
    assert call.prompt_ids is not None
    assert call.completion_ids is not None
    assert call.logprobs is not None
    assert call.prompt_ids.tolist() == ids(prompt)
    assert call.completion_ids.tolist() == ids(reply)
    np.testing.assert_array_equal(call.logprobs, np.array(logprobs(reply), np.float32))
    assert call.completion is not None
    assert call.completion[0].text == reply
    assert json.loads(answer.content.split(b"\n")[0].removeprefix(b"data: "))["choices"]


def test_a_client_that_asked_for_ids_gets_them(recording: Recording) -> None:
    with recording(engine="vllm") as recorder:
        answer = post(recorder.base(), {**CHAT, "return_token_ids": True, "logprobs": True})
    assert answer.json()["prompt_token_ids"] == ids(rendered(ASKED))
    assert answer.json()["choices"][0]["logprobs"]["content"]


def test_sglang_is_not_asked_for_ids_of_a_chat_stream(recording: Recording) -> None:
    with recording(engine="sglang") as recorder:
        post(recorder.base(), {**CHAT, "stream": True})
        post(recorder.base(), CHAT)
    streamed, whole = recorder.upstream.bodies
    assert "return_token_ids" not in streamed
    assert whole["return_token_ids"] is True


def test_an_engine_that_does_not_know_the_fields_is_asked_once_more_without(
    recording: Recording,
) -> None:
    with recording(engine="vllm") as recorder:
        answers = [post(recorder.base(), {**CHAT, "model": "strict"}) for _ in range(2)]
        assert texts(recorder) == [reply_to("Which pier?")] * 2
    assert [a.status_code for a in answers] == [200, 200]
    asked = ["return_token_ids" in body for body in recorder.upstream.bodies]
    assert asked == [True, False, False]


def test_a_failed_request_is_a_prompt_without_a_completion(recording: Recording) -> None:
    with recording() as recorder:
        client = openai_client(recorder.base())
        with pytest.raises(openai.InternalServerError, match="overloaded"):
            client.chat.completions.create(model="error", messages=ASKED)  # type: ignore[arg-type]
        client.chat.completions.create(model="ok", messages=ASKED)  # type: ignore[arg-type]
        calls = recorder.trace().rollouts[0].calls
    assert [(call.finish, call.completion is None) for call in calls] == [
        ("error", True),
        ("stop", False),
    ]


def test_a_client_that_gives_up_frees_the_upstream_and_is_recorded(recording: Recording) -> None:
    with recording() as recorder:
        asking = HTTPConnection(recorder.url.removeprefix("http://"))
        body = json.dumps({**CHAT, "model": "hang"})
        asking.request("POST", "/r/a/v1/chat/completions", body)
        soon(lambda: bool(recorder.upstream.bodies))
        asking.close()
        assert recorder.upstream.left.wait(DEADLINE)
        soon(lambda: b'"t":"call"' in recorder.path.read_bytes())
        (call,) = recorder.trace().rollouts[0].calls
    assert (call.finish, call.completion) == ("aborted", None)


def test_a_client_that_leaves_in_a_stream_keeps_what_came(recording: Recording) -> None:
    with recording() as recorder:
        url = recorder.base() + "/v1/chat/completions"
        body = {**CHAT, "model": "gate", "stream": True}
        with httpx.stream("POST", url, json=body, timeout=DEADLINE) as answer:
            next(answer.iter_lines())
        soon(lambda: b'"t":"call"' in recorder.path.read_bytes())
        (call,) = recorder.trace().rollouts[0].calls
        recorder.upstream.gate.set()
    assert call.finish == "aborted"
    assert call.completion is not None
    assert 0 < len(call.completion[0].text) < len(reply_to("Which pier?"))
    assert reply_to("Which pier?").startswith(call.completion[0].text)


def test_a_stream_that_the_upstream_breaks_breaks_for_the_client(recording: Recording) -> None:
    with recording() as recorder:
        with pytest.raises(httpx.RemoteProtocolError):
            post(recorder.base(), {**CHAT, "model": "cut", "stream": True})
        soon(lambda: b'"t":"call"' in recorder.path.read_bytes())
        (call,) = recorder.trace().rollouts[0].calls
    assert call.finish == "aborted"


def test_an_upstream_that_is_not_there_is_said(recording: Recording) -> None:
    with recording(address="http://127.0.0.1:9") as recorder:
        answer = post(recorder.base(), CHAT)
        soon(lambda: b'"t":"call"' in recorder.path.read_bytes())
        (call,) = recorder.trace().rollouts[0].calls
    assert answer.status_code == 502
    assert "gave no answer" in answer.json()["error"]["message"]
    assert call.completion is None


def test_other_paths_pass_through_unrecorded(recording: Recording) -> None:
    with recording() as recorder:
        models = httpx.get(recorder.base() + "/v1/models", timeout=DEADLINE)
        missing = httpx.post(
            recorder.base() + "/v1/messages/count_tokens", json={}, timeout=DEADLINE
        )
    assert models.json()["data"][0]["id"] == "ok"
    assert missing.status_code == 404
    assert b'"t":"call"' not in recorder.path.read_bytes()


def test_a_reward_can_be_told(recording: Recording) -> None:
    with recording() as recorder:
        post(recorder.base("a"), CHAT)
        told = httpx.post(recorder.base("a") + "/reward", json={"reward": 0.5}, timeout=DEADLINE)
        wrong = httpx.post(recorder.base("a") + "/reward", json={"score": 1}, timeout=DEADLINE)
        assert recorder.trace().rollouts[0].reward == 0.5
    assert (told.status_code, wrong.status_code) == (200, 400)


def test_only_this_machine_may_call(recording: Recording) -> None:
    with recording() as recorder:
        stranger = httpx.get(
            recorder.base() + "/v1/models", headers={"host": "evil.example"}, timeout=DEADLINE
        )
    assert stranger.status_code == 400


def test_credentials_are_masked_and_their_token_ids_left_out(recording: Recording) -> None:
    secret = "sk-abcdefghijklmnop1234567890"
    with recording(engine="vllm", secrets=Secrets([r"pier-\d+"])) as recorder:
        hot = [{"role": "user", "content": f"My key is {secret}, meet at pier-77"}]
        post(recorder.base(), {"model": "ok", "messages": hot})
        post(recorder.base(), CHAT)
        first, second = recorder.trace().rollouts[0].calls
    kept = recorder.path.read_bytes()
    assert secret.encode() not in kept
    assert b"pier-77" not in kept
    assert first.prompt is not None
    assert first.prompt[0].text == "My key is [masked], meet at [masked]"
    assert (first.content, first.prompt_ids) == ("partial", None)
    assert (second.content, second.prompt_ids is None) == ("exact", False)


def test_raw_bodies_open_as_an_api_log(recording: Recording, tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl.gz"
    with recording(raw=raw) as recorder:
        post(recorder.base("a"), {**CHAT, "stream": True})
    record = json.loads(gzip.decompress(raw.read_bytes()))
    assert (record["rollout"], record["status"]) == ("a", 200)
    assert load(raw).format == "openai-chat"


def test_fifty_streams_at_once_lose_and_mix_nothing(recording: Recording) -> None:
    async def one(client: httpx.AsyncClient, at: int) -> tuple[str, str]:
        asked = f"Boat {at}, which pier?"
        body = {"model": "ok", "stream": True, "messages": [{"role": "user", "content": asked}]}
        url = f"/r/boat-{at}/v1/chat/completions"
        answer = await client.post(url, json=body, timeout=DEADLINE)
        parts = re.findall(r'"content": "([^"]*)"', answer.text)
        return asked, "".join(parts)

    async def all_at_once(url: str) -> list[tuple[str, str]]:
        limits = httpx.Limits(max_connections=50)
        async with httpx.AsyncClient(base_url=url, limits=limits) as client:
            return await asyncio.gather(*(one(client, at) for at in range(50)))

    with recording() as recorder:
        got = finished(lambda: all_at_once(recorder.url))
        trace = recorder.trace()
    assert trace.damage == ()
    assert len(trace.rollouts) == 50
    said = {r.id: r.calls[0] for r in trace.rollouts}
    for at, (asked, heard) in enumerate(got):
        call = said[f"boat-{at}"]
        assert call.prompt is not None
        assert call.completion is not None
        assert (call.prompt[0].text, call.completion[0].text) == (asked, heard)
        assert heard == reply_to(asked)


@contextmanager
def started(out: Path, url: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A recorder in a process of its own, and its URL; killed if it still runs at the end."""
    command = [MWVIZ, "record", "--upstream", url, "-o", str(out), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            head = ""
            while (found := re.search(r"OPENAI_BASE_URL=(\S+)/r/.*\n.*\n", head)) is None:
                line = process.stderr.readline()
                assert line, head
                head += line
            yield process, found[1]
        finally:
            process.kill()


def test_a_killed_recorder_loses_no_call_that_a_client_has_seen(tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    with upstream() as provider:
        for round_ in range(2):
            with started(out, provider.url) as (process, url):
                for at in range(3):
                    asked = [{"role": "user", "content": f"Round {round_}, boat {at}?"}]
                    post(f"{url}/r/a", {"model": "ok", "messages": asked, "stream": at == 1})
                hanging = threading.Thread(target=_left_hanging, args=(url,))
                hanging.start()
                soon(lambda: any(b["model"] == "gate" for b in provider.bodies))
                process.send_signal(signal.SIGKILL)
                process.wait()
            provider.gate.set()
            hanging.join()
            provider.bodies.clear()
            provider.gate.clear()
        torn = b'{"t":"msg","id":"m99","ro'
        with out.open("ab") as file:
            file.write(torn)
        with started(out, provider.url) as (process, url):
            post(f"{url}/r/a", {"model": "ok", "messages": ASKED})
            process.terminate()
            process.wait()
    trace = load(out)
    (rollout,) = trace.rollouts
    asked_of = [call.prompt[-1].text for call in rollout.calls if call.prompt]
    rounds = [f"Round {round_}, boat {at}?" for round_ in range(2) for at in range(3)]
    assert asked_of == [*rounds, "Which pier?"]
    assert len(trace.damage) == 1  # the torn line, told and closed
    assert torn in out.read_bytes().split(b"\n")


def _left_hanging(url: str) -> None:
    with pytest.raises(httpx.HTTPError):
        post(f"{url}/r/a", {**CHAT, "model": "gate", "stream": True})


def test_a_file_that_is_no_recording_is_not_touched(tmp_path: Path) -> None:
    out = tmp_path / "notes.txt"
    out.write_text("my notes\n")
    command = [MWVIZ, "record", "--upstream", "http://127.0.0.1:9"]
    ended = subprocess.run(
        [*command, "-o", str(out), "--port", "0"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert "choose a new name" in ended.stderr
    assert out.read_text() == "my notes\n"


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_events_are_stripped_however_they_are_cut(size: int) -> None:
    event = {"choices": [{"text": "a\u2028b", "token_ids": [1], "logprobs": {"x": 1}}], "id": "c"}
    data = f": hi\n\ndata: {json.dumps(event)}\r\n\r\ndata: [DONE]".encode()
    events = EventStripper(("token_ids", "logprobs"))
    parts = [events.feed(data[at : at + size]) for at in range(0, len(data), size)]
    out = b"".join([*parts, events.end()])
    want = '{"choices":[{"text":"a\u2028b","logprobs":null}],"id":"c"}'
    assert out == f": hi\n\ndata: {want}\r\n\r\ndata: [DONE]".encode()
