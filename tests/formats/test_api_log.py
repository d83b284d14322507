from __future__ import annotations

import json
from typing import Any

import pytest

from mwviz.errors import TraceError
from mwviz.formats import Reading, read
from mwviz.formats.streams import assembled
from mwviz.rollout import Call, Part, Usage

CHAT = {"messages": [{"role": "user", "content": "q"}], "model": "m", "temperature": 0.5}
ANSWER: dict[str, Any] = {
    "id": "c",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "a"}}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2},
}


def log(*records: dict[str, Any]) -> Reading:
    return read("\n".join(map(json.dumps, records)).encode())


def call_of(record: dict[str, Any]) -> Call:
    return log(record).rollouts[0].calls[0]


@pytest.mark.parametrize(
    "record",
    [
        {"request": CHAT, "response": ANSWER},
        {**CHAT, "response": ANSWER},
        {"request_body": json.dumps(CHAT), "response_body": json.dumps(ANSWER)},
        {
            "request": {"method": "POST", "headers": {}, "content": json.dumps(CHAT)},
            "response": {"status_code": 200, "headers": {}, "content": json.dumps(ANSWER)},
        },
    ],
)
def test_an_exchange_is_found_however_it_is_wrapped(record: dict[str, Any]) -> None:
    call = call_of(record)
    assert call.prompt is not None
    assert call.completion is not None
    assert [m.text for m in (*call.prompt, *call.completion)] == ["q", "a"]
    assert (call.id, call.model, call.temperature, call.usage) == ("c", "m", 0.5, Usage(7, 2))
    assert call.content == "exact"


def test_token_ids_and_logprobs_of_an_engine_are_kept() -> None:
    choice = {
        "message": {"role": "assistant", "content": "a"},
        "token_ids": [5, 6],
        "logprobs": {"content": [{"logprob": -0.5}, {"logprob": -1.0}]},
        "finish_reason": "stop",
    }
    response = {"id": "c", "prompt_token_ids": [1, 2, 3], "choices": [choice]}
    call = call_of({"request": CHAT, "response": response})
    assert call.prompt_ids is not None
    assert call.completion_ids is not None
    assert call.logprobs is not None
    assert call.prompt_ids.tolist() == [1, 2, 3]
    assert call.completion_ids.tolist() == [5, 6]
    assert call.logprobs.tolist() == [-0.5, -1.0]
    assert (call.tokens, call.finish) == ("recorded", "stop")


def test_each_choice_is_a_call_and_a_failed_request_one_without_completion() -> None:
    two = {**ANSWER, "choices": ANSWER["choices"] * 2}
    failed = {"error": {"message": "overloaded"}}
    (rollout,) = log({"request": CHAT, "response": two}, {**CHAT, "response": failed}).rollouts
    assert [(c.id, c.completion is None, c.finish) for c in rollout.calls] == [
        ("c", False, None),
        ("c#1", False, None),
        ("2", True, "error"),
    ]


def test_rollouts_go_by_the_names_of_the_log() -> None:
    one = {"session_id": "one", "request": CHAT, "response": ANSWER}
    two = {"request": {**CHAT, "metadata": {"trace_id": 2}}, "response": ANSWER}
    assert [rollout.id for rollout in log(one, two, one).rollouts] == ["one", "2"]


def test_a_log_may_mix_apis() -> None:
    anthropic = {
        "request": {"system": "s", "messages": [{"role": "user", "content": "q"}]},
        "response": {"type": "message", "content": [{"type": "text", "text": "a"}]},
    }
    responses = {
        "request": {"input": "q"},
        "response": {
            "id": "r",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "a"}]}],
        },
    }
    reading = log({"request": CHAT, "response": ANSWER}, anthropic, responses)
    assert reading.format == "openai-chat"
    texts = [
        [m.text for m in (*(c.prompt or ()), *(c.completion or ()))]
        for c in reading.rollouts[0].calls
    ]
    assert texts == [["q", "a"], ["s", "q", "a"], ["q", "a"]]


def test_a_response_that_the_log_lacks_is_a_hole() -> None:
    record = {
        "request": {"input": "more", "previous_response_id": "gone", "instructions": "s"},
        "response": {"id": "r", "object": "response", "output": []},
    }
    call = call_of(record)
    assert call.prompt is not None
    assert [m.text for m in call.prompt] == ["s", "more"]
    assert (call.content, [hole.why for hole in call.holes]) == ("partial", ["an earlier response"])
    assert "not in the log" in log(record).warnings[0]


def test_a_chained_response_sees_what_it_continues_but_not_its_instructions() -> None:
    first = {
        "request": {"input": "q", "instructions": "old"},
        "response": {"id": "r1", "output": [{"type": "reasoning", "summary": [{"text": "hm"}]}]},
    }
    then = {
        "request": {"input": "r", "instructions": "new", "previous_response_id": "r1"},
        "response": {"id": "r2", "output": []},
    }
    (rollout,) = log(first, then).rollouts
    prompt = rollout.calls[1].prompt
    assert prompt is not None
    assert [m.text for m in prompt] == ["new", "q", "hm", "r"]
    assert prompt[2].parts == (Part("reasoning", "hm"),)


