"""What a reader does not know is counted in the receipt, wherever it stands in any fixture."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mwviz.errors import TraceError
from mwviz.formats import Reading, read
from tests.formats.test_damage import DATA, IDS, LINES, TRACES, told

FOREIGN: list[dict[str, Any]] = [
    {"mwviz-unknown": 1},
    {"type": "mwviz-novel", "uuid": "u-n", "id": "i-n", "timestamp": "2026-01-01T00:00:00Z"},
]
KINDS: list[dict[str, Any]] = [
    *FOREIGN,
    {"kind": "NovelEvent", "id": "e-n", "source": "agent"},
    {"t": "novel", "id": "q"},
    {"role": "novel", "content": "x"},
    {"type": "system", "subtype": "novel", "uuid": "u-n", "parentUuid": None, "sessionId": "s"},
]
UNREAD: dict[str, dict[str, str]] = {
    "anthropic": {"applied_edits": "an edit that says no size has done nothing"},
    "gemini-cli": {
        "thoughts": "never sent again",
        "result": "results that stand as messages of their own are taken from there",
    },
    "tinker": {"metrics_G": "numbers for the log"},
    "skyrl": {"trajectory_ids": "one more than there are rows"},
    "openhands-calls": {
        "raw_messages": "the same messages once more",
        "response": "its tool calls stand in the raw response",
        "tools": "a log of tool calls as text has its tools in the messages",
    },
    "swe-agent": {"history": "steps that say what they were sent need none"},
    "memexrl": {"steps": "segments say the same"},
    "verl-agent-loop": {"messages": "the rows have the tokens; messages only place a branch"},
    "verifiers-results": {
        "prompt": "the steps of the trajectory have prompts of their own",
        "completion": "the steps of the trajectory have completions of their own",
    },
    "inspect": {"events_data": "a message that no event refers to was never sent"},
    "cases/H01": {"content": "the message is in no call's context, which is said"},
}
"""Lists that are not read, by format or case and a key on the way to them, and why."""


def said(reading: Reading) -> list[Any]:
    """All that the calls hold."""
    return [
        (call.id, [m.content_key for m in (*(call.prompt or ()), *(call.completion or ()))])
        for rollout in reading.rollouts
        for call in rollout.calls
    ]


@pytest.mark.parametrize("path", LINES, ids=[str(path.relative_to(DATA)) for path in LINES])
@pytest.mark.parametrize("foreign", KINDS, ids=lambda record: "-".join(map(str, record))[:30])
def test_a_record_of_an_unknown_kind_is_counted(path: Path, foreign: dict[str, Any]) -> None:
    data = path.read_bytes()
    lines = [line for line in data.split(b"\n") if line.strip()]
    whole, line = read(data), json.dumps(foreign).encode()
    for at in {1, len(lines)}:
        reading = read(b"\n".join([*lines[:at], line, *lines[at:]]) + b"\n")
        assert told(reading, whole) or said(reading) != said(whole), at


def lists(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[list[Any], tuple[str, ...]]]:
    """Lists of objects anywhere in the value, of like ones the first two, with the keys to them."""
    if isinstance(value, list):
        if value and all(isinstance(item, dict) for item in value):
            yield value, path
        for item in value[:2]:
            yield from lists(item, path)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from lists(item, (*path, key))


@pytest.mark.parametrize("path", TRACES, ids=IDS)
def test_an_item_of_an_unknown_kind_is_counted_in_every_list_that_is_read(path: Path) -> None:
    data = path.read_bytes()
    whole, lined = read(data), path.suffix == ".jsonl"
    records = [json.loads(line) for line in data.splitlines()] if lined else [json.loads(data)]
    case = str(path.parent.relative_to(DATA))
    unread = UNREAD.get(whole.format, {}) | UNREAD.get(case, {})
    silent, seen = [], set()
    for record in records:
        for found, keys in lists(record):
            kind = (*keys, str(record.get("type") if isinstance(record, dict) else None))
            if kind in seen or any(key in unread for key in keys):
                continue
            seen.add(kind)
            for foreign in FOREIGN:
                found.append(foreign)
                text = "\n".join(map(json.dumps, records)).encode()
                found.pop()
                try:
                    reading = read(text)
                except TraceError:
                    continue
                if not told(reading, whole) and said(reading) == said(whole):
                    silent.append((keys, foreign))
    assert silent == []
