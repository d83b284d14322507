"""LiteLLM's standard logging payloads: one JSON object a call, whatever the provider.

The payload may stand by itself or under `standard_logging_object`. Contents can be switched off in
the proxy; such calls are counted and told, their texts are placeholders.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mwviz.formats.api_log import exchange_calls
from mwviz.formats.call_fields import moment
from mwviz.formats.chat import Pool
from mwviz.formats.exchange import Api, Exchange, rollout_name
from mwviz.formats.fields import FieldError, Json, Object, child, count, label_or, shown
from mwviz.formats.fields import string as text
from mwviz.formats.openai_responses import Chains
from mwviz.formats.percall import ONLY_ROLLOUT, Row, gather
from mwviz.formats.records import Record, Records
from mwviz.rollout import Call, Rollout, Usage

WRAPPED = "standard_logging_object"
KEYS = frozenset({"call_type", "messages", "response", "model_parameters"})
REDACTED = "redacted-by-litellm"
HIDDEN = "its content was switched off in the proxy: only counts are true"
ALONE = (
    "each call has a trace id of its own, so all calls are read as one rollout in file order; give "
    "the calls of an episode one session id to keep episodes apart"
)
CHATS = ("completion", "text", "responses", "anthropic", "messages", "pass_through")
"""Words of the call types that are requests to a chat model; embeddings and images are none."""


def detects(head: Sequence[Record]) -> bool:
    """Whether a record is such a payload or wraps one."""
    return any(_payload(record.value) is not None for record in head)


def reads(records: Records) -> list[Rollout]:
    """The rollouts in order of their first call: one a session or trace, else one of all."""
    chains = Chains()

    def rows(record: Record, pool: Pool) -> Iterator[Row]:
        payload = _payload(record.value)
        if payload is None:
            raise FieldError(f"{shown(record.value)}, expected a standard logging payload")
        kind = text(payload, "call_type") or "completion"
        if not any(word in kind for word in CHATS):
            raise FieldError(f"a call of type {shown(kind)}, expected one of a chat model")
        found = _exchange(payload, record.line)
        hidden = REDACTED in str(payload["messages"])
        for call, doubts in exchange_calls(found, pool, chains):
            full = _with_facts(call, payload)
            if hidden:
                full, doubts = replace(full, content="unknown"), (*doubts, HIDDEN)
            yield Row(_rollout(payload), full, doubts)

    return _joined(gather(records, rows))


def _joined(rollouts: list[Rollout]) -> list[Rollout]:
    """One rollout where the trace ids group nothing: by default each request has its own."""
    if not rollouts[1:] or any(len(rollout.calls) > 1 for rollout in rollouts):
        return rollouts
    warnings = [ALONE, *(text for rollout in rollouts for text in rollout.warnings)]
    calls = {call.id or rollout.id: call for rollout in rollouts for call in rollout.calls}
    if len(calls) < len(rollouts):
        return rollouts
    named = tuple(replace(call, id=name) for name, call in calls.items())
    return [Rollout(ONLY_ROLLOUT, named, warnings=tuple(dict.fromkeys(warnings)))]


def _payload(value: Json) -> Object | None:
    """The payload that the record is or wraps; None if it is none."""
    if isinstance(value, dict) and isinstance(inner := value.get(WRAPPED), dict):
        value = inner
    return value if isinstance(value, dict) and value.keys() >= KEYS else None


def _rollout(payload: Object) -> str:
    session = rollout_name({}, {"metadata": _metadata(payload)})
    return label_or(payload, "trace_id", ONLY_ROLLOUT) if session == ONLY_ROLLOUT else session


def _metadata(payload: Object) -> Object:
    given = child(payload, "metadata") or {}
    return {**given, **(child(given, "requester_metadata") or {})}


def _exchange(payload: Object, line: int) -> Exchange:
    settings = child(payload, "model_parameters") or {}
    given = payload["response"]
    response: Object = given if isinstance(given, dict) else {"error": payload.get("error_str")}
    prompt = payload["messages"]
    api: Api = "chat"
    if "output" in response or "responses" in str(payload["call_type"]):
        api = "responses"
    elif response.get("type") == "message":
        api = "anthropic"
    if isinstance(prompt, str) and api != "responses":
        prompt = [{"role": "user", "content": prompt}]
    request = {**settings, ("input" if api == "responses" else "messages"): prompt}
    request.setdefault("model", payload.get("model"))
    return Exchange(payload, request, response, line, api)


def _with_facts(call: Call, payload: Object) -> Call:
    """The call with what the payload says beside its request and response."""
    usage = call.usage or _usage(payload)
    started = moment(payload, "startTime")
    finish = "error" if payload.get("status") == "failure" else call.finish
    return replace(
        call,
        id=call.id or label_or(payload, "id", ""),
        usage=usage,
        time=call.time if started is None else started,
        finish=finish,
    )


def _usage(payload: Object) -> Usage | None:
    prompt, completion = count(payload, "prompt_tokens"), count(payload, "completion_tokens")
    return Usage(prompt, completion) if prompt or completion else None
