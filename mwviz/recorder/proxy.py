"""The recording proxy: an ASGI app that passes every request on and writes down model calls.

The answer goes to the client as it comes, byte for byte unless token ids are asked for and taken
out. Its last piece waits until the call is on the disk, so a call that a client has seen whole is
recorded, whatever happens to the proxy afterwards. Headers are never kept.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from mwviz.recorder.bodies import ended
from mwviz.recorder.endpoints import ROLLOUT_NAMES, ROLLOUTS, api_of, place
from mwviz.recorder.engines import (
    ENGINE_APIS,
    Asked,
    Engine,
    EventStripper,
    ask,
    engine_of,
    stripped,
)
from mwviz.recorder.taken import Taken, decoded
from mwviz.recorder.writing import Writing

HOP_BY_HOP = (
    *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization"),
    *(b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"),
)
"""Headers that speak of one connection only; `connection` may name more."""
CONNECT_S = 10.0
"""Seconds to reach the upstream; how long it may take to answer is the client's business."""
IDLE_S = 3.0
"""Seconds an unused connection to the upstream is kept; many servers (uvicorn, and so vLLM and
SGLang; Node) close theirs after 5, and a request that is sent as they do gets no answer."""
LOOK_S = 3.0
"""Seconds in which the upstream may tell its engine; the first request waits for it."""
UPGRADE_REQUIRED = 426
"""Status at which clients that prefer WebSockets, such as Codex, take HTTP instead."""
NO_WEBSOCKETS = (
    "mwviz record passes on no WebSockets; let the client use HTTP with streams of events"
)
REFUSES_FIELDS = (400, 422)
"""Status of an upstream that does not know the fields that ask for token ids."""
BAD_GATEWAY = 502
PASSING = (401, 429, 500, 502, 503, 504)
"""Status of an upstream that is still loading or busy, or does not know this one client."""
UNSAID = (404, 405)
"""Status of an upstream that has no list of models: it is none of the engines."""

Header = tuple[bytes, bytes]


