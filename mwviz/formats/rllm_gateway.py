"""Traces of rLLM's model gateway, its database or its records as JSON, to rollouts.

Read in `rllm-model-gateway` of rllm-org/rllm (commit 0e63613: `TraceRecord`, `token_chain.py`;
`store/sqlite_store.py` at 0c5019a). A record is one request: `messages, prompt_token_ids,
response_message, completion_token_ids, logprobs, weight_version, token_counts`. In its cumulative
mode a prompt is stored as what it adds (`prompt_delta_token_ids`) to prompt and completion of its
parent (`parent_trace_id`). The records of a later gateway, whose token ids stand beside them as
MessagePack, are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mwviz.formats.calls import read_generic
from mwviz.formats.chat import Pool
from mwviz.formats.fields import (
    FieldError,
    Json,
    child,
    label,
    members,
    number,
    required,
    shown,
    token_ids,
)
from mwviz.formats.percall import Row, gather
from mwviz.formats.records import Record, Records
from mwviz.rollout import Call, Ints, Rollout

KEYS = frozenset({"trace_id", "session_id", "response_message", "completion_token_ids"})
LOST = "its prompt adds to a request that is not in the file: its token ids are not known"
UNEVEN = "it has not as many log-probabilities as tokens: they are not used"


class _Trace(NamedTuple):
    """One request, and what its prompt adds to which other one."""

    parent: str | None
    prompt: Ints | None
    """The whole prompt, or what it adds to its parent's prompt and completion."""
    completion: Ints


def detects(head: Sequence[Record]) -> bool:
    """Whether a record is a request that the gateway captured."""
    return any(_is_trace(record.value) for record in head)


def _is_trace(value: Json) -> bool:
    return isinstance(value, dict) and value.keys() >= KEYS


def reads(records: Records) -> list[Rollout]:
    """One rollout a session; its calls by time."""
    found: dict[str, Record] = {}
    traces: dict[str, _Trace] = {}
    for record in records:
        try:
            name, trace = _trace(record.value)
            place = f"{_session(record.value)} {name}"
            if place in found:
                raise FieldError(f"repeats the trace {shown(name)}")
        except FieldError as error:
            records.drop(record, str(error))
            continue
        found[place], traces[name] = record, trace
    prompts = _Prompts(traces)

    def rows(record: Record, pool: Pool) -> Iterator[Row]:
        yield _row(record, prompts, pool)

    ordered = sorted(found.values(), key=lambda record: _time(record.value))
    return gather(records, rows, given=ordered)


def _trace(value: Json) -> tuple[str, _Trace]:
    if not _is_trace(value) or not isinstance(value, dict):
        raise FieldError(f"{shown(value)}, expected a request that the gateway captured")
    delta = token_ids(value, "prompt_delta_token_ids")
    prompt = token_ids(value, "prompt_token_ids") if delta is None else delta
    completion = token_ids(value, "completion_token_ids")
    return required(value, "trace_id"), _Trace(
        label(value, "parent_trace_id") if delta is not None else None,
        prompt,
        np.empty(0, dtype=np.int32) if completion is None else completion,
    )


class _Prompts:
    """The whole prompts of chained requests."""

    def __init__(self, traces: dict[str, _Trace]) -> None:
        self._traces = traces
        self._whole: dict[str, Ints] = {}

    def of(self, name: str) -> Ints | None:
        """int32 (P,): the prompt of a request; None if a part of its chain is missing."""
        chain: dict[str, tuple[str | None, Ints]] = {}
        at: str | None = name
        while at is not None and at not in self._whole:
            trace = self._traces.get(at)
            if trace is None or trace.prompt is None or at in chain:
                return None
            chain[at] = trace.parent, trace.prompt
            at = trace.parent
        for each, (parent, own) in reversed(chain.items()):
            if parent is None:
                self._whole[each] = own
                continue
            before = self._whole[parent], self._traces[parent].completion
            self._whole[each] = np.concatenate((*before, own))
        return self._whole[name]


def _row(record: Record, prompts: _Prompts, pool: Pool) -> Row:
    value = record.value
    assert isinstance(value, dict)
    name = required(value, "trace_id")
    prompt = prompts.of(name)
    completion = token_ids(value, "completion_token_ids")
    known = prompt is not None and len(prompt) > 0 and completion is not None
    given = members(value, "logprobs")
    even = not given or (completion is not None and len(given) == len(completion))
    call = read_generic(
        {
            "call": name,
            "messages": value.get("messages") or [],
            "completion": value.get("response_message") or None,
            "completion_ids": value["completion_token_ids"] if known else None,
            "logprobs": (given or None) if known and even else None,
            "usage": value.get("token_counts"),
            "model": value.get("model"),
            "finish": value.get("finish_reason"),
            "time": value.get("timestamp"),
            "weights": value.get("weight_version"),
            "tools": (child(value, "raw_request") or {}).get("tools"),
        },
        record.line,
        pool,
    )
    lost = value.get("prompt_delta_token_ids") is not None and prompt is None
    doubts = (*((LOST,) if lost else ()), *(() if even else (UNEVEN,)))
    return Row(_session(value), _with_ids(call, prompt) if known else call, doubts)


def _with_ids(call: Call, prompt: Ints | None) -> Call:
    messages = call.prompt or None
    return replace(call, prompt=messages, prompt_ids=prompt, tokens="recorded")


def _session(value: Json) -> str:
    if not isinstance(value, dict):
        raise FieldError(f"{shown(value)}, expected a request that the gateway captured")
    session, run = required(value, "session_id"), label(value, "run_id")
    return f"{run}/{session}" if run else session


def _time(value: Json) -> float:
    try:
        return (number(value, "timestamp") if isinstance(value, dict) else None) or 0.0
    except FieldError:
        return 0.0
