"""Recordings of the small research agent: token in, token out, with its harness's own evictions.

The format of this project's sample rollouts (SmolLM2): a record a rollout, with `messages` by
number (role, kind, text), `calls` (prompt_ids, completion_ids, logprobs, `segments` of the prompt
by message, `completion_mid`) and `evictions` (`after_call`, `reason`). Ids are those that were fed
and sampled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mwviz.formats.call_fields import read_call
from mwviz.formats.chat import Pool
from mwviz.formats.fields import (
    FieldError,
    Json,
    Object,
    child,
    count,
    label_or,
    logprobs,
    number,
    objects,
    required,
    shown,
    string,
    token_ids,
)
from mwviz.formats.percall import Row, gather, strays
from mwviz.formats.records import Record, Records
from mwviz.formats.step_calls import MAIN
from mwviz.rollout import Call, Hint, Mark, Message, Part, Rollout, Span

KEYS = frozenset({"messages", "calls", "evictions", "policy"})
REASONS = {"summary": "summary", "prune": "placeholder", "fold": "fold", "window": "drop"}
"""Junction kind of each policy's evictions."""
MARKS: dict[str, Mark] = {"summary": "summary", "memory": "summary", "cleared": "placeholder"}
"""What a message is, by the kind the recording gives it."""


def detects(head: Sequence[Record]) -> bool:
    """Whether a record is a rollout with messages by number and evictions."""
    return any(_is_rollout(record.value) for record in head)


def reads(records: Records) -> list[Rollout]:
    """One rollout a record."""
    return [replace(rollout, semantics="re_prefill") for rollout in gather(records, _rows)]


def _is_rollout(value: Json) -> bool:
    return isinstance(value, dict) and value.keys() >= KEYS and isinstance(value["messages"], dict)


def _rows(record: Record, pool: Pool) -> Iterator[Row | FieldError]:
    value, line = record.value, record.line
    if not _is_rollout(value) or not isinstance(value, dict):
        raise FieldError(f"{shown(value)}, expected a recorded rollout with its evictions")
    name = label_or(value, "id", f"rollout on line {line}")
    messages = {
        mid: pool(_message(mid, given, line))
        for mid, given in (child(value, "messages") or {}).items()
    }
    yield from strays(value, "evictions", lambda e: "after_call" in e, "eviction of a call")
    evicted = {
        (count(eviction, "after_call") or 0) + 1: _hint(eviction)
        for eviction in objects(value, "evictions") or ()
        if "after_call" in eviction
    }
    for at, given in enumerate(objects(value, "calls") or ()):
        try:
            call = _call(given, messages, line)
        except FieldError as error:
            yield error
            continue
        known = count(given, "call")
        hint = evicted.get(at if known is None else known)
        call = replace(
            call,
            hints=(hint,) if hint else (),
            model=string(value, "model"),
            temperature=number(value, "temperature"),
        )
        yield Row(name, call, (), number(value, "reward"))


def _hint(eviction: Object) -> Hint:
    reason = string(eviction, "reason") or ""
    return Hint(REASONS.get(reason, "rewrite"), f"the harness's policy: {shown(reason)}")


def _message(mid: str, given: Json, line: int) -> Message:
    if not isinstance(given, dict):
        raise FieldError(f"message {shown(mid)} is {shown(given)}, expected its role and text")
    role, kind = required(given, "role"), string(given, "kind") or ""
    text = string(given, "text") or ""
    result = role == "tool"
    part = Part("tool_result" if result else "text", text)
    mark = MARKS.get(kind) if role != "assistant" else None
    return Message(role, (part,), id=mid, mark=mark, line=line)


def _call(given: Object, messages: dict[str, Message], line: int) -> Call:
    prompt_ids, completion_ids = token_ids(given, "prompt_ids"), token_ids(given, "completion_ids")
    if prompt_ids is None or completion_ids is None:
        raise FieldError("a call without prompt_ids or completion_ids")
    spans = [_span(segment) for segment in objects(given, "segments") or ()]
    said = label_or(given, "completion_mid", "")
    missing = next((s.message for s in spans if s.message not in messages), None)
    if missing is not None or (said and said not in messages):
        raise FieldError(f"a call names the message {shown(missing or said)}, which is not there")
    if any(not 0 <= s.start <= s.end <= len(prompt_ids) for s in spans):
        raise FieldError(f"a segment does not lie within the prompt's {len(prompt_ids)} tokens")
    prompt = tuple(messages[span.message] for span in spans)
    if said:
        size = len(prompt_ids)
        spans.append(Span(size, size + len(completion_ids), said, "assistant", "act"))
    return replace(
        read_call({**given, "call": None}, id="", line=line),
        prompt=prompt,
        completion=(messages[said],) if said else None,
        prompt_ids=prompt_ids,
        completion_ids=completion_ids,
        logprobs=logprobs(given, "logprobs", completion_ids),
        spans=tuple(spans),
        lineage=MAIN,
    )


def _span(segment: Object) -> Span:
    start, end = count(segment, "start"), count(segment, "end")
    if start is None or end is None:
        raise FieldError("a segment without start or end")
    kind = string(segment, "kind") or ""
    return Span(start, end, required(segment, "mid"), required(segment, "role"), kind)
