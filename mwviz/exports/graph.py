"""verifiers-like traces: a rollout as a graph of messages, each with the tokens it adds.

The token ids along a path are the context, token for token. A call's node holds the generation
prompt and what was sampled; the tokens that close a message stand at the start of the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mwviz.errors import TraceError
from mwviz.exports.calls import usage_record
from mwviz.exports.chat import chat_message, without_tools
from mwviz.formats.fields import Json, Object
from mwviz.formats.mwviz1_writer import id_list, logprob_list
from mwviz.rollout import Call, Ints, Message, Rollout, Span

Key = tuple[bytes, bool, bytes]


@dataclass(slots=True)
class _Graph:
    """The nodes so far."""

    records: list[Json] = field(default_factory=list)
    ids: list[Ints] = field(default_factory=list)
    children: dict[int | None, dict[Key, int]] = field(default_factory=dict)

    def node(self, parent: int | None, key: Key, record: Object, ids: Ints) -> int:
        """The child of this key, made if it is new."""
        siblings = self.children.setdefault(parent, {})
        if key not in siblings:
            siblings[key] = len(self.records)
            self.records.append({"parent": parent, **record})
            self.ids.append(ids)
        return siblings[key]

    def longest(self, parent: int | None, rest: Ints) -> int | None:
        """The child whose tokens are the longest beginning of these; None if none's are."""
        best = None
        for child in self.children.get(parent, {}).values():
            size = len(self.ids[child])
            if size and size <= len(rest) and np.array_equal(self.ids[child], rest[:size]):
                best = child if best is None or size > len(self.ids[best]) else best
        return best


def trace_record(rollout: Rollout) -> Object:
    """A rollout as one record of `traces.jsonl`.

    Raises:
        TraceError: Some of its calls have token ids and others have none, or a reply without ids
            is several messages.
    """
    with_ids = [call.prompt_ids is not None for call in rollout.calls]
    if any(with_ids) and not all(with_ids):
        raise TraceError(
            f"rollout {rollout.id!r}: {sum(with_ids)} of {len(with_ids)} calls have token ids, "
            "expected all or none for a graph; take --as calls"
        )
    for call in rollout.calls:
        if call.prompt_ids is None and len(call.completion or ()) > 1:
            raise TraceError(
                f"rollout {rollout.id!r}, call {call.id!r}: its reply is "
                f"{len(call.completion or ())} messages, expected one for a graph; take --as calls"
            )
    graph = _Graph()
    add = _add_tokens if any(with_ids) else _add_messages
    calls: list[Json] = [_call_record(call, add(graph, call)) for call in rollout.calls]
    tools: Json = None
    if rollout.calls and not any(with_ids):
        tools, _ = without_tools(rollout.calls[0].prompt or ())
    record: Object = {"version": 1, "id": rollout.id, "tools": tools or [], "nodes": graph.records}
    if rollout.reward is not None:
        record["rewards"] = {"reward": {"score": rollout.reward, "weight": 1.0}}
    return record | {"calls": calls}


def _call_record(call: Call, node: int | None) -> Object:
    return {
        "node": node,
        "model": call.model,
        "sampling": {} if call.temperature is None else {"temperature": call.temperature},
        "finish_reason": call.finish,
        "usage": usage_record(call.usage),
        "time": {} if call.time is None else {"start": call.time},
        "error": None if node is not None else {"type": "error", "message": call.finish or ""},
    }


def _add_messages(graph: _Graph, call: Call) -> int | None:
    """Nodes without tokens; the one that holds the reply, None if there is none."""
    at: int | None = None
    _, prompt = without_tools(call.prompt or ())
    nothing = np.empty(0, np.int32)
    for message in prompt:
        record = _record(chat_message(message), nothing, sampled=0)
        at = graph.node(at, (message.content_key, False, b""), record, nothing)
    for message in call.completion or ():
        record = _record(chat_message(message), nothing, sampled=0) | {"sampled": True}
        at = graph.node(at, (message.content_key, True, b""), record, nothing)
    return at if call.completion else None


def _add_tokens(graph: _Graph, call: Call) -> int | None:
    """Nodes whose tokens are the context; the one that was sampled, None if nothing was."""
    prompt, sampled = call.prompt_ids, call.completion_ids
    assert prompt is not None
    start, at = 0, None
    cuts, messages = _cuts(call, len(prompt)), _whole(call)
    while start < len(prompt):
        known = graph.longest(at, prompt[start:])
        if known is None:
            end = next((cut for cut in cuts if cut > start), len(prompt))
            if end == len(prompt) and not _is_message(messages, start) and sampled is not None:
                break  # the generation prompt belongs to the reply
            ids = prompt[start:end]
            record = _record(_said(call, messages, start), ids, sampled=0)
            known = graph.node(at, (ids.tobytes(), False, b""), record, ids)
        at, start = known, start + len(graph.ids[known])
    if sampled is None:
        return None
    ids = np.concatenate((prompt[start:], sampled), dtype=np.int32)
    record = _record(_reply(call), ids, sampled=len(sampled)) | {"sampled": True}
    record["logprobs"] = logprob_list(call.logprobs) or []
    seen = b"" if call.logprobs is None else call.logprobs.tobytes()
    return graph.node(at, (ids.tobytes(), True, seen), record, ids)


def _record(message: Object, ids: Ints, *, sampled: int) -> Object:
    mask = [False] * (len(ids) - sampled) + [True] * sampled
    return {
        "message": message,
        "sampled": False,
        "token_ids": id_list(ids),
        "mask": list[Json](mask),
        "logprobs": [],
    }


def _cuts(call: Call, size: int) -> list[int]:
    """Where messages end in the prompt, as far as the log knows; its end is always one."""
    spans = call.spans or ()
    return sorted({span.end for span in spans if span.end < size} | {size})


def _whole(call: Call) -> list[Span]:
    """Spans of the messages that end within the prompt; one that goes on is the reply's."""
    size = 0 if call.prompt_ids is None else len(call.prompt_ids)
    return [span for span in call.spans or () if span.end <= size]


def _is_message(spans: Sequence[Span], place: int) -> bool:
    return any(span.start <= place < span.end for span in spans)


def _said(call: Call, spans: Sequence[Span], place: int) -> Object:
    """The message at a place of the prompt; without text where the log does not know it."""
    at = next((n for n, span in enumerate(spans) if span.start <= place < span.end), None)
    if at is None:
        return {"role": "user", "content": None}
    known: Sequence[Message] = call.prompt or ()
    if len(known) == len(spans):
        return chat_message(known[at])
    return {"role": spans[at].role or "user", "content": None}


def _reply(call: Call) -> Object:
    if call.completion:
        return chat_message(call.completion[0])
    return {"role": "assistant", "content": None}
