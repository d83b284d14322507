"""The generic per-call log: one JSON record a call, with token ids, messages or both.

Keys: `rollout, call, lineage, prompt_ids | messages, completion_ids | completion, logprobs, usage,
temperature, model, tools, system, finish, time, reward, weights, semantics, kept`, and of our own
exports `fidelity, holes`; all but the prompt may be missing. Calls of several rollouts may be
mixed; within a rollout the file's order counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast, get_args

from mwviz.formats.call_fields import read_call
from mwviz.formats.chat import Pool, read_blocks, read_message, read_messages, tools_message
from mwviz.formats.fields import (
    FieldError,
    Json,
    Object,
    chosen,
    count,
    label_or,
    logprobs,
    objects,
    shown,
    string,
    token_ids,
    token_ranges,
)
from mwviz.formats.percall import ONLY_ROLLOUT, Row, gather
from mwviz.formats.records import Record, Records
from mwviz.rollout import Call, ContentFidelity, Hole, Message, Part, Rollout

PROMPT_KEYS = ("prompt_ids", "messages")
COMPLETION_KEYS = ("completion_ids", "completion")
KEYS = (
    *("rollout", "call", "lineage", "prompt_ids", "messages", "completion_ids", "completion"),
    *("logprobs", "usage", "temperature", "model", "tools", "system", "finish", "time", "reward"),
    *("weights", "semantics", "kept"),
)


def detects(head: Sequence[Record]) -> bool:
    """Whether a record has a prompt and a completion under the names of this log."""
    return any(
        isinstance(record.value, dict)
        and any(key in record.value for key in PROMPT_KEYS)
        and any(key in record.value for key in COMPLETION_KEYS)
        for record in head
    )


def reads(records: Records) -> list[Rollout]:
    """The rollouts in order of their first call."""
    return gather(records, _rows)


def _rows(record: Record, pool: Pool) -> Iterator[Row]:
    if not isinstance(record.value, dict):
        raise FieldError(f"{shown(record.value)}, expected one call's object")
    name = label_or(record.value, "rollout", ONLY_ROLLOUT)
    call = read_generic(record.value, record.line, pool)
    fidelity = chosen(record.value, "fidelity", get_args(ContentFidelity))
    yield Row(
        name,
        replace(
            call,
            content=cast("ContentFidelity", fidelity or call.content),
            holes=tuple(map(_hole, objects(record.value, "holes") or ())),
        ),
    )


def _hole(value: Object) -> Hole:
    return Hole(string(value, "why") or "", tokens=count(value, "tokens"))


def read_generic(record: Object, line: int, pool: Pool) -> Call:
    """One call under the keys of this log; without a name its id is "".

    Raises:
        FieldError: A field has another type than expected, or there is no prompt.
    """
    prompt_ids = token_ids(record, "prompt_ids")
    completion_ids = token_ids(record, "completion_ids")
    prompt = _prompt(record, line, pool)
    if prompt_ids is None and prompt is None:
        raise FieldError("no prompt, expected prompt_ids or messages")
    return replace(
        read_call(record, id=label_or(record, "call", ""), line=line),
        prompt=prompt,
        completion=_completion(record.get("completion"), line, pool),
        prompt_ids=prompt_ids,
        completion_ids=completion_ids,
        logprobs=logprobs(record, "logprobs", completion_ids),
        kept=None if prompt_ids is None else token_ranges(record, "kept"),
        tokens="rendered" if prompt_ids is None else "recorded",
    )


def _prompt(record: Object, line: int, pool: Pool) -> tuple[Message, ...] | None:
    values = objects(record, "messages")
    if values is None:
        return None
    messages = read_messages(values, pool, line)
    if system := record.get("system"):
        messages = (pool(Message("system", tuple(read_blocks(system)), line=line)), *messages)
    if tools := record.get("tools"):
        messages = (pool(tools_message(tools, line)), *messages)
    return messages


def _completion(value: Json, line: int, pool: Pool) -> tuple[Message, ...] | None:
    if value is None:
        return None
    if isinstance(value, str):
        return (pool(Message("assistant", (Part("text", value),), line=line)),)
    items = value if isinstance(value, list) else [value]
    found: list[Message] = []
    for item in items:
        if not isinstance(item, dict):
            raise FieldError(f"completion is {shown(item)}, expected text or messages")
        found.append(pool(read_message(item, line=line, role="assistant")))
    return tuple(found)
