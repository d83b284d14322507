from __future__ import annotations

import json
from typing import Any

import pytest

from mwviz.errors import TraceError
from mwviz.formats import read
from mwviz.rollout import Call, Part, Usage
from tests.formats.test_call_formats import FIXTURES

OPENINFERENCE = {
    "openinference.span.kind": "LLM",
    "session.id": "s",
    "llm.model_name": "m",
    "llm.invocation_parameters": '{"temperature": 0.5}',
    "llm.token_count.prompt": 9,
    "llm.token_count.completion": 2,
    "llm.token_count.prompt_details.cache_read": 4,
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.contents.0.message_content.type": "text",
    "llm.input_messages.0.message.contents.0.message_content.text": "q",
    "llm.input_messages.1.message.role": "assistant",
    "llm.input_messages.1.message.tool_calls.0.tool_call.id": "t",
    "llm.input_messages.1.message.tool_calls.0.tool_call.function.name": "f",
    "llm.input_messages.1.message.tool_calls.0.tool_call.function.arguments": '{"a": 1}',
    "llm.input_messages.2.message.role": "tool",
    "llm.input_messages.2.message.content": "out",
    "llm.input_messages.2.message.tool_call_id": "t",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "a",
}


def call_of(span: dict[str, Any]) -> Call:
    return read(json.dumps(span).encode()).rollouts[0].calls[0]


def test_spans_are_ordered_by_their_start_and_others_are_left_out() -> None:
    (rollout,) = read(FIXTURES / "otel" / "spans.jsonl").rollouts
    assert [call.id for call in rollout.calls] == [f"{n:016x}" for n in (1, 2, 3, 4)]
    first = rollout.calls[0]
    assert first.prompt is not None
    assert [message.role for message in first.prompt] == ["system", "user"]
    assert (rollout.id, first.usage, first.temperature) == ("garden", Usage(60, 12), 0.5)
    assert first.time == 1772359200.0


def test_a_span_that_an_sdk_printed_is_read_with_its_details_event() -> None:
    details = {
        "gen_ai.input.messages": [
            {
                "role": "user",
                "parts": [{"type": "text", "content": "q"}],
            }
        ],
        "gen_ai.output.messages": [
            {
                "role": "assistant",
                "parts": [
                    {"type": "reasoning", "content": "hm"},
                    {"type": "tool_call", "id": "t", "name": "f", "arguments": {"a": 1}},
                ],
                "finish_reason": "tool_call",
            }
        ],
    }
    span = {
        "name": "chat m",
        "context": {"trace_id": "0x1", "span_id": "0x2"},
        "start_time": "2026-03-01T10:00:00Z",
        "attributes": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"},
        "events": [{"name": "gen_ai.client.inference.operation.details", "attributes": details}],
    }
    call = call_of(span)
    assert call.completion is not None
    assert call.completion[0].parts == (
        Part("reasoning", "hm"),
        Part("tool_call", '{"a":1}', name="f", id="t"),
    )
    assert (call.id, call.model, call.finish) == ("0x2", "m", "tool_call")


def test_flattened_messages_are_put_together() -> None:
    call = call_of({"context": {"trace_id": "1", "span_id": "2"}, "attributes": OPENINFERENCE})
    assert call.prompt is not None
    assert call.completion is not None
    assert [(m.role, m.parts) for m in (*call.prompt, *call.completion)] == [
        ("user", (Part("text", "q"),)),
        ("assistant", (Part("tool_call", '{"a":1}', name="f", id="t"),)),
        ("tool", (Part("tool_result", "out", id="t"),)),
        ("assistant", (Part("text", "a"),)),
    ]
    assert (call.usage, call.temperature) == (Usage(9, 2, 4), 0.5)


def test_spans_without_contents_hold_no_call() -> None:
    with pytest.raises(TraceError, match="which is no known format"):
        read(json.dumps({"name": "chat", "attributes": {"gen_ai.request.model": "m"}}).encode())
