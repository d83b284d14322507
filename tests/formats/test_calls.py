from __future__ import annotations

import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mwviz.errors import TraceError
from mwviz.formats import Reading, read
from mwviz.rollout import Call, Part, Usage

GOOD = {"rollout": "r", "call": "good", "prompt_ids": [1, 2], "completion_ids": [3, 4]}


def log(*records: dict[str, Any]) -> Reading:
    return read("\n".join(json.dumps(record) for record in records).encode())


def call_of(record: dict[str, Any]) -> Call:
    return log(record).rollouts[0].calls[0]


def test_ids_and_logprobs_stay_together() -> None:
    call = call_of({**GOOD, "logprobs": [-0.5, None], "temperature": 0.7, "model": "m"})
    assert call.prompt_ids is not None
    assert call.completion_ids is not None
    assert call.logprobs is not None
    assert [str(call.prompt_ids.dtype), str(call.logprobs.dtype)] == ["int32", "float32"]
    assert call.prompt_ids.tolist() == [1, 2]
    assert call.completion_ids.tolist() == [3, 4]
    assert call.logprobs[0] == np.float32(-0.5)
    assert math.isnan(call.logprobs[1])
    assert (call.tokens, call.content, call.temperature, call.model) == (
        "recorded",
        "exact",
        0.7,
        "m",
    )


def test_rollouts_may_be_mixed_and_keep_their_order() -> None:
    reading = log(
        {**GOOD, "rollout": "b", "call": 0},
        {**GOOD, "rollout": "a", "call": 0, "lineage": "helper"},
        {**GOOD, "rollout": "b", "call": 1},
    )
    assert [(r.id, [c.id for c in r.calls]) for r in reading.rollouts] == [
        ("b", ["0", "1"]),
        ("a", ["0"]),
    ]
    assert reading.rollouts[1].calls[0].lineage == "helper"
    assert reading.rollouts[0].calls[0].lineage is None


