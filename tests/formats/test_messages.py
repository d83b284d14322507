from __future__ import annotations

import json
from pathlib import Path

import pytest

from mwviz.errors import TraceError
from mwviz.formats import read

CASES = Path(__file__).parents[1] / "data" / "cases"


def test_v02_markup_is_text_and_the_last_result_is_in_no_call() -> None:
    reading = read(CASES / "V02" / "session.jsonl")
    (rollout,) = reading.rollouts
    (call,) = rollout.calls
    assert reading.format == "messages"
    assert call.prompt is not None
    assert call.completion is not None
    assert call.prompt[0].text == "<b>bold</b><img src=x onerror=\"document.title='HIT'\">"
    assert call.completion[0].name == "</div><h1>x"
    assert reading.warnings == ("in no call: 1 message after the last assistant message (line 3)",)


def test_each_assistant_message_is_a_call_on_all_before_it() -> None:
    chat = [
        ("system", "s"),
        ("user", "q"),
        ("assistant", "a"),
        ("assistant", "b"),
        ("user", "r"),
        ("assistant", "c"),
    ]
    lines = "\n".join(json.dumps({"role": role, "content": text}) for role, text in chat)
    (rollout,) = read(lines.encode()).rollouts
    texts = [[m.text for m in call.prompt or ()] for call in rollout.calls]
    assert texts == [["s", "q"], ["s", "q", "a"], ["s", "q", "a", "b", "r"]]
    assert [call.line for call in rollout.calls] == [3, 4, 6]


def test_documents_are_rollouts_of_their_own() -> None:
    chat = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    lines = "\n".join(
        json.dumps(d)
        for d in ({"id": "x", "messages": chat}, {"messages": chat}, {"id": "x", "messages": chat})
    )
    reading = read(lines.encode())
    assert len({r.id for r in reading.rollouts}) == 3
    assert [len(r.calls) for r in reading.rollouts] == [1, 1, 1]
    assert reading.rollouts[0].calls[0].prompt == reading.rollouts[1].calls[0].prompt


def test_an_indented_document_is_one_rollout() -> None:
    chat = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    for document in ({"messages": chat}, chat):
        (rollout,) = read(json.dumps(document, indent=2).encode()).rollouts
        assert len(rollout.calls) == 1


def test_a_message_that_is_none_is_dropped_alone() -> None:
    chat = [{"role": "user", "content": "q"}, "x", {"role": "assistant", "content": "a"}]
    reading = read(json.dumps({"messages": chat}).encode())
    assert len(reading.rollouts[0].calls[0].prompt or ()) == 1
    assert [(d.line, d.bytes, d.kept) for d in reading.damage] == [(1, 0, "the other messages")]


def test_a_request_with_its_reply_is_no_flat_chat() -> None:
    request = {
        "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    }
    reading = read(json.dumps({**request, "response": {"choices": []}}).encode())
    assert (reading.format, len(reading.rollouts[0].calls)) == ("openai-chat", 1)
    with pytest.raises(TraceError, match="which is no known format"):
        read(json.dumps({**request, "response": "a"}).encode())