def test_server_edits_and_compaction_blocks_are_told() -> None:
    edited = {
        "request": {"messages": [{"role": "user", "content": "q"}]},
        "response": {
            "type": "message",
            "content": [],
            "context_management": {"applied_edits": [{"cleared_input_tokens": 5000}]},
        },
    }
    block = [{"type": "compaction", "content": "short"}, {"type": "text", "text": "go on"}]
    compacted = {
        "request": {"messages": [{"role": "assistant", "content": block}]},
        "response": {"type": "message", "content": []},
    }
    reading = log(edited, compacted)
    assert [call.content for call in reading.rollouts[0].calls] == ["unknown", "unknown"]
    assert "cleared_input_tokens 5,000" in reading.warnings[0]
    assert "leaves out what stands before it" in reading.warnings[1]


CHUNKS = [
    {"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "He"}}]},
    {
        "id": "c",
        "choices": [
            {
                "index": 0,
                "delta": {
                    "content": "y",
                    "tool_calls": [
                        {"index": 0, "id": "t", "function": {"name": "f", "arguments": '{"a"'}}
                    ],
                },
            }
        ],
    },
    {
        "id": "c",
        "choices": [
            {
                "index": 0,
                "delta": {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]},
                "finish_reason": "tool_calls",
            }
        ],
    },
    {"id": "c", "choices": [], "usage": {"prompt_tokens": 3}},
]


@pytest.mark.parametrize(
    "stream",
    [
        CHUNKS,
        "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in CHUNKS) + "data: [DONE]\n",
    ],
)
def test_a_streamed_chat_is_joined(stream: Any) -> None:
    call = call_of({"request": CHAT, "response": stream})
    assert call.completion is not None
    assert call.completion[0].parts == (
        Part("text", "Hey"),
        Part("tool_call", '{"a":1}', name="f", id="t"),
    )
    assert (call.finish, call.usage) == ("tool_calls", Usage(3))


def test_a_streamed_message_is_joined() -> None:
    events = [
        {"type": "message_start", "message": {"id": "m", "type": "message", "usage": {"a": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "hi"},
        },
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}},
        },
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": '{"a": 1}'},
        },
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"b": 2}},
    ]
    body = assembled("".join(f"event: e\ndata: {json.dumps(event)}\n\n" for event in events))
    assert body is not None
    assert body["content"] == [
        {"type": "text", "text": "hi"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
    ]
    assert (body["stop_reason"], body["usage"]) == ("tool_use", {"a": 1, "b": 2})
    assert assembled([{"type": "response.completed", "response": {"output": []}}]) == {"output": []}
    assert assembled("no stream") is None


def test_a_streamed_text_completion_is_joined_with_its_ids_and_logprobs() -> None:
    first = {"index": 0, "text": " a", "token_ids": [5], "prompt_token_ids": [1, 2]}
    first["logprobs"] = {"tokens": [" a"], "token_logprobs": [-0.5]}
    last = {"index": 0, "text": " b", "token_ids": [6], "finish_reason": "length"}
    last["logprobs"] = {"tokens": [" b"], "token_logprobs": [-1.0]}
    chunks = [{"id": "c", "choices": [choice]} for choice in (first, last)]
    stream = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    call = call_of({"request": {"prompt": "q"}, "response": stream})
    assert call.completion is not None
    assert call.completion[0].text == " a b"
    assert call.prompt_ids is not None
    assert call.completion_ids is not None
    assert call.logprobs is not None
    assert call.prompt_ids.tolist() == [1, 2]
    assert call.completion_ids.tolist() == [5, 6]
    assert call.logprobs.tolist() == [-0.5, -1.0]
    assert call.finish == "length"


def test_a_text_prompt_of_token_ids_is_a_recorded_prompt() -> None:
    answer = {"choices": [{"text": "a"}, {"text": "b"}]}
    calls = log({"request": {"prompt": [[1, 2], [3]]}, "response": answer}).rollouts[0].calls
    assert [None if c.prompt_ids is None else c.prompt_ids.tolist() for c in calls] == [[1, 2], [3]]


def test_a_text_prompt_of_another_kind_is_named() -> None:
    with pytest.raises(TraceError, match="expected text, token ids or a list of them"):
        log({"request": {"prompt": {"a": 1}}, "response": ANSWER})


def test_a_responses_stream_that_was_cut_keeps_what_came() -> None:
    item: dict[str, Any] = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "x"}],
    }
    body = assembled(
        [
            {"type": "response.created", "response": {"id": "r", "status": "in_progress"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.output_text.delta", "output_index": 1, "delta": "hal"},
            {"type": "response.output_text.delta", "output_index": 1, "delta": "f"},
        ]
    )
    assert body is not None
    assert body["output"] == [item, {"role": "assistant", "type": "message", "content": "half"}]