def test_a_message_of_both_apis_is_read_the_same_way() -> None:
    openai = [
        {"role": "developer", "content": "rules"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "hm",
            "tool_calls": [
                {
                    "id": "t1",
                    "type": "function",
                    "function": {"name": "ls", "arguments": '{"b": 1, "a": [2]}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "out"},
    ]
    anthropic = [
        {"role": "system", "content": "rules"},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "t1", "name": "ls", "input": {"a": [2], "b": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [{"type": "text", "text": "out"}],
                }
            ],
        },
    ]
    left, right = (call_of({"messages": m, "completion": "ok"}).prompt for m in (openai, anthropic))
    assert left is not None
    assert right is not None
    assert [m.content_key for m in left] == [m.content_key for m in right]
    assert left[2].parts[1] == Part("tool_call", '{"a":[2],"b":1}', name="ls", id="t1")
    assert left[3].parts == (Part("tool_result", "out", id="t1"),)
    assert {m.id for m in left} == {None}


def test_what_is_not_text_is_a_part_without_text() -> None:
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
    }
    call = call_of({"messages": [{"role": "user", "content": [image]}], "completion": "ok"})
    assert call.prompt is not None
    (part,) = call.prompt[0].parts
    assert (part.kind, part.text, part.name) == ("image", "", "image/png 9c1c04db")


def image_of(block: dict[str, Any]) -> str | None:
    call = call_of({"messages": [{"role": "user", "content": [block]}], "completion": "ok"})
    assert call.prompt is not None
    return call.prompt[0].parts[0].name


def test_another_image_in_the_same_place_is_another_message() -> None:
    def urls(url: str) -> list[str | None]:
        return [
            image_of({"type": "image_url", "image_url": {"url": url, "detail": "low"}}),
            image_of({"type": "input_image", "image_url": url}),
            image_of({"type": "image", "source": {"type": "url", "url": url}}),
        ]

    one, other = urls("data:image/png;base64,AAAA"), urls("data:image/png;base64,BBBB")
    assert len(set(one)) == len(set(other)) == 1
    assert one[0] != other[0]
    assert urls("https://a/x.png?signed=1") == urls("https://a/x.png?signed=2")
    assert image_of({"type": "input_image", "file_id": "f"}) not in (one[0], "image")
    assert image_of({"type": "image", "source": {"media_type": "image/png"}}) == "image/png"
    shots = [
        call_of({"messages": [{"role": "tool", "content": [block]}], "completion": "ok"})
        for block in (
            {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image", "source": s}]}
            for s in ({"data": "AAAA"}, {"data": "BBBB"})
        )
    ]
    assert len({call.prompt[0].content_key for call in shots if call.prompt}) == 2


def test_arguments_that_are_no_json_stay_text() -> None:
    tool = {"id": "t", "function": {"name": "f", "arguments": "{cut"}}
    call = call_of({"messages": [], "completion": {"role": "assistant", "tool_calls": [tool]}})
    assert call.completion is not None
    assert call.completion[0].parts == (Part("tool_call", "{cut", name="f", id="t"),)


def test_the_tool_list_stands_in_front_of_the_prompt() -> None:
    record = {
        "messages": [{"role": "user", "content": "q"}],
        "completion": "a",
        "tools": [{"b": 1, "a": 2}],
    }
    call = call_of(record)
    assert call.prompt is not None
    assert [(m.role, m.text) for m in call.prompt] == [("system", '[{"a":2,"b":1}]'), ("user", "q")]


def test_a_system_prompt_beside_the_messages_comes_first() -> None:
    chat = [{"role": "user", "content": "q"}]
    for system in ("rules", [{"type": "text", "text": "rules", "cache_control": {}}]):
        call = call_of({"system": system, "messages": chat, "completion": "a"})
        assert call.prompt is not None
        assert [(m.role, m.text) for m in call.prompt] == [("system", "rules"), ("user", "q")]


@pytest.mark.parametrize(
    ("given", "usage"),
    [
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 4},
            },
            Usage(9, 2, 4),
        ),
        (
            {
                "input_tokens": 1,
                "cache_read_input_tokens": 5,
                "cache_creation_input_tokens": 3,
                "output_tokens": 7,
            },
            Usage(9, 7, 5),
        ),
        ({"prompt": 9, "completion": 2, "cached": 0}, Usage(9, 2, 0)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, None),
        (None, None),
    ],
)
def test_usage_is_read_in_every_spelling(given: dict[str, Any] | None, usage: Usage | None) -> None:
    assert call_of({**GOOD, "usage": given}).usage == usage


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("prompt_ids", [1, -2], r"prompt_ids\[1\] is -2, expected an id of 0 to 2147483647"),
        ("prompt_ids", [2**31], r"prompt_ids\[0\] is 2147483648, expected an id"),
        ("prompt_ids", [1.0], r"prompt_ids\[0\] is 1.0, expected a token id"),
        ("prompt_ids", ["1"], r"prompt_ids\[0\] is '1', expected a token id"),
        ("prompt_ids", [1, True], r"prompt_ids\[1\] is True, expected a token id"),
        ("prompt_ids", 5, "prompt_ids is 5, expected a list"),
        ("completion_ids", {"a": 1}, "completion_ids is {'a': 1}, expected a list"),
        ("logprobs", [-0.1], "logprobs has 1 values, expected one for each of 2 ids"),
        ("logprobs", [-0.1, "x"], "logprobs holds 'x', expected a number of at most 0 or null"),
        ("logprobs", [-0.1, 3.0], "logprobs holds 3.0, expected a number of at most 0"),
        ("messages", "hello", "messages is 'hello', expected a list"),
        ("messages", [3], r"messages\[0\] is 3, expected an object"),
        ("messages", [{"content": "x"}], "a message has no role"),
        ("messages", [{"role": "user", "content": 7}], "content is 7, expected a string or a list"),
        ("completion", 7, "completion is 7, expected text or messages"),
        ("temperature", "hot", "temperature is 'hot', expected a number"),
        ("temperature", math.nan, "temperature is nan, expected a finite number"),
        ("usage", {"prompt_tokens": -3}, "prompt_tokens is -3, expected a count"),
        ("semantics", "kv", "semantics is 'kv', expected one of re_prefill"),
        ("kept", [[0, 2], [1, 3]], r"kept\[1\] is \[1, 3\], expected \[start, end\) in tokens"),
        ("time", "yesterday", "time is 'yesterday', expected ISO 8601 or seconds"),
    ],
)
def test_a_call_with_a_wrong_field_is_dropped_and_named(
    field: str, value: object, message: str
) -> None:
    bad = {**GOOD, "call": "bad", field: value}
    reading = log(GOOD, bad)
    assert [call.id for call in reading.rollouts[0].calls] == ["good"]
    (damage,) = reading.damage
    assert (damage.line, damage.kept) == (2, "nothing")
    assert damage.bytes == len(json.dumps(bad))
    with pytest.raises(
        TraceError, match="<bytes>:1: no calls, 1 damaged place, the first: " + message
    ):
        log(bad)


def test_ids_that_repeat_are_kept_apart_and_reported() -> None:
    reading = log(GOOD, GOOD)
    (rollout,) = reading.rollouts
    assert len({call.id for call in rollout.calls}) == 2
    assert rollout.warnings == ("line 2: a second call 'good', kept under a name of its own",)


def test_calls_that_are_numbered_otherwise_than_they_stand_are_reported() -> None:
    def told(*names: int | str) -> tuple[str, ...]:
        return log(*({**GOOD, "call": name} for name in names)).rollouts[0].warnings

    assert told(0, 2, "5", 11) == told("b", "a") == told("20261130000002", "20261130000001") == ()
    (doubt,) = told(0, 2, 1, 3, 0)[1:]
    assert doubt.startswith("line 3: call 1 stands behind call 2; calls are taken in the order of")


def test_a_log_that_repeats_every_message_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    messages: list[dict[str, str]] = []
    with path.open("w") as file:
        for at in range(120):
            messages += [{"role": "user", "content": f"{at} " + "x" * 2000}]
            file.write(json.dumps({"messages": messages, "completion": f"answer {at}"}) + "\n")
            messages += [{"role": "assistant", "content": f"answer {at}"}]
    size = path.stat().st_size
    tracemalloc.start()
    try:
        (rollout,) = read(path).rollouts
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size > 14_000_000
    assert peak < size / 2
    last, before = rollout.calls[-1].prompt, rollout.calls[-2].prompt
    assert last is not None
    assert before is not None
    assert all(a is b for a, b in zip(last, before, strict=False))
