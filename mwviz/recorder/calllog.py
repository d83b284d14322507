"""A `mwviz/1` file that grows by one call at a time and survives the end of its writer.

Records go to the file in one write a call and are synced to the disk; a torn last line of an
earlier writer is closed, not removed. It knows bodies, not connections.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from mwviz.errors import TraceError
from mwviz.formats import read
from mwviz.formats.api_log import exchange_calls
from mwviz.formats.chat import Pool
from mwviz.formats.exchange import Api, Exchange
from mwviz.formats.fields import FieldError, Object
from mwviz.formats.mwviz1_writer import LONE_SURROGATES, Journal, header, line, rollout_record
from mwviz.formats.openai_responses import Chains
from mwviz.recorder.reopened import HEADING, reopened
from mwviz.recorder.secrets import Secrets
from mwviz.rollout import Call, Hole, Rollout

OPEN_ROLLOUTS = 64
"""Rollouts whose messages are kept at hand; of older ones, digests."""
UNREADABLE = "the answer could not be read"
CONTINUES = "previous_response_id"
"""Key of a request that names the response it goes on from."""
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
    unread: str | None = None
    """Why nothing of a response could be read that did come."""


@dataclass(slots=True)
class _Open:
    """What is known of a rollout while it goes on."""

    pool: Pool = field(default_factory=Pool)
    chains: Chains = field(default_factory=Chains)
    reread: bool = False
    """Whether the file was searched for earlier responses."""


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
            before = reopened(self._file, self.path)
        except TraceError:
            self._file.close()
            raise
        self._names = before.names
        self._headings = before.headings
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
        state = self._opened(rollout)
        self._find_earlier(rollout, state, answer.request)
        exchange = Exchange({}, answer.request, answer.response, 0, answer.api)
        calls = [
            self._told(call, answer, masked=found > 0)
            for call in _calls(exchange, state.pool, state.chains)
        ]
        lines: list[str] = []
        if rollout not in self._names:
            lines.append(line(rollout_record(Rollout(rollout, (), semantics="re_prefill"))))
        for call in calls:
            lines += self._lines(rollout, call, state.chains)
        try:
            self._write("".join(lines))
        except TraceError:
            self._journal.restart()
            raise
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

    def _lines(self, rollout: str, call: Call, chains: Chains) -> Iterator[str]:
        """The records of a call as lines of the file."""
        heading = chains.heading(call)
        named = replace(call, id=self._free_name(rollout, call.id))
        for record in self._journal.call(rollout, named):
            if heading is not None and record["t"] == "call":
                record[HEADING] = heading
                self._headings.setdefault(rollout, {})[named.id] = heading
            yield line(record)

    def _find_earlier(self, rollout: str, state: _Open, request: Object) -> None:
        """Reads the response back that the request continues, if only the file still holds it."""
        wanted = request.get(CONTINUES)
        headings = self._headings.get(rollout, {})
        if state.reread or wanted not in headings or state.chains.holds(str(wanted)):
            return
        state.reread = True
        for call in next(r.calls for r in read(self.path).rollouts if r.id == rollout):
            if call.id in headings:
                context = (*(call.prompt or ())[headings[call.id] :], *(call.completion or ()))
                known = tuple(map(state.pool, context))
                state.chains.restore(call.id, known, whole=not call.holes)

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
        if answer.unread is not None:
            hole = Hole(f"{UNREADABLE}: {answer.unread}")
            call = replace(call, content="partial", holes=(*call.holes, hole))
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
        file = self._file.fileno()
        size = os.fstat(file).st_size
        try:
            while data:
                data = data[self._file.write(data) :]
            os.fsync(file)
        except OSError as error:
            with suppress(OSError):  # half a record would spoil the next one
                os.ftruncate(file, size)
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
