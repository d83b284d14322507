"""Fixtures of the formats that are event logs: what must come out of each."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from mwviz import load
from mwviz.formats import read
from mwviz.rollout import Call, Rollout

FIXTURES = Path(__file__).parents[1] / "data" / "formats"


class Expected(NamedTuple):
    format: str
    calls: int
    kinds: list[str]
    leaves: int


EXPECTED = {
    "codex/a-replacement.jsonl": Expected("codex", 6, ["summary"], 2),
    "codex/b-message-only.jsonl": Expected("codex", 4, ["summary"], 2),
    "codex/c-windows.jsonl": Expected("codex", 5, ["summary", "rewind", "summary"], 4),
}


def fixture(name: str) -> Rollout:
    (rollout,) = read(FIXTURES / name).rollouts
    return rollout


def said(call: Call) -> list[str]:
    """Each message of the prompt: the first letters of its role, and its text."""
    return [f"{message.role[0]}:{message.text}" for message in call.prompt or ()]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_log_gives_its_calls_junctions_and_leaves(name: str) -> None:
    expected = EXPECTED[name]
    trace = load(FIXTURES / name)
    (analysis,) = trace.analyses
    assert read(FIXTURES / name).format == expected.format
    assert trace.damage == ()
    assert len(analysis.rollout.calls) == expected.calls
    assert [junction.kind for junction in analysis.junction_list] == expected.kinds
    assert len(analysis.tree.leaves) == expected.leaves


@pytest.mark.parametrize("name", EXPECTED)
def test_ids_of_calls_are_unique(name: str) -> None:
    calls = fixture(name).calls
    assert len({call.id for call in calls}) == len(calls)


def test_codex_pieces_of_a_response_are_one_reply() -> None:
    first = fixture("codex/a-replacement.jsonl").calls[0]
    assert first.completion is not None
    assert [part.kind for part in first.completion[0].parts] == [
        "reasoning",
        "text",
        "tool_call",
        "tool_call",
    ]
    assert said(first)[0] == "s:You fix small programs."


def test_codex_repeated_counts_say_nothing_new() -> None:
    rollout = fixture("codex/a-replacement.jsonl")
    used = [call.usage.prompt for call in rollout.calls if call.usage]
    assert used == [5000, 5200, 5300, 5400, 1500, 1550]
    assert rollout.warnings == ()


def test_codex_compaction_leaves_the_history_it_names() -> None:
    after = fixture("codex/a-replacement.jsonl").calls[4]
    assert said(after)[2:] == [
        "u:Make the tests pass.",
        "u:Then change f.",
        "u:So far: f in a.py returned 1 and was changed to 2.",
        "u:Run them again.",
    ]
    assert [m.mark for m in after.prompt or ()][-2] == "summary"
    assert after.content == "rebuilt"


def test_codex_encrypted_reasoning_makes_later_prompts_partial() -> None:
    calls = fixture("codex/a-replacement.jsonl").calls
    assert [call.content for call in calls[:2]] == ["rebuilt", "partial"]
    assert any("encrypted" in hole.why for hole in calls[1].holes)


def test_codex_compaction_of_the_first_generation_keeps_what_was_typed() -> None:
    rollout = fixture("codex/b-message-only.jsonl")
    assert said(rollout.calls[2]) == [
        "u:Count the lines.",
        "u:The file a has twelve lines.",
        "u:And b?",
    ]
    assert rollout.calls[2].content == "partial"
    (warning,) = rollout.warnings
    assert warning.startswith("1 token counts belong to no reply")


def test_codex_references_are_looked_up_and_lost_ones_named() -> None:
    rollout = fixture("codex/c-windows.jsonl")
    assert said(rollout.calls[2])[1:] == [
        "u:Write a poem.",
        "u:Another one.",
        "s:Be brief.",
        "u:",
        "u:A third.",
    ]
    assert [hint.detail for call in rollout.calls for hint in call.hints] == [
        "remote, window 1",
        "1 turns rolled back",
        "remote, window 2",
    ]
    holes = {hole.why for hole in rollout.calls[4].holes}
    assert "the summary of a remote compaction is encrypted in the file" in holes
    assert "an earlier message that the compaction kept is not in the file" in holes
    assert rollout.warnings[0].startswith("1 record of the unknown type 'world_state'")


def test_codex_rollback_takes_the_last_turn_away() -> None:
    rolled = fixture("codex/c-windows.jsonl").calls[3]
    assert said(rolled)[-2:] == ["u:", "u:A funny third."]
