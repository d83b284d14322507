"""SWE-agent, LangChain and Inspect logs: what their own rules give."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mwviz import load
from mwviz.formats import read
from mwviz.rollout import Usage
from tests.formats.test_call_formats import FIXTURES

GENERATIONS = FIXTURES / "swe-agent"


def test_generations_of_a_traj_give_the_same_contexts() -> None:
    new, old = (read(GENERATIONS / f"{name}.traj").rollouts[0] for name in ("query", "shifted"))
    assert [call.prompt for call in new.calls] == [call.prompt for call in old.calls]
    assert [call.completion for call in new.calls] == [call.completion for call in old.calls]
    assert {call.content for call in new.calls} == {"exact"}
    assert {call.content for call in old.calls} == {"rebuilt"}
    assert "written after the step before" in old.warnings[0]


def test_a_traj_with_the_history_alone_says_that_it_does_not_know() -> None:
    trace = load(GENERATIONS / "history.traj")
    (analysis,) = trace.analyses
    assert [call.content for call in analysis.rollout.calls] == ["unknown"] * 4
    assert analysis.junction_list == ()
    assert "what the harness left out" in trace.warnings[0]


def test_demonstrations_are_context_and_tool_calls_are_kept() -> None:
    (rollout,) = read(GENERATIONS / "query.traj").rollouts
    first = rollout.calls[0]
    assert first.prompt is not None
    assert first.completion is not None
    assert [message.role for message in first.prompt] == ["system", "assistant", "user"]
    assert [part.kind for part in first.completion[0].parts] == ["text", "tool_call"]


def test_a_summariser_has_a_lineage_of_its_own_and_its_summary_is_marked() -> None:
    (rollout,) = read(FIXTURES / "langchain" / "callback.jsonl").rollouts
    assert [call.lineage for call in rollout.calls] == [
        *("main", "main", "summarization, line 5", "main", "main")
    ]
    assert [hint.kind for call in rollout.calls for hint in call.hints] == ["summary"]
    after = rollout.calls[3].prompt
    assert after is not None
    assert [message.mark for message in after] == [None, "summary", None, None]
    assert rollout.calls[0].usage == Usage(40, 9, 10)


def test_an_edited_message_is_another_message_though_its_id_stays() -> None:
    analysis = load(FIXTURES / "langchain" / "callback.jsonl").analyses[0]
    before, after = (analysis.encoding.calls[at].context for at in (3, 4))
    assert not np.array_equal(before, after[: len(before)])


def test_the_end_of_a_run_without_its_start_is_reported() -> None:
    lines = (FIXTURES / "langchain" / "callback.jsonl").read_text().splitlines()
    reading = read("\n".join([*lines[1:], json.dumps([1])]).encode())
    assert len(reading.rollouts[0].calls) == 4
    assert [(d.line, d.what) for d in reading.damage] == [
        (10, "[1], expected the start or the end of a run"),
        (1, "the end of a run 'run-0' without its start"),
    ]


@pytest.mark.parametrize("key", ["query", "messages"])
def test_a_step_with_a_broken_list_costs_no_other_document(key: str) -> None:
    step = {"action": "a", "observation": "o", "response": "r", key: 5}
    good = json.loads((GENERATIONS / "query.traj").read_text())
    text = json.dumps({"trajectory": [step]}) + "\n" + json.dumps(good)
    reading = read(text.encode())
    assert len(reading.rollouts[0].calls) == 4
    assert len(reading.damage) == 1
