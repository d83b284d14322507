"""Traces of OpenTelemetry: spans of chat models by the GenAI or the OpenInference convention.

Takes OTLP JSON, spans as an SDK prints them, and lines of either. Spans are exported when they end,
so calls are ordered by their start.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mwviz.formats.call_fields import moment
from mwviz.formats.calls import read_generic
from mwviz.formats.chat import Pool
from mwviz.formats.fields import FieldError, Json, Object, decoded, label, objects, shown
from mwviz.formats.openinference import has_messages, oi_call
from mwviz.formats.percall import ONLY_ROLLOUT, Row, gather, strays
from mwviz.formats.records import Record, Records
from mwviz.rollout import Call, Rollout

INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
SYSTEM, TOOLS = "gen_ai.system_instructions", "gen_ai.tool.definitions"
DETAILS = "gen_ai.client.inference.operation.details"
"""Event that may hold the messages instead of the span."""
USAGE = {
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "completion_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
}
OPERATION = "gen_ai.operation.name"
OPERATIONS = ("chat", "text_completion", "generate_content")
"""What a span of a model's call says that it does."""
UNTIMED = "its span has no start: where it stands among the others is not known"
SESSIONS = ("gen_ai.conversation.id", "session.id")
AGENTS = ("gen_ai.agent.id", "gen_ai.agent.name", "agent.name")
NANO = 1e9
RESOURCES, SCOPES = ("resourceSpans", "resource_spans"), ("scopeSpans", "scope_spans")
SPAN = frozenset({"name", "spanId", "span_id", "attributes"})
"""Fields of which a span has some."""


def detects(head: Sequence[Record]) -> bool:
    """Whether a record holds a span of a chat model with its messages."""
    return any(_messages_in(span) for record in head for span in _spans(record.value))


def reads(records: Records) -> list[Rollout]:
    """One rollout a conversation or session, else a trace; calls by their start."""
    return [
        replace(rollout, calls=tuple(sorted(rollout.calls, key=lambda call: call.time or 0.0)))
        for rollout in gather(records, _rows)
    ]


def _rows(record: Record, pool: Pool) -> Iterator[Row | FieldError]:
    spans = _spans(record.value)
    if not spans:
        raise FieldError(f"{shown(record.value)}, expected spans with their attributes")
    yield from _strays(record.value)
    for span in spans:
        found = _messages_in(span)
        if found is None:
            broken = _broken(span)
            if broken:
                yield FieldError(f"{broken} of a span is no JSON, expected a list of messages")
            elif _attributes(span).get(OPERATION) in OPERATIONS:
                yield FieldError(f"a span of a model's call without {INPUT}: not captured?")
            continue
        try:
            yield _row(span, found, record.line, pool)
        except FieldError as error:
            yield error


def _broken(span: Object) -> str:
    """The attribute whose text begins like a list of messages and cannot be read; "" if none."""
    found = _attributes(span)
    for key in (INPUT, OUTPUT):
        text = found.get(key)
        if isinstance(text, str) and text.lstrip().startswith("[") and decoded(text) is text:
            return key
    return ""


def _row(span: Object, found: Object, line: int, pool: Pool) -> Row:
    call = oi_call(found, line, pool) if has_messages(found) else _genai_call(found, line, pool)
    names = (found.get(key) for key in SESSIONS)
    session = next((name for name in names if isinstance(name, str) and name), None)
    agents = (found.get(key) for key in AGENTS)
    agent = next((name for name in agents if isinstance(name, str) and name), None)
    context = span.get("context")
    place = context if isinstance(context, dict) else span
    trace = label(place, "trace_id") or label(place, "traceId")
    name = label(place, "span_id") or label(place, "spanId") or ""
    started = replace(call, id=name, time=_start(span), lineage=agent)
    doubts = (UNTIMED,) if started.time is None else ()
    return Row(session or trace or ONLY_ROLLOUT, started, doubts)


