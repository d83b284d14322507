"""The recording proxy: an ASGI app that passes every request on and writes down model calls.

The answer goes to the client as it comes, byte for byte unless token ids are asked for and taken
out. Its last piece waits until the call is on the disk, so a call that a client has seen whole is
recorded, whatever happens to the proxy afterwards. Headers are never kept.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import httpx
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Message, Receive, Scope, Send

from mwviz.formats.exchange import Api
from mwviz.recorder.bodies import ended
from mwviz.recorder.endpoints import ROLLOUT_NAMES, ROLLOUT_PATH, ROLLOUTS, api_of, place
from mwviz.recorder.engines import Asked, Engine, EventStripper, ask, engine_of, stripped
from mwviz.recorder.writing import Exchanged, Writing

HOP_BY_HOP = (
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"),
    *("te", "trailer", "transfer-encoding", "upgrade"),
)
"""Headers that speak of one connection only."""
CONNECT_S = 10.0
"""Seconds to reach the upstream; how long it may take to answer is the client's business."""
REFUSES_FIELDS = (400, 422)
"""Status of an upstream that does not know the fields that ask for token ids."""
BAD_GATEWAY = 502


@dataclass(slots=True)
class _Taken:
    """What came back so far for one recorded request."""

    rollout: str
    api: Api
    request: bytes
    started: float
    status: int = 0
    response: bytearray = field(default_factory=bytearray)
    encoding: str = ""
    whole: bool = False

    def exchanged(self) -> Exchanged:
        """The exchange as far as it went, its body decoded."""
        body = _decoded(bytes(self.response), self.encoding)
        return Exchanged(
            self.rollout, self.api, self.request, body, self.started, self.status, self.whole
        )


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
        self._writing = writing
        self._engine = engine
        self._detects = detect and engine is None
        self._looking = asyncio.Lock()
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
        timeout = httpx.Timeout(None, connect=CONNECT_S)
        self._client = httpx.AsyncClient(timeout=timeout, limits=limits, follow_redirects=False)

    async def aclose(self) -> None:
        """Closes the connections to the upstream."""
        await self._client.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request; a client that leaves takes its upstream request along."""
        request = Request(scope, receive)
        body = await request.body()
        async with anyio.create_task_group() as tasks:

            async def leave_with_client() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                tasks.cancel_scope.cancel()

            tasks.start_soon(leave_with_client)
            await self._serve(request, body, send)
            tasks.cancel_scope.cancel()

    async def _serve(self, request: Request, body: bytes, send: Send) -> None:
        rollout, path = place(request.scope["path"])
        api = api_of(path) if request.method == "POST" else None
        if path.startswith(ROLLOUTS):
            await _refuse(request, 404, f"{ROLLOUTS}NAME/...: {ROLLOUT_NAMES}", send)
            return
        plain = _decoded(body, request.headers.get("content-encoding", ""))
        taken = None if api is None else _Taken(rollout, api, plain, time.time())
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._pass_on(request, path, body, sending, taken=taken)
        except httpx.HTTPError as error:
            if begun:
                return  # without an end: the connection breaks here as the upstream's did
            told = f"the upstream gave no answer: {type(error).__name__}"
            await _refuse(request, BAD_GATEWAY, told, send)
        finally:
            if taken is not None and not taken.whole:
                self._writing.submit(taken.exchanged())

    async def _pass_on(
        self, request: Request, path: str, body: bytes, send: Send, *, taken: _Taken | None
    ) -> None:
        asked = Asked(body, ())
        if taken is not None:
            asked = ask(body, taken.api, await self._found_engine(request))
        answer = await self._answer(request, path, asked)
        if asked.strip and answer.status_code in REFUSES_FIELDS:
            await answer.aclose()
            asked = Asked(body, ())
            answer = await self._answer(request, path, asked)
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
        """The upstream's engine, asked for once, with the credentials of the first client."""
        async with self._looking:
            if self._detects:
                self._detects = False
                try:
                    url = f"{self._upstream}/v1/models"
                    headers = _passed(request.headers.items(), drop=("content-length",))
                    found = await self._client.get(url, headers=headers, timeout=CONNECT_S)
                    self._engine = engine_of(found.json())
                except (httpx.HTTPError, ValueError):
                    self._engine = None
        return self._engine

    async def _answer(self, request: Request, path: str, asked: Asked) -> httpx.Response:
        drop = ("content-length", *(("accept-encoding",) if asked.strip else ()))
        headers = _passed(request.headers.items(), drop=drop)
        if asked.strip:
            headers.append(("accept-encoding", "identity"))
        query = request.scope["query_string"].decode("latin-1")
        url = f"{self._upstream}{path}" + (f"?{query}" if query else "")
        sent = self._client.build_request(
            request.method, url, headers=headers, content=asked.content
        )
        return await self._client.send(sent, stream=True)

    async def _relay(
        self, answer: httpx.Response, send: Send, *, taken: _Taken | None, strip: tuple[str, ...]
    ) -> None:
        headers = _passed(answer.headers.multi_items(), drop=("content-length",) if strip else ())
        await send(
            {
                "type": "http.response.start",
                "status": answer.status_code,
                "headers": [(name.encode("latin-1"), v.encode("latin-1")) for name, v in headers],
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

    async def _write(self, taken: _Taken) -> None:
        """Returns once the whole exchange is on the disk."""
        if not taken.whole:
            taken.whole = True
            written = self._writing.submit(taken.exchanged())
            # A client that leaves now must not take the call back that waits to be written.
            await asyncio.shield(asyncio.wrap_future(written))


async def _relayed(
    answer: httpx.Response, taken: _Taken | None, strip: tuple[str, ...]
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


def _passed(headers: list[tuple[str, str]], *, drop: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in HOP_BY_HOP and name.lower() not in ("host", *drop)
    ]


def _decoded(body: bytes, encoding: str) -> bytes:
    """A body without its content encoding, as far as it goes if it was cut; empty if it is none."""
    if not encoding:
        return body
    try:
        return httpx.Response(200, headers={"content-encoding": encoding}, content=body).content
    except httpx.DecodingError:
        return b""


def recording_app(proxy: Proxy, writing: Writing, *, hosts: tuple[str, ...]) -> Starlette:
    """The proxy with the one path of its own: `POST /r/<rollout>/reward`.

    Args:
        proxy: takes all other paths.
        writing: closed when the app ends.
        hosts: names under which it may be called; `*` for any.
    """

    async def reward(request: Request) -> Response:
        try:
            value = (await request.json())["reward"]
            number = float(value)
        except (ValueError, TypeError, KeyError):
            number = math.nan
        found = ROLLOUT_PATH.fullmatch(request.scope["path"])
        if not math.isfinite(number) or found is None:
            return JSONResponse({"error": 'expected {"reward": NUMBER}'}, 400)
        await asyncio.wrap_future(writing.reward(found["rollout"], number))
        return JSONResponse({"rollout": found["rollout"], "reward": number})

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await proxy.aclose()
        writing.close()

    return Starlette(
        routes=[Route("/r/{rollout}/reward", reward, methods=["POST"]), Mount("/", proxy)],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))],
        lifespan=lifespan,
    )
