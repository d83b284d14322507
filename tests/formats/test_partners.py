"""What refers to each other: a partner that is nowhere in the trace is said, with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mwviz.formats import Reading, read
from mwviz.formats.replay import listed

DATA = Path(__file__).parents[1] / "data"
ASKED = {"role": "assistant", "tool_calls": [{"id": "t1", "function": {"name": "ls"}}]}
ANSWER = {"role": "tool", "tool_call_id": "t1", "content": "a"}


def chat(*messages: dict[str, Any]) -> Reading:
    return read("\n".join(map(json.dumps, messages)).encode())


def test_pairs_that_are_whole_say_nothing() -> None:
    done = {"role": "assistant", "content": "done"}
    assert chat({"role": "user", "content": "q"}, ASKED, ANSWER, done).warnings == ()
    assert chat({"role": "user", "content": "q"}, ASKED).warnings == ()


def test_a_result_of_another_name_is_said_from_both_sides() -> None:
    done = {"role": "assistant", "content": "done"}
    odd = {**ANSWER, "tool_call_id": "tq"}
    assert chat({"role": "user", "content": "q"}, ASKED, odd, done).warnings == (
        "1 tool results answer a call that is not in the trace: 'tq' (line 3)",
        "1 tool calls have no result in the trace, though it goes on: 't1' (line 2)",
    )


def test_a_call_without_a_reply_is_said_unless_it_failed() -> None:
    log = [
        {"call": "k0", "prompt_ids": [1], "completion_ids": [2]},
        {"call": "k1", "prompt_ids": [1]},
        {"call": "k2", "prompt_ids": [1], "finish": "error"},
    ]
    reading = read("\n".join(map(json.dumps, log)).encode())
    assert reading.warnings == (
        "1 calls have no reply in the trace, and nothing says that they failed: 'k1' (line 2)",
    )


@pytest.mark.parametrize(
    ("lost", "names"),
    [
        (2, "'k1' (line 2), 'k2' (line 3)"),
        (5, "'k1' (line 2), 'k2' (line 3), 'k3' (line 4), 'k4' (line 5), 'k5' (line 6)"),
        (7, "'k1' (line 2), 'k2' (line 3), 'k3' (line 4), 'k4' (line 5), 'k5' (line 6) and 2 more"),
    ],
)
def test_a_warning_names_five_and_counts_the_rest(lost: int, names: str) -> None:
    log: list[dict[str, Any]] = [{"call": "k0", "prompt_ids": [1], "completion_ids": [2]}]
    log += [{"call": f"k{at}", "prompt_ids": [at + 1]} for at in range(1, lost + 1)]
    (warning,) = read("\n".join(map(json.dumps, log)).encode()).warnings
    assert warning.endswith(f"that they failed: {names}")


REFERENCES = {
    "formats/pi/b-branches.jsonl": ('"parentId": "', "on one that is not in the file"),
    "formats/qwen-code/chat.jsonl": ('"parentUuid": "', "on one that is not in the file"),
    "formats/opencode/a-export.json": ('"sessionID": "', "a session that is not in the file"),
    "formats/openhands/a-list.json": (
        '"forgotten_event_ids": [',
        "event that is not in the file",
    ),
    "formats/codex/c-windows.jsonl": ('"item_id": "', "not in the file"),
    "formats/rllm-gateway/traces.jsonl": ('"parent_trace_id": "', "adds to a request that is not"),
    "formats/atif/garden.trajectory.json": ('"observation": {', "observation has the unknown"),
}
"""What refers to something, and what is said when a byte of it is another one."""


@pytest.mark.parametrize("name", REFERENCES)
def test_a_reference_to_nothing_is_said(name: str) -> None:
    mark, what = REFERENCES[name]
    text = (DATA / name).read_text()
    whole = read(text.encode())
    at = text.index(mark) + len(mark)
    at += next(n for n, sign in enumerate(text[at:]) if sign.isalnum())
    broken = text[:at] + "q" + text[at + 1 :]
    reading = read(broken.encode())
    told = [*reading.warnings, *(damage.what for damage in reading.damage)]
    assert any(what in text for text in told), told
    known = [*whole.warnings, *(damage.what for damage in whole.damage)]
    assert set(told) - set(known)


def test_one_is_told_as_one_and_several_as_several() -> None:
    told = [*listed("records hang loose", [7], one="record hangs loose")]
    assert told == ["1 record hangs loose (line 7)"]
    told = [*listed("records hang loose", [7, 9], one="record hangs loose")]
    assert told == ["2 records hang loose (lines 7, 9)"]
    assert [*listed("records hang loose", [], one="record hangs loose")] == []
