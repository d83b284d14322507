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
from weakref import WeakValueDictionary

from mwviz.errors import SetupError
from mwviz.formats.percall import ONLY_ROLLOUT
from mwviz.recorder.calllog import CallLog
from mwviz.recorder.endpoints import api_of
from mwviz.recorder.secrets import Secrets
from mwviz.recorder.writing import Exchanged, Writing

Client = TypeVar("Client")
OPEN: WeakValueDictionary[str, Writing] = WeakValueDictionary()
"""What writes a file, by its path, as long as a client does."""
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

    A call is on the disk once its answer was read to the end; a request that got none leaves
    nothing. Copies that the client makes of itself (`with_options`) write too. Called again, with
    another rollout or file, what follows goes there and only there.

    Args:
        client: of the openai or anthropic package, for threads or for asyncio.
        path: of the file, made or continued; or a log. Several clients may write to one.
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
    hook = _Hook(_writing(path, secrets), rollout)
    waits = inspect.iscoroutinefunction(http.send)
    before, after = (hook.begin_async, hook.end_async) if waits else (hook.begin, hook.end)
    http.event_hooks = {
        "request": [*_of_others(hooks, "request"), before],
        "response": [*_of_others(hooks, "response"), after],
    }
    return client


def _of_others(hooks: dict[str, list[Any]], event: str) -> list[Any]:
    """The hooks of a client that are not ours."""
    return [h for h in hooks.get(event, ()) if not isinstance(getattr(h, "__self__", None), _Hook)]


def _writing(path: str | Path | CallLog, secrets: Secrets | None) -> Writing:
    """The one thread that writes a file, whoever asks for it."""
    name = path.path if isinstance(path, CallLog) else path
    key = str(Path(name).resolve())
    found = OPEN.get(key)
    if (
        found is not None
        and not found.log.closed
        and (path is found.log or not isinstance(path, CallLog))
    ):
        return found
    log = path if isinstance(path, CallLog) else CallLog(path, secrets=secrets)
    OPEN[key] = made = Writing(log)
    return made


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
            copy = copying(response, http, self._writing, self._rollout)
            if response.is_closed:  # a cache or a test gave it whole: nothing will be streamed
                copy.take(response.content)
            else:
                response.stream = copy


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
        copy = self._http.Response(
            self._response.status_code, headers=self._response.headers, content=bytes(self._body)
        )
        self.take(copy.content, whole=self._whole)

    def take(self, content: bytes, *, whole: bool = True) -> None:
        """Writes the call with the decoded body of its answer."""
        self._written = True
        request = self._response.request
        api = api_of(request.url.path)
        assert api is not None
        self._writing.submit(
            Exchanged(
                self._rollout,
                api,
                request.content,
                content,
                request.extensions.get(STARTED, time.time()),
                self._response.status_code,
                whole,
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