class Proxy:
    """Passes requests on to one upstream and gives model calls to the log."""

    def __init__(
        self, upstream: str, writing: Writing, *, engine: Engine | None, detect: bool = True
    ) -> None:
        """A proxy for `upstream`.

        Args:
            upstream: its URL, with or without `/v1`.
            writing: takes the calls.
            engine: whose token ids to ask for; None asks for none.
            detect: ask the upstream which engine it is; only where `engine` is None.
        """
        self._upstream = upstream.rstrip("/").removesuffix("/v1")
        self._shown = "//".join(part.rpartition("@")[2] for part in self._upstream.split("//"))
        self._writing = writing
        self._engine = engine
        self._detects = detect and engine is None
        self._looking = asyncio.Lock()
        limits = httpx.Limits(
            max_connections=None, max_keepalive_connections=100, keepalive_expiry=IDLE_S
        )
        timeout = httpx.Timeout(None, connect=CONNECT_S)
        self._client = httpx.AsyncClient(timeout=timeout, limits=limits, follow_redirects=False)
        self._serving: set[asyncio.Task[Any]] = set()

    async def aclose(self) -> None:
        """Closes the connections to the upstream, once those who were served have their end."""
        if self._serving:  # cut off by whoever stops the server; what came is still to be kept
            await asyncio.wait(self._serving)
        await self._client.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request; a client that leaves takes its upstream request along."""
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            await self._served(scope, receive, send)
        finally:
            self._serving.discard(task)

    async def _served(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.headers.get("upgrade", "").lower() == "websocket":
            await _refuse(request, UPGRADE_REQUIRED, NO_WEBSOCKETS, send)
            return
        try:
            body = await request.body()
        except ClientDisconnect:  # before it had said what it wants
            return
        async with anyio.create_task_group() as tasks:

            async def leave_with_client() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                tasks.cancel_scope.cancel()

            tasks.start_soon(leave_with_client)
            await self._serve(request, body, send)
            tasks.cancel_scope.cancel()

    async def _serve(self, request: Request, body: bytes, send: Send) -> None:
        raw: bytes | None = request.scope.get("raw_path")  # as it was sent, %2F and all
        rollout, path = place(request.scope["path"] if raw is None else raw.decode("latin-1"))
        api = api_of(path) if request.method == "POST" else None
        if path.startswith(ROLLOUTS):
            await _refuse(request, 404, f"{ROLLOUTS}NAME/...: {ROLLOUT_NAMES}", send)
            return
        plain = decoded(body, request.headers.get("content-encoding", ""))
        taken = None if api is None else Taken(rollout, api, plain, time.time())
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._pass_on(request, path, body, sending, taken=taken)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why = str(error) or type(error).__name__
            if begun:  # no end is sent: the connection breaks here as the upstream's did
                self._writing.tell(f"rollout {rollout}: the upstream broke its answer off: {why}")
            else:
                told = f"the upstream {self._shown} gave no answer: {why}"
                self._writing.tell(f"rollout {rollout}: {told}")
                await _refuse(request, BAD_GATEWAY, told, send)
        finally:
            if taken is not None and not taken.whole:
                self._writing.submit(taken.exchanged())

    async def _pass_on(
        self, request: Request, path: str, body: bytes, send: Send, *, taken: Taken | None
    ) -> None:
        asked = Asked(body, ())
        if taken is not None and taken.api in ENGINE_APIS:
            asked = ask(body, taken.api, await self._found_engine(request))
        answer = await self._answer(request, path, asked.content, plain=taken is not None)
        if asked.strip and answer.status_code in REFUSES_FIELDS:
            await answer.aclose()
            asked = Asked(body, ())
            answer = await self._answer(request, path, body, plain=True)
            if answer.status_code not in REFUSES_FIELDS:
                self._engine = None
        try:
            if taken is not None:
                taken.status = answer.status_code
                taken.encoding = answer.headers.get("content-encoding", "")
            await self._relay(answer, send, taken=taken, strip=asked.strip)
        finally:
            with anyio.CancelScope(shield=True):
                await answer.aclose()

    async def _found_engine(self, request: Request) -> Engine | None:
        """The upstream's engine, asked for until it is up, with the credentials of a client."""
        async with self._looking:
            if self._detects:
                self._detects = await self._look(request)
        return self._engine

    async def _look(self, request: Request) -> bool:
        """Asks the upstream what it is; whether the next request should ask again."""
        url = f"{self._upstream}/v1/models"
        headers = _passed(request.headers.raw, drop=(b"content-length",))
        try:
            found = await self._client.get(url, headers=headers, timeout=LOOK_S)
            if found.status_code in PASSING:
                return True
            if found.is_error and found.status_code not in UNSAID:
                self._unsaid(f"answered {found.status_code} when it was asked what it is")
            else:
                self._engine = engine_of(found.json())
        except httpx.ConnectTimeout:
            return True
        except httpx.TimeoutException:
            self._unsaid(f"did not say within {LOOK_S:g} s what it is")
        except httpx.TransportError:
            return True
        except (httpx.HTTPError, ValueError):
            pass  # another kind of answer, so none of the engines
        return False

    def _unsaid(self, why: str) -> None:
        told = f"the upstream {self._shown} {why}, so token ids are not asked for"
        self._writing.tell(f"{told}; --tokens can name it")

    async def _answer(
        self, request: Request, path: str, content: bytes, *, plain: bool
    ) -> httpx.Response:
        """The upstream's answer as it begins; `plain` asks for it without a content encoding."""
        drop = (b"content-length", *((b"accept-encoding",) if plain else ()))
        headers = _passed(request.headers.raw, drop=drop)
        if plain:
            headers.append((b"accept-encoding", b"identity"))
        query = request.scope["query_string"].decode("latin-1")
        url = f"{self._upstream}{path}" + (f"?{query}" if query else "")
        sent = self._client.build_request(request.method, url, headers=headers, content=content)
        return await self._client.send(sent, stream=True)

    async def _relay(
        self, answer: httpx.Response, send: Send, *, taken: Taken | None, strip: tuple[str, ...]
    ) -> None:
        headers = _passed(answer.headers.raw, drop=(b"content-length",) if strip else ())
        await send(
            {
                "type": "http.response.start",
                "status": answer.status_code,
                "headers": [(name.lower(), value) for name, value in headers],
            }
        )
        held = b""
        async for chunk in _relayed(answer, taken, strip):
            if taken is not None and ended(taken.response):
                await self._write(taken)
            ready, held = (chunk, b"") if _streams(answer) else (held, chunk)
            if ready:
                await send({"type": "http.response.body", "body": ready, "more_body": True})
        if taken is not None:
            await self._write(taken)
        await send({"type": "http.response.body", "body": held})

    async def _write(self, taken: Taken) -> None:
        """Returns once the whole exchange is on the disk."""
        if not taken.whole:
            taken.whole = True
            written = self._writing.submit(taken.exchanged())
            # A client that leaves now must not take the call back that waits to be written.
            await asyncio.shield(asyncio.wrap_future(written))


async def _relayed(
    answer: httpx.Response, taken: Taken | None, strip: tuple[str, ...]
) -> AsyncIterator[bytes]:
    """The body as the client gets it; what came goes to `taken` first."""
    events = EventStripper(strip) if strip and _streams(answer) else None
    async for chunk in answer.aiter_raw():
        if taken is not None:
            taken.response += chunk
        if not strip:
            yield chunk
        elif events is not None and (ready := events.feed(chunk)):
            yield ready
    if events is not None:
        yield events.end()
    elif strip and taken is not None:
        yield stripped(bytes(taken.response), strip)


async def _refuse(request: Request, status: int, told: str, send: Send) -> None:
    """Answers for the proxy itself, in the shape that clients show as an error's text."""
    response = JSONResponse({"error": {"message": told, "type": "mwviz"}}, status)
    await response(request.scope, request.receive, send)


def _streams(answer: httpx.Response) -> bool:
    return "text/event-stream" in answer.headers.get("content-type", "")


def _passed(headers: list[Header], *, drop: tuple[bytes, ...] = ()) -> list[Header]:
    """The headers as bytes, for they may be of any encoding, without those of one connection."""
    named = b",".join(value for name, value in headers if name.lower() == b"connection")
    of_one = (name.strip().lower() for name in named.split(b","))  # RFC 9110, sec. 7.6.1
    kept_back = {*HOP_BY_HOP, b"host", *drop, *of_one}
    return [(name, value) for name, value in headers if name.lower() not in kept_back]