def _genai_call(found: Object, line: int, pool: Pool) -> Call:
    prompt = [_chat(message) for message in objects(found, INPUT) or ()]
    answer = [_chat(message) for message in objects(found, OUTPUT) or ()]
    given = objects(found, OUTPUT) or [{}]
    system = found.get(SYSTEM)
    if system:
        prompt.insert(0, _chat({"role": "system", "parts": system}))
    whole: list[Json] = list(prompt)
    completion: list[Json] = list(answer)
    return read_generic(
        {
            "messages": whole,
            "completion": completion or None,
            "tools": found.get(TOOLS),
            "usage": {key: found.get(name) for key, name in USAGE.items()},
            "model": found.get("gen_ai.response.model") or found.get("gen_ai.request.model"),
            "temperature": found.get("gen_ai.request.temperature"),
            "finish": given[0].get("finish_reason"),
        },
        line,
        pool,
    )


def _chat(message: Object) -> Object:
    """A message of parts in the spelling of chats."""
    blocks: list[Json] = []
    for part in objects(message, "parts") or ():
        kind, content = part.get("type"), part.get("content")
        if kind == "text":
            blocks.append({"type": "text", "text": content})
        elif kind == "reasoning":
            blocks.append({"type": "thinking", "thinking": content})
        elif kind == "tool_call":
            blocks.append({**part, "type": "tool_use"})
        elif kind == "tool_call_response":
            given = part.get("response", part.get("result"))
            said = given if isinstance(given, str) else json.dumps(given, sort_keys=True)
            blocks.append({"type": "tool_result", "tool_use_id": part.get("id"), "content": said})
        else:
            blocks.append(part)
    return {"role": message.get("role"), "content": blocks}


def _messages_in(span: Object) -> Object | None:
    """The attributes of the span that has messages, its details event taken in; else None."""
    found = _attributes(span)
    events = span.get("events")
    for event in events if isinstance(events, list) else ():
        if isinstance(event, dict) and event.get("name") == DETAILS:
            found |= _attributes(event)
    for key in (INPUT, OUTPUT, SYSTEM, TOOLS):
        found[key] = decoded(found.get(key))
    return found if isinstance(found[INPUT], list) or has_messages(found) else None


def _spans(value: Json) -> list[Object]:
    """Spans of an OTLP document, or the one that the record is."""
    if not isinstance(value, dict):
        return []
    if "attributes" in value:
        return [value]
    return [
        span
        for resource in _inner(value, *RESOURCES)
        for scope in _inner(resource, *SCOPES)
        for span in _inner(scope, "spans", "spans")
    ]


def _strays(value: Json) -> Iterator[FieldError]:
    """What stands among the spans of an OTLP document and is none."""
    if not isinstance(value, dict) or "attributes" in value:
        return
    for key in RESOURCES:
        yield from strays(value, key, lambda r: any(k in r for k in SCOPES), "resource of spans")
    for resource in _inner(value, *RESOURCES):
        for key in SCOPES:
            yield from strays(resource, key, lambda scope: "spans" in scope, "scope of spans")
        for scope in _inner(resource, *SCOPES):
            yield from strays(scope, "spans", lambda s: bool(s.keys() & SPAN), "span")
            for span in _inner(scope, "spans"):
                if isinstance(span.get("attributes"), list):
                    yield from strays(span, "attributes", lambda a: "key" in a, "attribute")


def _inner(value: Object, *keys: str) -> list[Object]:
    found = next((value[key] for key in keys if key in value), None)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _attributes(place: Object) -> Object:
    """Attributes by name: OTLP writes them as a list of keys with typed values."""
    given = place.get("attributes")
    if isinstance(given, dict):
        return dict(given)
    found: Object = {}
    for item in given if isinstance(given, list) else ():
        if isinstance(item, dict) and isinstance(key := item.get("key"), str):
            found[key] = _plain(item.get("value"))
    return found


def _plain(value: Json) -> Json:
    """A typed value of OTLP as the value it is; whole numbers are written as text there."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((kind, inner),) = value.items()
    if kind == "intValue" and isinstance(inner, str) and inner.isdigit():
        return int(inner)
    if kind == "arrayValue":
        return [_plain(item) for item in _listed(inner)]
    if kind == "kvlistValue":
        pairs = (item for item in _listed(inner) if isinstance(item, dict))
        return {str(item.get("key")): _plain(item.get("value")) for item in pairs}
    return inner


def _listed(value: Json) -> list[Json]:
    found = value.get("values") if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _start(span: Object) -> float | None:
    nano = span.get("startTimeUnixNano", span.get("start_time_unix_nano"))
    if isinstance(nano, str) and nano.isdigit():
        nano = int(nano)
    if isinstance(nano, int):
        return nano / NANO
    return moment(span, "start_time")
