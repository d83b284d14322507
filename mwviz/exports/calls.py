"""One JSON record a call: the generic per-call log, with ids and logprobs where recorded."""

from __future__ import annotations

from collections.abc import Sequence

from mwviz.exports.chat import chat_message, without_tools
from mwviz.formats.fields import Object
from mwviz.formats.mwviz1_writer import id_list, logprob_list
from mwviz.rollout import Call, Rollout, Usage

SCALARS = ("lineage", "temperature", "model", "weights", "finish", "time", "reward", "semantics")


def call_records(rollouts: Sequence[Rollout]) -> list[Object]:
    """The records of all calls, in order; rendered token ids are not written."""
    return [_record(rollout, call) for rollout in rollouts for call in rollout.calls]


def usage_record(usage: Usage | None) -> Object | None:
    """Token counts in the names of chat endpoints."""
    if usage is None:
        return None
    cached: Object | None = None if usage.cached is None else {"cached_tokens": usage.cached}
    counts: Object = {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "prompt_tokens_details": cached,
    }
    return {key: value for key, value in counts.items() if value is not None}


def _record(rollout: Rollout, call: Call) -> Object:
    record: Object = {
        "rollout": rollout.id,
        "call": call.id,
        "prompt_ids": id_list(call.prompt_ids),
        "completion_ids": id_list(call.completion_ids),
        "logprobs": logprob_list(call.logprobs),
        "usage": usage_record(call.usage),
    }
    if call.prompt is not None:
        tools, messages = without_tools(call.prompt)
        record |= {"tools": tools, "messages": [chat_message(m) for m in messages]}
    if call.completion is not None:
        record["completion"] = [chat_message(message) for message in call.completion]
    record |= {key: getattr(call, key) for key in SCALARS}
    if call.kept is not None:
        record["kept"] = [list(bounds) for bounds in call.kept]
    if call.content != "exact":
        record["fidelity"] = call.content
    if call.holes:
        record["holes"] = [{"why": hole.why, "tokens": hole.tokens} for hole in call.holes]
    record["reward"] = rollout.reward if call.reward is None else call.reward
    return {key: value for key, value in record.items() if value is not None}
