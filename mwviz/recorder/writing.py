"""The one thread that writes the log, so that passing answers on never waits for the disk."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from mwviz.display import visible
from mwviz.errors import MwvizError, TraceError
from mwviz.formats.exchange import Api
from mwviz.formats.fields import FieldError
from mwviz.recorder.bodies import answer
from mwviz.recorder.calllog import CallLog

EXPECTED = (FieldError, MwvizError, OSError)
"""Errors whose text says what was wrong; of others the kind is told too."""


class Exchanged(NamedTuple):
    """What went over the wire for one request."""

    rollout: str
    api: Api
    request: bytes
    response: bytes
    started: float
    """Seconds since the epoch."""
    status: int
    """0 if the upstream did not answer."""
    whole: bool
    """Whether the response came to its end."""


class Writing:
    """Takes exchanges in any thread, writes them in order in its own."""

    def __init__(
        self,
        log: CallLog,
        *,
        raw: Path | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        """Writes to `log`, and the bodies as they were to `raw` (gzip, JSON Lines) if given.

        Raises:
            TraceError: `raw` cannot be written.
        """
        if raw is not None:
            try:
                raw.open("ab").close()
            except OSError as error:
                raise TraceError(f"{raw}: cannot be written: {error.strerror}") from error
        self.log = log
        self._raw = raw
        self.tell = tell or _to_stderr
        """Says one thing to whoever runs the recorder."""
        self.lost = 0
        """Requests that could not be recorded; each was told."""
        self._thread = ThreadPoolExecutor(1, "mwviz-record")

    def submit(self, exchanged: Exchanged) -> Future[None]:
        """Queues one exchange; the future is done when it is on the disk or was refused aloud."""
        return self._thread.submit(self._write, exchanged)

    def reward(self, rollout: str, reward: float) -> Future[None]:
        """Queues what a rollout earned."""
        return self._thread.submit(self.log.reward, rollout, reward)

    def close(self) -> None:
        """Writes what is queued and closes the log."""
        self._thread.shutdown(wait=True)
        self.log.close()

    def _write(self, exchanged: Exchanged) -> None:
        if self._raw is not None:
            self._guarded(_append_raw, self._raw, exchanged, what="raw bodies not kept")
        self.lost += not self._guarded(_add, self.log, exchanged, what="not recorded")

    def _guarded(
        self,
        write: Callable[[Any, Exchanged], None],
        target: object,
        exchanged: Exchanged,
        *,
        what: str,
    ) -> bool:
        """Whether it was written; the client's answer must not fail with the log."""
        try:
            write(target, exchanged)
        except Exception as error:
            told = str(error) if isinstance(error, EXPECTED) else repr(error)
            self.tell(f"{what}: a request of rollout {exchanged.rollout}: {told}")
            return False
        return True


def _add(log: CallLog, exchanged: Exchanged) -> None:
    made = answer(
        exchanged.api,
        exchanged.request,
        exchanged.response,
        started=exchanged.started,
        status=exchanged.status,
        whole=exchanged.whole,
    )
    log.add(exchanged.rollout, made)


def _append_raw(path: Path, exchanged: Exchanged) -> None:
    """One gzip member a record, so that a torn one does not cost those before it."""
    record = {
        "rollout": exchanged.rollout,
        "time": exchanged.started,
        "status": exchanged.status,
        "request": exchanged.request.decode("utf-8", "replace"),
        "response": exchanged.response.decode("utf-8", "replace"),
    }
    with path.open("ab") as file:
        file.write(gzip.compress(json.dumps(record).encode() + b"\n"))


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"mwviz: {visible(text)}\n")
