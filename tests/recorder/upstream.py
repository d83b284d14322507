"""A provider that speaks all four APIs, streams, fails and hangs; what it answers is known.

The model's name says how a request goes: `ok`, `error`, `hang`, `cut` (the stream breaks), `gate`
(after its first event the stream waits for `gate`), `strict` (unknown fields are refused). Token
ids are the bytes of the text.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.recorder.running import DEADLINE, running

Body = dict[str, Any]
ODD_NAMES = ("grüße ☃".encode(), "grüße".encode("latin-1"))
"""Values of a header that is no ASCII."""
PIECES = 3
"""Events the text of an answer comes in."""


@dataclass
class Upstream:
    """What the provider saw, and the gate its `gate` model waits for."""

    url: str = ""
    engine: str = "nobody"
    bodies: list[Body] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)
    """What came with each body."""
    gate: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)
    """Set when a client leaves the `hang` model, or the question for models of a mute provider."""
    looks: list[int] = field(default_factory=list)
    """Ports from which it was asked for its models."""
    failing: int = 0
    """Status of its refusal to say which models it has; 0: it says so."""
    mute: bool = False
    """Whether it hangs when it is asked for its models."""


WORDS = (
    *("fog", "pier", "boat", "crew", "rope", "mast", "keel", "tide"),
    *("gull", "lamp", "net", "oar", "sail", "dock", "buoy", "wave"),
)


def reply_to(last: str) -> str:
    """What the model says to a last message: other words for every other one."""
    digest = hashlib.blake2b(last.encode(), digest_size=12).digest()
    return " ".join(WORDS[byte % len(WORDS)] for byte in digest)


def rendered(messages: list[Body]) -> str:
    return "".join(f"<{m['role']}>{m['content']}\n" for m in messages) + "<assistant>"


def ids(text: str) -> list[int]:
    return list(text.encode())


def logprobs(text: str) -> list[float]:
    return [-(1 + byte) / 512 for byte in text.encode()]


def pieces(text: str) -> list[str]:
    size = -(-len(text) // PIECES)
    return [text[at : at + size] for at in range(0, len(text), size)]


@contextmanager
def upstream(engine: str = "nobody", at: socket.socket | None = None) -> Iterator[Upstream]:
    state = Upstream(engine=engine)
    config = uvicorn.Config(
        _app(state), log_level="error", timeout_graceful_shutdown=1, timeout_keep_alive=75
    )
    with running(uvicorn.Server(config), at) as state.url:
        try:
            yield state
        finally:
            state.gate.set()


def _app(state: Upstream) -> Starlette:
    async def models(request: Request) -> Response:
        assert request.client is not None
        state.looks.append(request.client.port)
        if state.failing:
            return JSONResponse({"error": {"message": "not now"}}, state.failing)
        if state.mute:
            return await _hung(state, request)
        return JSONResponse({"data": [{"id": "ok", "owned_by": state.engine}]})

    async def answered(request: Request) -> Response:
        body = await request.json()
        state.bodies.append(body)
        state.headers.append(request.headers)
        refused = await _refused(state, request, body)
        if refused is not None:
            return refused
        number = len(state.bodies)
        events = EVENTS[request.url.path](body, number)
        if not body.get("stream"):
            return JSONResponse(WHOLES[request.url.path](body, number))
        return StreamingResponse(_sent(state, events, body), media_type="text/event-stream")

    async def file(request: Request) -> Response:
        """Says what was asked for, under headers of several encodings."""
        answer = Response(request.scope["raw_path"] + b"?" + request.scope["query_string"])
        answer.raw_headers += [(b"x-name", name) for name in ODD_NAMES]
        return answer

    routes = [Route(path, answered, methods=["POST"]) for path in EVENTS]
    routes += [Route("/v1/models", models), Route("/v1/files/{name:path}", file)]
    return Starlette(routes=routes)


async def _refused(state: Upstream, request: Request, body: Body) -> Response | None:
    model = body["model"]
    if model == "error":
        return JSONResponse({"error": {"message": "overloaded", "type": "server_error"}}, 500)
    if model == "strict" and "return_token_ids" in body:
        return JSONResponse({"error": {"message": "unknown field", "type": "invalid"}}, 400)
    return await _hung(state, request) if model == "hang" else None


async def _hung(state: Upstream, request: Request) -> Response:
    while not await request.is_disconnected():
        await asyncio.sleep(0.02)
    state.left.set()
    return Response(status_code=499)


async def _sent(state: Upstream, events: list[str], body: Body) -> AsyncIterator[bytes]:
    for at, event in enumerate(events):
        yield event.encode()
        if at == 0 and body["model"] == "gate":
            assert await asyncio.to_thread(state.gate.wait, DEADLINE)
        if at == 1 and body["model"] == "cut":
            raise ConnectionAbortedError
        await asyncio.sleep(0)


def _data(*values: Body) -> list[str]:
    return [f"data: {json.dumps(value)}\n\n" for value in values]


def _named(*values: Body) -> list[str]:
    return [f"event: {value['type']}\ndata: {json.dumps(value)}\n\n" for value in values]


def _last(messages: list[Body]) -> str:
    content = messages[-1]["content"]
    if isinstance(content, list):
        return "".join(block.get("text", "") for block in content)
    return str(content)


def _chat_extra(body: Body, text: str) -> Body:
    extra: Body = {}
    if body.get("return_token_ids"):
        extra["token_ids"] = ids(text)
    if body.get("logprobs"):
        extra["logprobs"] = {"content": [{"token": "x", "logprob": p} for p in logprobs(text)]}
    return extra


def _chat(body: Body, number: int) -> Body:
    text = reply_to(_last(body["messages"]))
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop", **_chat_extra(body, text)}
    whole = {
        "id": f"chat-{number}",
        "object": "chat.completion",
        "created": 1_700_000_000 + number,
        "model": body["model"],
        "choices": [choice],
        "usage": {"prompt_tokens": 7, "completion_tokens": len(text), "total_tokens": 7},
    }
    if body.get("return_token_ids"):
        whole["prompt_token_ids"] = ids(rendered(body["messages"]))
    return whole


def _chat_events(body: Body, number: int) -> list[str]:
    text = reply_to(_last(body["messages"]))
    base = {"id": f"chat-{number}", "object": "chat.completion.chunk", "created": 1, "model": "ok"}
    chunks: list[Body] = []
    for piece in pieces(text):
        delta = {"role": "assistant", "content": piece}
        chunks.append(
            {**base, "choices": [{"index": 0, "delta": delta, **_chat_extra(body, piece)}]}
        )
    if body.get("return_token_ids"):
        chunks[0]["prompt_token_ids"] = ids(rendered(body["messages"]))
    chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return [*_data(*chunks), "data: [DONE]\n\n"]


def _text_extra(body: Body, text: str) -> Body:
    extra: Body = {}
    if body.get("return_token_ids"):
        extra["token_ids"] = ids(text)
    if body.get("logprobs"):
        extra["logprobs"] = {"tokens": list(text), "token_logprobs": logprobs(text)}
    return extra


def _text(body: Body, number: int) -> Body:
    text = reply_to(body["prompt"])
    choice = {"index": 0, "text": text, "finish_reason": "stop", **_text_extra(body, text)}
    if body.get("return_token_ids"):
        choice["prompt_token_ids"] = ids(body["prompt"])
    base = {"id": f"text-{number}", "object": "text_completion", "created": 1, "model": "ok"}
    return {**base, "choices": [choice]}


def _text_events(body: Body, number: int) -> list[str]:
    base = {"id": f"text-{number}", "object": "text_completion", "created": 1, "model": "ok"}
    chunks: list[Body] = [
        {**base, "choices": [{"index": 0, "text": piece, **_text_extra(body, piece)}]}
        for piece in pieces(reply_to(body["prompt"]))
    ]
    if body.get("return_token_ids"):
        chunks[0]["choices"][0]["prompt_token_ids"] = ids(body["prompt"])
    return [*_data(*chunks), "data: [DONE]\n\n"]


def _messages(body: Body, number: int) -> Body:
    return {
        "id": f"msg-{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [{"type": "text", "text": reply_to(_last(body["messages"]))}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 4},
    }


def _messages_events(body: Body, number: int) -> list[str]:
    whole = _messages(body, number)
    text = whole["content"][0]["text"]
    start = {**whole, "content": [], "stop_reason": None}
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
        for piece in pieces(text)
    ]
    return _named(
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *deltas,
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 4},
        },
        {"type": "message_stop"},
    )


def _responses(body: Body, number: int) -> Body:
    given = body["input"]
    last = given if isinstance(given, str) else _last(given)
    content = [{"type": "output_text", "text": reply_to(last), "annotations": []}]
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    return {
        "id": f"resp-{number}",
        "object": "response",
        "created_at": 1,
        "model": body["model"],
        "status": "completed",
        "output": [{**item, "content": content}],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
    }


def _responses_events(body: Body, number: int) -> list[str]:
    whole = _responses(body, number)
    item = whole["output"][0]
    begun = {**whole, "output": [], "status": "in_progress"}
    deltas: list[Body] = [
        {
            "type": "response.output_text.delta",
            "item_id": "m",
            "output_index": 0,
            "content_index": 0,
            "delta": piece,
            "logprobs": [],
        }
        for piece in pieces(item["content"][0]["text"])
    ]
    events: list[Body] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {
            "type": "response.content_part.added",
            "item_id": "m",
            "output_index": 0,
            "content_index": 0,
            "part": {"type": "output_text", "text": "", "annotations": []},
        },
        *deltas,
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return _named(*({**event, "sequence_number": at} for at, event in enumerate(events)))


EVENTS = {
    "/v1/chat/completions": _chat_events,
    "/v1/completions": _text_events,
    "/v1/messages": _messages_events,
    "/v1/responses": _responses_events,
}
WHOLES = {
    "/v1/chat/completions": _chat,
    "/v1/completions": _text,
    "/v1/messages": _messages,
    "/v1/responses": _responses,
}
