"""Inspect logs (`.eval` archives and their JSON form): each model event is a call.

Events hold the input as it was sent, after the compaction that the log also tells of. The list of
messages of a sample is never used: it is the uncompacted one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from mwviz.formats.calls import read_generic
from mwviz.formats.chat import Pool
from mwviz.formats.fields import (
    FieldError,
    Json,
    Object,
    child,
    count,
    label,
    objects,
    objects_in,
    shown,
)
from mwviz.formats.fields import string as text
from mwviz.formats.inspect_pool import SamplePool
from mwviz.formats.percall import Row, gather, strays
from mwviz.formats.records import Record, Records
from mwviz.rollout import Call, Hint, Rollout

KINDS = {"summary": "summary", "edit": "placeholder", "trim": "drop"}
"""Junction kinds by the types of compaction that the log names; others are told as they are."""
EVENTS = (
    *("model", "compaction", "span_begin", "span_end", "step", "subtask", "tool", "approval"),
    *("sample_init", "sample_limit", "sandbox", "state", "store", "input", "score", "score_edit"),
    *("error", "logger", "info", "branch", "anchor", "checkpoint", "interrupt"),
)
"""Types of events whose meaning is known; calls, compactions and spans are read."""
MAIN = "main"


def detects(head: Sequence[Record]) -> bool:
    """Whether a record is a sample with events, in an archive or a document."""
    return any(_samples(record.value) for record in head)


def reads(records: Records) -> list[Rollout]:
    """One rollout a sample and epoch."""
    return gather(records, _rows)


def _samples(value: Json) -> list[Object]:
    """The samples of a log, or the one that an entry of an archive is."""
    if not isinstance(value, dict):
        return []
    if "zip_entry" in value:
        given: Json = [value.get("value")] if _is_sample(value.get("zip_entry")) else []
    else:
        given = value.get("samples") if "eval" in value else None
    if not isinstance(given, list):
        return []
    return [s for s in given if isinstance(s, dict) and isinstance(s.get("events"), list)]


def _is_sample(entry: Json) -> bool:
    return isinstance(entry, str) and entry.startswith("samples/")


def _rows(record: Record, pool: Pool) -> Iterator[Row | FieldError]:
    value = record.value
    samples = _samples(value)
    if not samples:
        entry = value.get("zip_entry") if isinstance(value, dict) else None
        if entry is None or _is_sample(entry):
            raise FieldError(f"{shown(value)}, expected a sample with its events")
        return
    if isinstance(value, dict) and "zip_entry" not in value:
        yield from strays(value, "samples", lambda s: "events" in s, "sample with its events")
    for sample in samples:
        yield from _sample_rows(sample, record.line, pool)


def _sample_rows(sample: Object, line: int, pool: Pool) -> Iterator[Row | FieldError]:
    name = f"{label(sample, 'id')}-epoch-{label(sample, 'epoch')}"
    spans = _Spans()
    messages = SamplePool(sample, line, pool)
    hints: dict[str, tuple[Hint, ...]] = {}
    yield from _unknown(sample)
    for event in objects_in(sample, "events"):
        kind = event.get("event")
        if kind == "span_begin":
            spans.begin(event)
        elif kind == "compaction":
            hints[spans.agent(event)] = (_hint(event),)
        elif kind == "model" and not event.get("pending"):
            try:
                call = _call(event, messages, line, pool)
            except FieldError as error:
                yield error
                continue
            told = hints.pop(spans.agent(event), ())
            yield Row(name, replace(call, lineage=spans.lineage(event), hints=told))


def _unknown(sample: Object) -> Iterator[FieldError]:
    """What is no event, and events whose meaning is not known."""
    yield from strays(sample, "events", lambda event: "event" in event, "event")
    met = Counter(str(event["event"]) for event in objects_in(sample, "events") if "event" in event)
    for kind, times in met.items():
        if kind not in EVENTS:
            yield FieldError(f"{times} events of the unknown type {shown(kind)}: taken as no call")


@dataclass(slots=True)
class _Spans:
    """The tree of spans while events are walked: which agent an event belongs to."""

    parents: dict[str, str | None] = field(default_factory=dict)
    agents: dict[str, str] = field(default_factory=dict)
    """Names of spans that are an agent."""
    names: dict[str, str] = field(default_factory=dict)
    """Lineages by agent span, the first one `main`."""

    def begin(self, event: Object) -> None:
        """A span starts; it lies in the span that its parent names."""
        span = text(event, "id") or ""
        self.parents[span] = text(event, "parent_id")
        if event.get("type") in ("agent", "scorers"):
            self.agents[span] = text(event, "name") or "agent"

    def agent(self, event: Object) -> str:
        """The innermost agent's span around an event; "" if it lies in none."""
        span, seen = text(event, "span_id"), set[str]()
        while span and span not in self.agents and span not in seen:
            seen.add(span)
            span = self.parents.get(span)
        return span or ""

    def lineage(self, event: Object) -> str:
        """The agent's name, made unique; another role than the agent's own model stands alone."""
        span = self.agent(event)
        if span not in self.names:
            name = self.agents.get(span, MAIN) if self.names else MAIN
            taken = set(self.names.values())
            self.names[span] = name if name not in taken else f"{name}-{len(taken) + 1}"
        role = text(event, "role")
        return f"{self.names[span]} ({role})" if role else self.names[span]


def _hint(event: Object) -> Hint:
    kind = text(event, "type") or "compaction"
    before, after = label(event, "tokens_before"), label(event, "tokens_after")
    return Hint(KINDS.get(kind, kind), f"tokens before {before}, after {after}")


def _call(event: Object, messages: SamplePool, line: int, pool: Pool) -> Call:
    output = child(event, "output") or {}
    choices = objects(output, "choices") or []
    failed = bool(event.get("error") or output.get("error"))
    reply = child(choices[0], "message") if choices else None
    call = read_generic(
        {
            "call": text(event, "uuid"),
            "messages": [],
            "tools": event.get("tools"),
            "usage": _usage(output),
            "model": text(event, "model"),
            "temperature": (child(event, "config") or {}).get("temperature"),
            "time": event.get("timestamp"),
            "finish": "error" if failed else _finish(choices),
        },
        line,
        pool,
    )
    prompt = (*(call.prompt or ()), *messages.prompt(event))
    return replace(call, prompt=prompt, completion=(messages.message(reply),) if reply else None)


def _finish(choices: list[Object]) -> str | None:
    return text(choices[0], "stop_reason") if choices else None


def _usage(output: Object) -> Json:
    """Token counts; the size of the whole context where the log has it."""
    given = child(output, "usage")
    if given is None:
        return None
    cached = count(given, "input_tokens_cache_read")
    whole = count(output, "input_context_tokens")
    if whole is None:
        parts = ("input_tokens", "input_tokens_cache_write", "input_tokens_cache_read")
        whole = sum(count(given, key) or 0 for key in parts)
    return {
        "prompt_tokens": whole,
        "completion_tokens": given.get("output_tokens"),
        "cached_tokens": cached,
    }
