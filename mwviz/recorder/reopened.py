"""What a recording holds when it is opened to go on with, and the lock of whoever does."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

from mwviz.errors import TraceError
from mwviz.formats.fields import Object

HEADING = "heading"
"""Key of a call: messages at its head that a response which continues it does not inherit."""


@dataclass(slots=True)
class Before:
    """What a file holds when it is opened."""

    messages: int = 0
    """One more than the highest number of a message."""
    names: dict[str, set[str]] = field(default_factory=dict)
    """Ids of calls by rollout."""
    headings: dict[str, dict[str, int]] = field(default_factory=dict)
    """`HEADING` by rollout and call, of those that later responses may continue."""
    torn: bool = False
    empty: bool = True

    def take(self, record: Object) -> None:
        """Notes one record behind the header."""
        kind = record.get("t")
        if kind == "msg":
            number = str(record.get("id", "")).removeprefix("m")
            self.messages = max(self.messages, int(number) + 1 if number.isdecimal() else 0)
        elif kind == "call":
            rollout, name = str(record.get("rollout")), str(record.get("id"))
            self.names.setdefault(rollout, set()).add(name)
            heading = record.get(HEADING)
            if isinstance(heading, int):
                self.headings.setdefault(rollout, {})[name] = heading
        elif kind == "rollout":
            self.names.setdefault(str(record.get("id")), set())


def reopened(file: FileIO, path: Path) -> Before:
    """What the file holds, which is now locked until it is closed.

    Raises:
        TraceError: Another recorder has it, it cannot be read, or it is no recording.
    """
    _lock(file, path)
    before = Before()
    try:
        with path.open("rb") as lines:
            for raw in lines:
                before.torn = not raw.endswith(b"\n")
                record = _record(raw)
                if before.empty and record.get("t") != "header":
                    raise TraceError(
                        f"{path}: holds something else than a recording; choose a new name"
                    )
                before.empty = False
                before.take(record)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}") from error
    return before


def _record(raw: bytes) -> Object:
    """The object of a line; empty if it is torn or none."""
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _lock(file: FileIO, path: Path) -> None:
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
    except OSError:  # some network file systems have no locks
        return
