"""Runs the recording proxy until it is interrupted, which is how a recording ends."""

from __future__ import annotations

import logging
import socket
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from mwviz.errors import SetupError
from mwviz.extras import needed
from mwviz.recorder.calllog import CallLog
from mwviz.recorder.engines import ENGINES
from mwviz.recorder.secrets import Secrets
from mwviz.recorder.writing import Writing

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from uvicorn import Server

LOCAL = ("127.0.0.1", "localhost", "::1", "[::1]")
NO_TOKENS = "no"
KEEP_ALIVE_S = 120
"""Seconds an idle connection stays open: longer than clients keep theirs (httpx 5, Go and reqwest
90), who then close first; else a request may go out on one that is being closed."""
BACKLOG = 2048
"""Connections that may wait to be accepted."""
NO_NEWS = (
    "ASGI callable returned without completing response",
    "timeout graceful shutdown exceeded",
    CancelledError.__name__,
)
"""What uvicorn says of an answer that ends where the upstream's broke, or as the recorder stops."""
TOKENS = ("auto", *ENGINES, NO_TOKENS)
"""Whose token ids to ask for; `auto` asks the upstream which engine it is."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What to record, and where to."""

    upstream: str
    out: Path
    host: str = LOCAL[0]
    port: int = 8787
    """0 takes a free one."""
    tokens: str = "auto"
    secrets: Secrets | None = None
    raw: Path | None = None
    """Where the bodies go as they were; not masked."""


class Recorded(NamedTuple):
    """What a recorder did until it was stopped."""

    calls: int
    """Calls in the file that were not there before."""
    lost: int
    """Requests that could not be recorded."""


def serve(recording: Recording, *, ready: Callable[[str], None]) -> Recorded:
    """Records until interrupted.

    Args:
        recording: what to do.
        ready: is given the proxy's URL once it listens.

    Raises:
        SetupError: A package is missing, the upstream is no URL or the port is taken.
        TraceError: The file cannot be written, or holds something else.
    """
    with needed():
        from mwviz.recorder.app import recording_app
        from mwviz.recorder.proxy import Proxy
    _check_url(recording.upstream)
    listening = listen(recording.host, recording.port)
    log = CallLog(recording.out, secrets=recording.secrets)
    writing = Writing(log, raw=recording.raw)
    engine = next((engine for engine in ENGINES if engine == recording.tokens), None)
    proxy = Proxy(recording.upstream, writing, engine=engine, detect=recording.tokens == "auto")
    hosts = LOCAL if recording.host in LOCAL else ("*",)
    answering = server(recording_app(proxy, writing, hosts=hosts))
    name = f"[{recording.host}]" if ":" in recording.host else recording.host
    ready(f"http://{name}:{listening.getsockname()[1]}")
    try:
        with suppress(KeyboardInterrupt):
            answering.run(sockets=[listening])
    finally:
        writing.close()
        listening.close()
    return Recorded(log.calls, writing.lost)


def server(app: Starlette) -> Server:
    """What answers for the app once it is run on a socket that listens."""
    import uvicorn

    logging.getLogger("uvicorn.error").addFilter(_is_news)
    return uvicorn.Server(
        uvicorn.Config(
            app,
            ws="none",  # the proxy itself says that it passes on none
            log_level="error",
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=2,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
    )


def _is_news(record: logging.LogRecord) -> bool:
    """Whether it is a fault: not an answer that the upstream broke, or that ended as we stop."""
    _, error, _ = record.exc_info or (None, None, None)
    known = any(said in record.getMessage() for said in NO_NEWS)
    return not (known or isinstance(error, CancelledError))


def _check_url(upstream: str) -> None:
    try:
        address = urlsplit(upstream)
        whole = address.scheme in ("http", "https") and address.hostname and address.port != 0
    except ValueError:
        whole = False
    if not whole:
        raise SetupError(f"{upstream!r} is no URL, expected http://HOST or https://HOST")
    if address.query or address.fragment:
        raise SetupError(f"{upstream!r} has a query, expected http://HOST/PATH")


def listen(host: str, port: int) -> socket.socket:
    """A socket on which clients may come from now on; a port of 0 takes a free one.

    Raises:
        SetupError: The port is taken, or there is no such host.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sends small pieces at once; else events wait for each other.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(BACKLOG)  # before the address is told, so that nobody comes too early
    except OverflowError:
        listening.close()
        raise SetupError(f"no port {port}, expected 0 to 65535; 0 takes a free one") from None
    except OSError as error:
        listening.close()
        why = f"{error.strerror}; choose another --port, 0 takes a free one"
        raise SetupError(f"cannot listen on {host}:{port}: {why}") from error
    return listening
