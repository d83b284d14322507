"""A `mwviz/1` file that grows by one call at a time and survives the end of its writer.

Records go to the file in one write a call and are synced to the disk; a torn last line of an
earlier writer is closed, not removed. It knows bodies, not connections.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from mwviz.errors import TraceError
from mwviz.formats.api_log import exchange_calls
from mwviz.formats.chat import Pool
from mwviz.formats.exchange import Api, Exchange
from mwviz.formats.fields import FieldError, Object
from mwviz.formats.mwviz1_writer import LONE_SURROGATES, Journal, header, line, rollout_record
from mwviz.formats.openai_responses import Chains
from mwviz.recorder.secrets import Secrets
from mwviz.rollout import Call, Hole, Rollout

OPEN_ROLLOUTS = 64
"""Rollouts whose messages are kept at hand; of older ones, digests."""
UNREADABLE = "the answer could not be read"
MASKED = "secrets were masked, and the token ids left out that would spell them"


class Answer(NamedTuple):
    """A request's body with that of its response."""

    api: Api
    request: Object
    response: Object
    """Empty if none came that could be read."""
    started: float
    """Seconds since the epoch."""
    finish: str | None = None
    """Why it ended, where the response does not say: `aborted`, `error`."""


@dataclass(slots=True)
class _Open:
    """What is known of a rollout while it goes on."""

    pool: Pool = field(default_factory=Pool)
    chains: Chains = field(default_factory=Chains)


class CallLog:
    """The file, open for appending. Not for use by two threads at once."""

    def __init__(self, path: str | Path, *, secrets: Secrets | None = None) -> None:
        """Makes the file, or goes on with one that is `mwviz/1`.

        Raises:
            TraceError: It cannot be written, or holds something else.
        """
        self.path = Path(path)
        self.calls = 0
        """Calls written by this log."""
        self._secrets = secrets
        try:
            self._file = self.path.open("ab", buffering=0)
        except OSError as error:
            raise TraceError(f"{path}: cannot be written: {error.strerror}") from error
        try:
            _lock(self._file, path)
            before = _read(self.path)
        except TraceError:
            self._file.close()
            raise
        self._names = before.names
        counts = {rollout: len(names) for rollout, names in before.names.items()}
        self._journal = Journal(messages=before.messages, calls=counts)
        self._open: OrderedDict[str, _Open] = OrderedDict()
        if before.torn:
            self._write("\n")
        if before.empty:
            self._write(line(header()))

    def __enter__(self) -> CallLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def add(self, rollout: str, answer: Answer) -> int:
        """Writes the calls of one exchange to the disk; how many there were.

        Raises:
            FieldError: The request is not of its API; nothing is written.
            TraceError: The disk is full or gone.
        """
        found = 0
        if self._secrets is not None:
            request, response = (self._secrets.mask(b) for b in (answer.request, answer.response))
            found = request.found + response.found
            answer = answer._replace(request=request.body, response=response.body)
        rollout_state = self._opened(rollout)
        exchange = Exchange({}, answer.request, answer.response, 0, answer.api)
        calls = [
            self._told(call, answer, masked=found > 0)
            for call in _calls(exchange, rollout_state.pool, rollout_state.chains)
        ]
        lines: list[str] = []
        if rollout not in self._names:
            lines.append(line(rollout_record(Rollout(rollout, (), semantics="re_prefill"))))
        for call in calls:
            named = replace(call, id=self._free_name(rollout, call.id))
            lines += map(line, self._journal.call(rollout, named))
        self._write("".join(lines))
        self.calls += len(calls)
        return len(calls)

    def reward(self, rollout: str, reward: float) -> None:
        """Writes what a whole rollout earned; the last word counts."""
        about = Rollout(rollout, (), semantics="re_prefill", reward=reward)
        self._names.setdefault(rollout, set())
        self._write(line(rollout_record(about)))

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written."""
        return self._file.closed

    def close(self) -> None:
        """Closes the file; everything is in it already."""
        self._file.close()

    def _opened(self, rollout: str) -> _Open:
        if rollout not in self._open:
            self._open[rollout] = _Open()
        self._open.move_to_end(rollout)
        while len(self._open) > OPEN_ROLLOUTS:
            oldest, _ = self._open.popitem(last=False)
            self._journal.end(oldest)
        return self._open[rollout]

    def _told(self, call: Call, answer: Answer, *, masked: bool) -> Call:
        call = replace(call, time=answer.started, finish=answer.finish or call.finish)
        if not masked:
            return call
        return replace(
            call,
            prompt_ids=None,
            completion_ids=None,
            logprobs=None,
            tokens="rendered",
            content="partial",
            holes=(*call.holes, Hole(MASKED)),
        )

    def _free_name(self, rollout: str, name: str) -> str:
        names = self._names.setdefault(rollout, set())
        wanted = name or f"call-{len(names)}"
        free = wanted
        while free in names:
            free = f"{wanted}@{len(names)}"
        names.add(free)
        return free

    def _write(self, text: str) -> None:
        data = memoryview(text.encode("utf-8", LONE_SURROGATES))
        try:
            while data:
                data = data[self._file.write(data) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise TraceError(f"{self.path}: cannot be written: {error.strerror}") from error


def _calls(exchange: Exchange, pool: Pool, chains: Chains) -> list[Call]:
    """The calls of an exchange; the prompt alone, if the answer is not of its API."""
    try:
        return [
            replace(call, holes=call.holes or tuple(map(Hole, doubts)))
            for call, doubts in exchange_calls(exchange, pool, chains)
        ]
    except FieldError as error:
        asked = [c for c, _ in exchange_calls(exchange._replace(response={}), pool, chains)]
        hole = Hole(f"{UNREADABLE}: {error}")
        return [replace(call, content="partial", holes=(*call.holes, hole)) for call in asked]


@dataclass(slots=True)
class _Before:
    """What a file holds when it is opened."""

    messages: int = 0
    """One more than the highest number of a message."""
    names: dict[str, set[str]] = field(default_factory=dict)
    """Ids of calls by rollout."""
    torn: bool = False
    empty: bool = True


def _lock(file: FileIO, path: str | Path) -> None:
    """Holds the file until it is closed: two writers would number their messages alike.

    Raises:
        TraceError: Another recorder holds it.
    """
    try:
        import fcntl
    except ImportError:  # Windows has no such locks
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise TraceError(f"{path}: another recorder writes to it; choose a new name") from None


def _read(path: Path) -> _Before:
    before = _Before()
    if not path.exists():
        return before
    try:
        with path.open("rb") as file:
            for raw in file:
                before.torn = not raw.endswith(b"\n")
                _take(before, raw, path)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}") from error
    return before


def _take(before: _Before, raw: bytes, path: Path) -> None:
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        record = None
    kind = record.get("t") if isinstance(record, dict) else None
    if before.empty:
        if kind != "header":
            raise TraceError(f"{path}: holds something else than a recording; choose a new name")
        before.empty = False
    elif kind == "msg":
        number = str(record.get("id", "")).removeprefix("m")
        before.messages = max(before.messages, int(number) + 1 if number.isdecimal() else 0)
    elif kind == "call":
        before.names.setdefault(str(record.get("rollout")), set()).add(str(record.get("id")))
    elif kind == "rollout":
        before.names.setdefault(str(record.get("id")), set())
