"""Logs of requests and responses: OpenAI chat, text and Responses, Anthropic messages.

A log may mix the four; each record is read by its own API. Retries, side calls and failed requests
are calls like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mwviz.formats.anthropic import anthropic_calls
from mwviz.formats.call_fields import moment
from mwviz.formats.chat import Pool
from mwviz.formats.exchange import Exchange, exchange, holds, rollout_name
from mwviz.formats.fields import FieldError, Object, shown
from mwviz.formats.openai_chat import chat_calls
from mwviz.formats.openai_responses import Chains
from mwviz.formats.openai_text import text_calls
from mwviz.formats.percall import Row, gather
from mwviz.formats.records import Record, Records
from mwviz.rollout import Call, Rollout

TIMES = ("time", "timestamp", "start_time", "startTime", "created_at", "ts")


def detects_chat(head: Sequence[Record]) -> bool:
    """Whether the first exchange is with a chat-completions endpoint."""
    return holds(head, "chat")


def detects_responses(head: Sequence[Record]) -> bool:
    """Whether the first exchange is with a Responses endpoint."""
    return holds(head, "responses")


def detects_text(head: Sequence[Record]) -> bool:
    """Whether the first exchange is with a text-completions endpoint."""
    return holds(head, "text")


def detects_anthropic(head: Sequence[Record]) -> bool:
    """Whether the first exchange is with Anthropic's messages endpoint."""
    return holds(head, "anthropic")


def reads(records: Records) -> list[Rollout]:
    """The rollouts in order of their first call."""
    chains = Chains()

    def rows(record: Record, pool: Pool) -> Iterator[Row]:
        found = exchange(record.value, record.line)
        if found is None:
            raise FieldError(f"{shown(record.value)}, expected a request with its response")
        name = rollout_name(found.record, found.request)
        started = _started(found.record)
        for call, doubts in exchange_calls(found, pool, chains):
            yield Row(name, call if started is None else replace(call, time=started), doubts)

    return gather(records, rows)


def exchange_calls(
    found: Exchange, pool: Pool, chains: Chains
) -> Iterator[tuple[Call, tuple[str, ...]]]:
    """The calls of one exchange, each with what the log leaves open about it."""
    if found.api == "chat":
        yield from ((call, ()) for call in chat_calls(found, pool))
    elif found.api == "text":
        yield from ((call, ()) for call in text_calls(found, pool))
    elif found.api == "responses":
        yield from chains.calls(found, pool)
    else:
        yield from anthropic_calls(found, pool)


def _started(record: Object) -> float | None:
    for key in TIMES:
        try:
            found = moment(record, key)
        except FieldError:
            continue
        if found is not None:
            return found
    return None
