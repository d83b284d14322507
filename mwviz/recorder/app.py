"""The proxy as a server runs it: with rewards, for callers of certain names, with an end."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from mwviz.errors import MwvizError
from mwviz.recorder.endpoints import ROLLOUT_PATH
from mwviz.recorder.proxy import Proxy
from mwviz.recorder.writing import Writing

NO_ROOM = 507
"""Status of a reward that could not be written."""


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
        try:
            await asyncio.wrap_future(writing.reward(found["rollout"], number))
        except MwvizError as error:  # a full disk, which leaves a file that is whole
            return JSONResponse({"error": str(error)}, NO_ROOM)
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
