from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mwviz
from mwviz.demos import DEMOS, open_demo
from mwviz.junctions import find_junctions
from mwviz.notes import junction_notes
from mwviz.rollout import Call, Hint, Message, Part, Rollout
from mwviz.tokens import encode
from mwviz.tree import build_tree
from tests.strategies import encoded

CASES = Path(__file__).parent / "data" / "cases"


def of_case(name: str) -> tuple[str, ...]:
    (analysis,) = mwviz.load(CASES / name / "calls.jsonl").analyses
    return junction_notes(analysis.tree, analysis.rollout, analysis.junction_list)


def said(role: str, *parts: Part, mark: str | None = None) -> Message:
    return Message(role, parts, mark="summary" if mark else None)


ASK = said("user", Part("text", "Find both."))
PAIR = said(
    "assistant",
    Part("tool_call", "{}", name="search", id="A"),
    Part("tool_call", "{}", name="search", id="B"),
)
RESULTS = (
    said("tool", Part("tool_result", "first result", id="A")),
    said("tool", Part("tool_result", "second result", id="B")),
)
THOUGHT = said("assistant", Part("text", "One more look."))
SUMMARY = said("user", Part("text", "So far: little."), mark="summary")


def of_messages(*prompts: tuple[Message, ...]) -> tuple[str, ...]:
    calls = tuple(
        Call(str(i), prompt=prompt, completion=(THOUGHT,), lineage="main")
        for i, prompt in enumerate(prompts)
    )
    rollout = Rollout("made", calls)
    encoding = encode(rollout, "words/1")
    tree = build_tree(encoding, rollout)
    return junction_notes(tree, rollout, find_junctions(tree, encoding, rollout))


def test_a_split_group_of_parallel_calls_names_both_sides() -> None:
    notes = of_messages((ASK, PAIR, *RESULTS), (SUMMARY, RESULTS[1], THOUGHT))
    assert any(
        "call A, call B, result A left and result B stayed" in note and "call 1" in note
        for note in notes
    )


def test_a_group_that_goes_or_stays_whole_is_not_mentioned() -> None:
    stays = of_messages((ASK, PAIR, *RESULTS), (SUMMARY, PAIR, *RESULTS, THOUGHT))
    goes = of_messages((ASK, PAIR, *RESULTS), (SUMMARY, THOUGHT))
    assert not any("split" in note for note in (*stays, *goes))


def test_a_summary_that_no_call_wrote_is_said() -> None:
    (note,) = of_messages((ASK, PAIR, *RESULTS), (SUMMARY, THOUGHT))
    assert "no call in the log wrote the summary" in note


@pytest.mark.parametrize("name", ["vector-2-summary", "vector-3-summary-tail"])
def test_a_summary_with_a_logged_author_needs_no_note(name: str) -> None:
    assert of_case(name) == ()


def test_text_that_left_unseen_by_the_author_is_lost() -> None:
    rollout, encoding = encoded(
        [
            ("main", [0, 1], [2]),
            ("main", [0, 1, 2, 3], [4]),
            ("writer", [0, 1, 2], [9]),
            ("main", [0, 9], [5]),
        ]
    )
    said_so = replace(rollout.calls[3], hints=(Hint("summary"),))
    rollout = replace(rollout, calls=(*rollout.calls[:3], said_so))
    tree = build_tree(encoding, rollout)
    (note,) = junction_notes(tree, rollout, find_junctions(tree, encoding, rollout))
    assert note.startswith("call 3: 2 tokens left that the summary's author, call 2, had not seen")


def test_a_summary_too_short_to_be_told_apart_has_its_author_by_its_words() -> None:
    (analysis,) = open_demo(next(demo for demo in DEMOS if demo.name == "summary")).analyses
    tree = analysis.tree
    junction = next(one for one in analysis.junction_list if one.call == 7)
    author = tree.ids[tree.token[tree.call == 6]]
    assert analysis.decoder.text(author).startswith("Facts: none yet.")
    assert not np.isin(
        tree.origin[tree.token[tree.call == 6]], tree.origin[junction.inserted]
    ).all()
    assert junction_notes(tree, analysis.rollout, analysis.junction_list) == ()


def test_words_of_an_earlier_call_do_not_make_it_the_author() -> None:
    told = said("user", Part("text", "one more"), mark="summary")
    notes = of_messages((ASK,), (ASK, THOUGHT, ASK), (told,))
    assert "call 2: no call in the log wrote the summary that it shows" in notes
