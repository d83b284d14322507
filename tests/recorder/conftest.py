from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from mwviz.recorder.app import recording_app
from mwviz.recorder.calllog import CallLog
from mwviz.recorder.engines import Engine
from mwviz.recorder.proxy import Proxy
from mwviz.recorder.secrets import Secrets
from mwviz.recorder.server import LOCAL, server
from mwviz.recorder.writing import Writing
from mwviz.trace import Trace, load
from tests.recorder.running import DEADLINE, running
from tests.recorder.upstream import Upstream, upstream

Result = TypeVar("Result")


@dataclass(frozen=True)
class Recorder:
    """A running proxy, its upstream and its file."""

    url: str
    upstream: Upstream
    path: Path

    def base(self, rollout: str = "a") -> str:
        return f"{self.url}/r/{rollout}"

    def trace(self) -> Trace:
        return load(self.path)


@contextmanager
def recorder(
    folder: Path,
    *,
    engine: str = "nobody",
    asks: Engine | None = None,
    secrets: Secrets | None = None,
    raw: Path | None = None,
    address: str | None = None,
) -> Iterator[Recorder]:
    path = folder / "run.jsonl"
    with upstream(engine) as provider:
        writing = Writing(CallLog(path, secrets=secrets), raw=raw)
        proxy = Proxy(address or provider.url, writing, engine=asks, detect=asks is None)
        app = recording_app(proxy, writing, hosts=LOCAL)
        with running(server(app)) as url:
            yield Recorder(url, provider, path)


@pytest.fixture
def recording(tmp_path: Path) -> Callable[..., AbstractContextManager[Recorder]]:
    return lambda **options: recorder(tmp_path, **options)


def soon(happened: Callable[[], bool]) -> None:
    """Waits until it has happened."""
    deadline = time.monotonic() + DEADLINE
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def finished(work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """What the coroutine gives, run in a thread: another test's browser may own this one's loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(work())).result()
