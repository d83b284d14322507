"""Streamed answers, joined to what the model said: no text may be lost on the way."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mwviz.formats import read
from mwviz.formats.streams import assembled
from mwviz.rollout import Call, Part, Usage

CHAT = {"messages": [{"role": "user", "content": "q"}], "model": "m"}
Delta = dict[str, Any]


def events(values: list[dict[str, Any]]) -> str:
    return "".join(f"data: {json.dumps(value, ensure_ascii=False)}\n\n" for value in values)


def chunks(*deltas: Delta, index: int = 0) -> list[dict[str, Any]]:
    return [{"id": "c", "choices": [{"index": index, "delta": delta}]} for delta in deltas]


def call_of(stream: str, request: dict[str, Any] | None = None) -> Call:
    (rollout,) = read(
        json.dumps({"request": request or CHAT, "response": stream}).encode()
    ).rollouts
    return rollout.calls[0]


def said(*deltas: Delta) -> tuple[Part, ...]:
    completion = call_of(events(chunks(*deltas))).completion
    assert completion is not None
    return completion[0].parts


def tool(index: int | None, name: str | None, arguments: str) -> Delta:
    call: dict[str, Any] = {"function": {"arguments": arguments}}
    if name is not None:
        call = {"id": f"id-{name}", "function": {"name": name, "arguments": arguments}}
    return {"tool_calls": [call if index is None else {"index": index, **call}]}


def called(name: str, arguments: str) -> Part:
    return Part("tool_call", arguments, name=name, id=f"id-{name}")


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x1c"])
def test_separators_within_the_text_do_not_end_an_event(separator: str) -> None:
    text = f"one{separator}two"
    stream = f'data: {{"id": "c", "choices": [{{"delta": {{"content": "{text}"}}}}]}}\n\n'
    if separator == "\x1c":
        stream = stream.replace(separator, "\\u001c")
    completion = call_of(stream).completion
    assert completion is not None
    assert completion[0].text == text


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_an_event_may_stand_on_several_lines(end: str) -> None:
    pretty = json.dumps(chunks({"content": "a"})[0], indent=1).split("\n")
    stream = end.join((*(f"data: {line}" for line in pretty), "", "data: [DONE]", "", ""))
    assert assembled(stream) == {
        "id": "c",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "a"}}],
    }


def test_events_that_no_empty_line_parts_are_read_one_by_one() -> None:
    stream = events(chunks({"content": "a"}, {"content": "b"})).replace("\n\n", "\n")
    completion = call_of(stream).completion
    assert completion is not None
    assert completion[0].text == "ab"


@pytest.mark.parametrize(
    "deltas",
    [
        (tool(0, "f", "{}"), tool(1, "g", '{"a"'), tool(1, None, ":1}")),
        (tool(1, "f", "{}"), tool(2, "g", '{"a"'), tool(2, None, ":1}")),
        (tool(0, "f", "{}"), tool(0, "g", '{"a"'), tool(0, None, ":1}")),
        (tool(None, "f", "{}"), tool(None, "g", '{"a"'), tool(None, None, ":1}")),
    ],
    ids=["from 0", "from 1", "all 0", "none"],
)
def test_parallel_calls_are_told_apart_however_they_are_counted(deltas: tuple[Delta, ...]) -> None:
    assert said(*deltas) == (called("f", "{}"), called("g", '{"a":1}'))


def test_calls_whose_pieces_alternate_are_joined_each() -> None:
    pieces = tool(0, "f", '{"a"'), tool(1, "g", '{"b"'), tool(0, None, ":1}"), tool(1, None, ":2}")
    assert said(*pieces) == (called("f", '{"a":1}'), called("g", '{"b":2}'))


def test_what_is_said_outside_the_content_is_kept() -> None:
    legacy = (
        {"function_call": {"name": "f", "arguments": '{"a"'}},
        {"function_call": {"arguments": ":1}"}},
    )
    assert said(*legacy) == (Part("tool_call", '{"a":1}', name="f"),)
    assert said({"refusal": "I will"}, {"refusal": " not"}) == (Part("text", "I will not"),)
    spoken = said({"audio": {"id": "a", "transcript": "he"}}, {"audio": {"transcript": "y"}})
    assert spoken == (Part("other", '{"transcript":"hey","type":"audio"}', name="audio"),)


def test_content_that_is_streamed_as_blocks_is_joined() -> None:
    def thinking(text: str) -> Delta:
        return {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]}

    parts = said(thinking("he"), thinking("y"), {"content": "an"}, {"content": "swer"})
    assert parts == (Part("reasoning", "hey"), Part("text", "answer"))


def test_choices_stand_in_the_order_of_their_index_and_share_no_count() -> None:
    told = [*chunks({"content": "b"}, index=1), *chunks({"content": "a"})]
    usage = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 9}}
    record = {"request": CHAT, "response": events([*told, usage])}
    calls = read(json.dumps(record).encode()).rollouts[0].calls
    assert [(c.id, c.completion and c.completion[0].text) for c in calls] == [
        ("c", "a"),
        ("c#1", "b"),
    ]
    assert [call.usage for call in calls] == [Usage(7), Usage(7)]


def test_an_error_in_a_stream_is_how_the_call_ended() -> None:
    failed = {"error": {"message": "overloaded"}}
    chat = call_of(events([*chunks({"content": "half"}), failed]))
    message: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "type": "message"}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": "half"},
        },
        {"type": "error", **failed},
    ]
    claude = call_of(events(message))
    responses = call_of(
        events(
            [
                {"type": "response.created", "response": {"id": "r", "status": "in_progress"}},
                {"type": "response.output_text.delta", "output_index": 0, "delta": "half"},
                {"type": "error", "code": "server_error", "message": "overloaded"},
            ]
        ),
        {"input": "q"},
    )
    for call in (chat, claude, responses):
        assert call.completion is not None
        assert (call.completion[0].text, call.finish) == ("half", "error")


def test_items_of_a_cut_responses_stream_keep_their_order_and_their_calls() -> None:
    created = {"type": "response.created", "response": {"id": "r", "status": "in_progress"}}
    done = [
        {
            "type": "response.output_item.done",
            "output_index": at,
            "item": {"type": "message", "role": "assistant", "content": f"part {at}"},
        }
        for at in range(11)
    ]
    thought = {"type": "response.reasoning_summary_text.delta", "output_index": 11, "delta": "hm"}
    item = {"type": "function_call", "name": "f", "call_id": "t", "arguments": ""}
    call = [
        {"type": "response.output_item.added", "output_index": 12, "item": item},
        {"type": "response.function_call_arguments.delta", "output_index": 12, "delta": '{"a"'},
    ]
    found = call_of(events([created, *done, thought, *call]), {"input": "q"}).completion
    assert found is not None
    assert [message.text for message in found[:11]] == [f"part {at}" for at in range(11)]
    assert found[11].parts == (Part("reasoning", "hm"),)
    assert found[12].parts == (Part("tool_call", '{"a"', name="f", id="t"),)


def test_an_item_that_is_only_named_is_looked_up_or_told() -> None:
    first = {
        "request": {"input": "q"},
        "response": {
            "id": "r",
            "output": [{"type": "message", "id": "i", "role": "assistant", "content": "a"}],
        },
    }
    names = [{"type": "item_reference", "id": "i"}, {"type": "item_reference", "id": "gone"}]
    second = {"request": {"input": names}, "response": {"id": "s", "output": []}}
    reading = read("\n".join(map(json.dumps, (first, second))).encode())
    call = reading.rollouts[0].calls[1]
    assert call.prompt is not None
    assert call.prompt[0].text == "a"
    assert call.prompt[1].parts == (Part("other", "", name="item_reference", id="gone"),)
    assert call.content == "partial"
    assert "named only" in reading.warnings[0]
