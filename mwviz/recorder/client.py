"""`record(client, ...)`: a client of the openai or anthropic package that writes its calls down.

A hook of the client's HTTP layer copies every answer as it is read; what the client sends, and
what the program gets, stays as it was.
"""

from __future__ import annotations

import inspect
import sys
import time
import types
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, TypeVar

from mwviz.errors import SetupError
from mwviz.formats.percall import ONLY_ROLLOUT
from mwviz.recorder.calllog import CallLog
from mwviz.recorder.endpoints import api_of
from mwviz.recorder.secrets import Secrets
from mwviz.recorder.writing import Exchanged, Writing

Client = TypeVar("Client")
STARTED = "mwviz_started"
"""Where a request carries the time it was made."""


def record(
    client: Client,
    path: str | Path | CallLog,
    *,
    rollout: str = ONLY_ROLLOUT,
    secrets: Secrets | None = None,
) -> Client:
    """Writes every model call of the client to a `mwviz/1` file; gives the same client.

    A call is on the disk once its answer was read to the end. Copies that the client makes of
    itself (`with_options`) write too.

    Args:
        client: of the openai or anthropic package, for threads or for asyncio.
        path: of the file, made or continued; or a log that several clients write to.
        rollout: Id of the episode the calls belong to.
        secrets: Masks credentials in the text, if given.

    Raises:
        SetupError: The client is of another kind.
        TraceError: The file cannot be written.
    """
    http = getattr(client, "_client", None)
    hooks = getattr(http, "event_hooks", None)
    if http is None or not isinstance(hooks, dict):
        raise SetupError(
            f"{type(client).__name__} has no HTTP client to record, expected one of the openai or "
            "anthropic package; `mwviz record` records any other"
        )
    log = path if isinstance(path, CallLog) else CallLog(path, secrets=secrets)
    hook = _Hook(Writing(log), rollout)
    waits = inspect.iscoroutinefunction(http.send)
    before, after = (hook.begin_async, hook.end_async) if waits else (hook.begin, hook.end)
    http.event_hooks = {
        "request": [*hooks.get("request", ()), before],
        "response": [*hooks.get("response", ()), after],
    }
    return client


class _Hook:
    """What happens before a request is sent and when its answer begins."""

    def __init__(self, writing: Writing, rollout: str) -> None:
        self._writing = writing
        self._rollout = rollout

    def begin(self, request: Any) -> None:
        """Notes the time."""
        request.extensions[STARTED] = time.time()

    def end(self, response: Any) -> None:
        """Copies the answer's body while it is read."""
        self._copy(response, "SyncByteStream", _Copy)

    async def begin_async(self, request: Any) -> None:
        """`begin`, for asyncio."""
        self.begin(request)

    async def end_async(self, response: Any) -> None:
        """`end`, for asyncio."""
        self._copy(response, "AsyncByteStream", _AsyncCopy)

    def _copy(self, response: Any, base: str, kind: type[_Copy] | type[_AsyncCopy]) -> None:
        if response.request.method == "POST" and api_of(response.request.url.path):
            http = sys.modules[type(response).__module__.partition(".")[0]]
            # httpx and its successor each take streams of their own base class only.
            copying = types.new_class(kind.__name__, (kind, getattr(http, base)))
            response.stream = copying(response, http, self._writing, self._rollout)


class _Copy:
    """A body that is written down when it has been read."""

    def __init__(self, response: Any, http: Any, writing: Writing, rollout: str) -> None:
        self._stream = response.stream
        self._http = http
        self._response = response
        self._writing = writing
        self._rollout = rollout
        self._body = bytearray()
        self._whole = False
        self._written = False

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            self._body += chunk
            yield chunk
        self._whole = True

    def close(self) -> None:
        """Closes the stream; returns once the call is on the disk."""
        self._stream.close()
        self._write()

    def _write(self) -> None:
        if self._written:
            return
        self._written = True
        request = self._response.request
        api = api_of(request.url.path)
        assert api is not None
        copy = self._http.Response(
            self._response.status_code, headers=self._response.headers, content=bytes(self._body)
        )
        self._writing.submit(
            Exchanged(
                self._rollout,
                api,
                request.content,
                copy.content,
                request.extensions.get(STARTED, time.time()),
                self._response.status_code,
                self._whole,
            )
        ).result()


class _AsyncCopy(_Copy):
    """The same for asyncio."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._body += chunk
            yield chunk
        self._whole = True

    async def aclose(self) -> None:
        """`close`, for asyncio; the short write blocks the loop so that no end is lost."""
        await self._stream.aclose()
        self._write()
