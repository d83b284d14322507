"""OpenHands completion logs: one file a call, with the messages as they were sent.

Calls of one run are files of one folder, so the file that is given stands for all that share its
name up to the time. Where tool calls were written as text, the reply is kept as the model gave it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from mwviz.formats.calls import read_generic
from mwviz.formats.chat import Pool
from mwviz.formats.fields import FieldError, Json, Object, child, label, number, objects, shown
from mwviz.formats.percall import Row, gather, strays
from mwviz.formats.records import Record, Records
from mwviz.rollout import Rollout

FILE = re.compile(r"(?P<stem>.+)-(?P<time>\d+(\.\d+)?)\.json")
"""Name of a call's file: the model, then seconds since the epoch."""
AS_TEXT = (
    "tool calls were written as text: what stood behind the stop word, and a call that the "
    "provider split off, are not part of the reply here"
)


def detects(head: Sequence[Record]) -> bool:
    """Whether a record has the keys of a completion log beside a chat exchange."""
    return any(_is_log(record.value) for record in head)


def _is_log(value: Json) -> bool:
    return (
        isinstance(value, dict)
        and {"messages", "response", "cost", "timestamp"} <= value.keys()
        and isinstance(value["response"], dict)
    )


def reads(records: Records) -> list[Rollout]:
    """One rollout of all calls, by time."""
    others = _others(records.path)
    warnings: tuple[str, ...] = ()
    if others:
        warnings = (f"{len(others) + 1} files of its folder are read as one rollout",)
    return [
        replace(
            rollout,
            calls=tuple(sorted(rollout.calls, key=lambda call: call.time or 0.0)),
            warnings=(*warnings, *rollout.warnings),
        )
        for rollout in gather(records, _rows, others)
    ]


def _others(path: Path | None) -> list[Path]:
    """Plain files of the folder whose names differ from this one in the time only."""
    named = FILE.fullmatch(path.name) if path else None
    if path is None or named is None:
        return []
    return [
        other
        for other in sorted(path.parent.iterdir())
        if (match := FILE.fullmatch(other.name))
        and match["stem"] == named["stem"]
        and other.name != path.name
        and other.is_file()
        and not other.is_symlink()
    ]


def _rows(record: Record, pool: Pool) -> Iterator[Row | FieldError]:
    value = record.value
    if not _is_log(value) or not isinstance(value, dict):
        raise FieldError(f"{shown(value)}, expected one call's messages, response and cost")
    response = child(value, "response") or {}
    as_text = "raw_messages" in value
    answer = _answer(child(value, "raw_response") or {} if as_text else response)
    answered = value.get("raw_response") if as_text else response
    yield from strays(answered, "choices", lambda choice: "message" in choice, "choice")
    settings = child(value, "kwargs") or {}
    call = read_generic(
        {
            "call": label(response, "id") or "",
            "messages": value["messages"],
            "tools": None if as_text else value.get("tools"),
            "completion": answer,
            "usage": response.get("usage"),
            "temperature": settings.get("temperature"),
            "model": response.get("model"),
            "time": number(value, "timestamp"),
        },
        record.line,
        pool,
    )
    yield Row("openhands", call, (AS_TEXT,) if as_text else ())


def _answer(response: Object) -> Json:
    choices = [c for c in objects(response, "choices") or () if "message" in c] or [{}]
    message = child(choices[0], "message")
    if message is None:
        return None
    if not all(objects(message, "tool_calls") or ()):
        return {key: value for key, value in message.items() if key != "tool_calls"}
    return message
