"""verifiers: `traces.jsonl` (a message graph a trace) and `results.jsonl` with its trajectory.

prime-rl writes the same files. A trace is a rollout; the order of its calls is the log's, branches
are found from the contexts. Attempts that gave no message are told and left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from mwviz.formats.call_fields import moment, read_usage
from mwviz.formats.calls import read_generic
from mwviz.formats.chat import Pool, read_message, tools_message
from mwviz.formats.fields import (
    FieldError,
    Json,
    Object,
    child,
    count,
    label,
    label_or,
    logprobs,
    members,
    number,
    objects,
    objects_in,
    shown,
    token_ids,
)
from mwviz.formats.fields import string as text
from mwviz.formats.graph import Node, with_context
from mwviz.formats.percall import Row, gather, strays
from mwviz.formats.records import Record, Records
from mwviz.rollout import Call, Rollout
from mwviz.wording import counted

SIDES = frozenset({"prompt", "completion"})
NODE = frozenset({"parent", "message"})
TOKENS = {
    "prompt_ids": "prompt_ids",
    "completion_ids": "completion_ids",
    "logprobs": "completion_logprobs",
}
"""Fields of a step's tokens, by the names of the generic per-call log."""


def detects(head: Sequence[Record]) -> bool:
    """Whether a record holds the message graph of a trace."""
    return any(_traces(record.value) for record in head)


def reads(records: Records) -> list[Rollout]:
    """One rollout a trace."""
    return gather(records, _rows)


def detects_results(head: Sequence[Record]) -> bool:
    """Whether a record holds a trajectory of steps with prompts and completions."""
    return any(_steps(record.value) for record in head)


def reads_results(records: Records) -> list[Rollout]:
    """One rollout a record."""
    seen: dict[str, int] = {}

    def rows(record: Record, pool: Pool) -> Iterator[Row | FieldError]:
        steps = _steps(record.value)
        if not steps or not isinstance(record.value, dict):
            raise FieldError(f"{shown(record.value)}, expected a result with its trajectory")
        name = label_or(record.value, "example_id", "rollout")
        seen[name] = seen.get(name, 0) + 1
        name = name if seen[name] == 1 else f"{name}-{seen[name]}"
        yield from strays(record.value, "trajectory", lambda s: s.keys() >= SIDES, "step")
        for step in steps:
            try:
                call = _step(record.value, step, record.line, pool)
            except FieldError as error:
                yield error
                continue
            yield Row(name, call, reward=number(record.value, "reward"))

    return gather(records, rows)


def _steps(value: Json) -> list[Object]:
    return [step for step in objects_in(value, "trajectory") if step.keys() >= SIDES]


def _step(result: Object, step: Object, line: int, pool: Pool) -> Call:
    tokens = child(step, "tokens") or {}
    response = child(step, "response") or {}
    return read_generic(
        {
            "lineage": step.get("trajectory_id"),
            "messages": _chat(step["prompt"]),
            "completion": step["completion"],
            "tools": result.get("tools") or result.get("oai_tools"),
            "usage": response.get("usage"),
            "model": response.get("model"),
            "reward": step.get("reward"),
            **{field: tokens.get(key) for field, key in TOKENS.items()},
        },
        line,
        pool,
    )


def _chat(prompt: Json) -> Json:
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt


def _traces(value: Json) -> list[Object]:
    """The traces of an episode, or the trace that the record is."""
    if not isinstance(value, dict):
        return []
    given = value.get("traces", [value])
    if not isinstance(given, list):
        return []
    return [trace for trace in given if isinstance(trace, dict) and _is_graph(trace.get("nodes"))]


def _is_graph(nodes: Json) -> bool:
    return (
        isinstance(nodes, list)
        and bool(nodes)
        and all(isinstance(node, dict) and node.keys() >= NODE for node in nodes)
    )


def _rows(record: Record, pool: Pool) -> Iterator[Row | FieldError]:
    traces = _traces(record.value)
    if not traces:
        raise FieldError(f"{shown(record.value)}, expected an episode or a trace with nodes")
    yield from strays(record.value, "traces", lambda t: _is_graph(t.get("nodes")), "trace of nodes")
    for at, trace in enumerate(traces):
        name = label(trace, "id") or f"line {record.line}, trace {at}"
        nodes = [_node(value, record.line, pool) for value in objects(trace, "nodes") or ()]
        made, failed = _made(trace, nodes)
        doubts = _failed(failed)
        for index, (node, said) in enumerate(made):
            try:
                call = _call(trace, nodes, node, said=said, line=record.line, pool=pool)
            except FieldError as error:
                yield error
                continue
            yield Row(name, replace(call, id=str(index)), doubts, _reward(trace))
            doubts = ()


def _failed(failed: int) -> tuple[str, ...]:
    return (
        (f"left out: {counted(failed, 'request')} of its trace without a message",)
        if failed
        else ()
    )


def _node(value: Object, line: int, pool: Pool) -> Node:
    ids = token_ids(value, "token_ids")
    ids = np.empty(0, dtype=np.int32) if ids is None else ids
    mask = members(value, "mask") or []
    sampled = np.array([bool(mark) for mark in mask], dtype=np.bool_)
    known = logprobs(value, "logprobs", ids[: len(members(value, "logprobs") or [])])
    message = child(value, "message")
    if message is None:
        raise FieldError("a node has no message")
    return Node(
        parent=count(value, "parent"),
        message=pool(read_message(message, line=line)),
        ids=ids,
        sampled=sampled,
        logprobs=known if known is not None and len(known) else None,
    )


def _made(trace: Object, nodes: list[Node]) -> tuple[list[tuple[int, Object]], int]:
    """Sampled nodes in the order of their calls, each with its call; how many calls failed."""
    calls = objects(trace, "calls") or []
    made = [(node, call) for call in calls if (node := count(call, "node")) is not None]
    if any(node >= len(nodes) for node, _ in made):
        raise FieldError(f"a call names a node that is not there: the trace has {len(nodes)}")
    named = {node for node, _ in made}
    given = objects(trace, "nodes") or []
    rest: list[tuple[int, Object]] = [
        (n, {}) for n, node in enumerate(given) if node.get("sampled") and n not in named
    ]
    if not made:
        return rest, len(calls)
    return [*made, *rest], len(calls) - len(made)


def _call(
    trace: Object, nodes: list[Node], node: int, *, said: Object, line: int, pool: Pool
) -> Call:
    started = child(said, "time") or {}
    sampling = child(said, "sampling") or {}
    call = Call(
        "",
        usage=read_usage(child(said, "usage")),
        model=text(said, "model"),
        finish=text(said, "finish_reason"),
        time=moment(started, "start"),
        temperature=number(sampling, "temperature"),
        line=line,
    )
    call = with_context(call, nodes, node)
    tools = trace.get("tools")
    if tools and call.prompt_ids is None:
        return replace(call, prompt=(pool(tools_message(tools, line)), *(call.prompt or ())))
    return call


def _reward(trace: Object) -> float | None:
    """Sum of score times weight; None if nothing was scored."""
    values: list[float] = []
    for reward in (child(trace, "rewards") or {}).values():
        if isinstance(reward, dict) and (score := number(reward, "score")) is not None:
            weight = number(reward, "weight")
            values.append(score * (1.0 if weight is None else weight))
    return sum(values) if values else None
