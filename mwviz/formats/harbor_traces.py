"""Harbor's exported traces: each record is the conversation that one call ended with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mwviz.formats.calls import read_generic
from mwviz.formats.chat import Pool
from mwviz.formats.fields import FieldError, Json, Object, label, label_or, objects, shown
from mwviz.formats.percall import ONLY_ROLLOUT, Row, gather
from mwviz.formats.records import Record, Records
from mwviz.rollout import Rollout

KEYS = frozenset({"conversations", "agent", "episode", "run_id"})


def detects(head: Sequence[Record]) -> bool:
    """Whether a record is a conversation of an episode of a run."""
    return any(_is_trace(record.value) for record in head)


def reads(records: Records) -> list[Rollout]:
    """One rollout a run."""
    return gather(records, _rows)


def _is_trace(value: Json) -> bool:
    return isinstance(value, dict) and value.keys() >= KEYS


def _rows(record: Record, pool: Pool) -> Iterator[Row]:
    value = record.value
    if not _is_trace(value) or not isinstance(value, dict):
        raise FieldError(f"{shown(value)}, expected a conversation with its run")
    *prompt, reply = objects(value, "conversations") or [{}]
    if reply.get("role") != "assistant":
        raise FieldError("a conversation that does not end with a reply")
    whole: list[Json] = list(prompt)
    generic: Object = {
        "call": label(value, "episode"),
        "messages": whole,
        "completion": reply,
        "model": value.get("model"),
    }
    call = read_generic(generic, record.line, pool)
    yield Row(label_or(value, "run_id", ONLY_ROLLOUT), replace(call, lineage=label(value, "agent")))
