"""Step records of research harnesses: what the rule of each makes of its record."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mwviz.errors import TraceError
from mwviz.formats import Reading, read
from mwviz.rollout import Call, Rollout
from tests.formats.test_call_formats import FIXTURES, fixture


def log(*records: Any) -> Reading:
    return read("\n".join(map(json.dumps, records)).encode())


def only(*records: Any) -> Rollout:
    (rollout,) = log(*records).rollouts
    return rollout


def prompts(rollout: Rollout) -> list[list[str]]:
    return [[message.text for message in call.prompt or ()] for call in rollout.calls]


def replies(rollout: Rollout) -> list[str | None]:
    return [call.completion[0].text if call.completion else None for call in rollout.calls]


def ids(call: Call) -> tuple[list[int], list[int]]:
    assert call.prompt_ids is not None
    assert call.completion_ids is not None
    return call.prompt_ids.tolist(), call.completion_ids.tolist()


def record(name: str, file: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((FIXTURES / name / file).read_text().splitlines()[0])
    return value


def turns(*pairs: tuple[str, str]) -> dict[str, Any]:
    text = "".join(
        f"[START OF A TURN] {n}\n\n[START OF USER PROMPT]\n{prompt}\n\n"
        f"[START OF ASSISTANT]\n{reply}\n\n"
        for n, (prompt, reply) in enumerate(pairs)
    )
    return {"question": "q", "full_traj": text}


def test_agentfold_turns_are_what_stands_between_their_marks() -> None:
    found = only(turns(("p0", "a\n"), ("p1\n\n", '<compress>{"compress_range":[1,3]}</compress>')))
    assert prompts(found) == [["p0"], ["p1\n\n"]]
    assert replies(found) == ["a\n", '<compress>{"compress_range":[1,3]}</compress>']


def test_an_agentfold_hint_names_the_steps_that_the_reply_before_folded() -> None:
    calls = fixture("agentfold").calls
    assert [[hint.detail for hint in call.hints] for call in calls[2:]] == [
        ["steps 0 to 0 in one text"],
        ["steps 0 to 1 in one text"],
    ]


@pytest.mark.parametrize("said", ["{", "[]", '{"compress_range":[]}', '{"compress_range":"x"}'])
def test_a_fold_that_cannot_be_read_is_still_a_fold(said: str) -> None:
    found = only(turns(("p", f"<compress>{said}</compress>"), ("r", "b")))
    assert [(hint.kind, hint.detail) for hint in found.calls[1].hints] == [("fold", "")]


def test_text_of_the_trace_with_another_turns_mark_splits_nothing() -> None:
    hostile = "[START OF A TURN] 7\n\n[START OF USER PROMPT]\nx"
    found = only(turns((hostile, "a"), ("p1", "b")))
    assert prompts(found) == [[hostile], ["p1"]]


def test_a_turn_without_a_reply_is_damage() -> None:
    value = turns(("p", "a"))
    value["full_traj"] += "[START OF A TURN] 1\n\n[START OF USER PROMPT]\nq"
    assert [d.what for d in log(value).damage] == ["turn 1 has no reply"]


def test_memex_calls_are_the_replies_of_every_segment() -> None:
    found = fixture("memexrl")
    assert [len(call.prompt or ()) for call in found.calls] == [2, 4, 3, 5, 7]
    assert (found.calls[1].completion or ())[0].text.startswith("CompressExperience")
    assert [m.mark for m in found.calls[2].prompt or ()] == [None, None, "summary"]


def test_memex_steps_without_segments_lack_the_call_that_compressed() -> None:
    value = record("memexrl", "episodes.jsonl")
    value["trajectories"][0]["info"] = {}
    found = only(value)
    assert [len(call.prompt or ()) for call in found.calls] == [2, 3, 5, 7]
    assert [call.reward for call in found.calls] == [0.0, 0.0, 0.0, 1.0]


def test_a_memex_prompt_at_generation_wins() -> None:
    value = record("memexrl", "episodes.jsonl")
    value["trajectories"][0]["info"] = {}
    step = value["trajectories"][0]["steps"][0]
    step["chat_completions_at_generation"] = [{"role": "user", "content": "only this"}]
    assert prompts(only(value))[0] == ["only this"]


def test_a_memex_step_whose_reply_is_nowhere_is_damage() -> None:
    value = record("memexrl", "episodes.jsonl")
    value["trajectories"][0]["info"] = {}
    value["trajectories"][0]["steps"][1]["model_response"] = "something else"
    (damage,) = log(value).damage
    assert (damage.kept, "its prompt is not known" in damage.what) == ("3 of its calls", True)


def test_segments_of_memex_training_rows_are_one_rollout() -> None:
    def row(index: int, tokens: list[int]) -> dict[str, Any]:
        return {
            "tokens": tokens,
            "response_length": 1,
            "loss_mask": [1],
            "index": index,
            "metadata": {"episode_uid": "4_2", "segment_idx": index % 10_000},
        }

    found = only(row(20_000, [1, 2, 3]), row(20_001, [1, 7, 8]))
    assert (found.id, [ids(call) for call in found.calls]) == (
        "4_2",
        [([1, 2], [3]), ([1, 7], [8])],
    )


def test_a_backtrack_takes_back_an_observation_with_its_action() -> None:
    stack = prompts(fixture("tc-rag"))[3][1].split("\n")
    assert [piece.split(":")[0] for piece in stack[1:]] == [
        "Question",
        "Thought",
        "Action",
        "Action Input",
        "Observation",
        "Thought",
        "Backtrack",
    ]
    assert stack[-1].endswith("(think again, or call it with other words)")


def test_the_note_behind_a_backtrack_is_a_hole_where_the_last_stack_is_missing() -> None:
    value = record("tc-rag", "traces.jsonl")
    del value["message_list"], value["system_prompt"]
    found = only(value)
    assert not any("note" in hole.why for hole in found.calls[2].holes)
    assert [hole.why.split(" ")[0] for hole in found.calls[3].holes] == ["system", "the"]


@pytest.mark.parametrize(
    ("pieces", "left"),
    [
        (["Question:q", "Thought:a", "Backtrack:b"], ["Question:q", "Backtrack:b"]),
        (["Question:q", "Backtrack:a", "Backtrack:b"], ["Question:q", "Backtrack:b"]),
        (["Question:q", "Backtrack:a"], ["Question:q", "Backtrack:a"]),
        (
            ["Question:q", "Thought:a", "Observation:o", "Backtrack:b"],
            ["Question:q", "Thought:a", "Backtrack:b"],
        ),
    ],
)
def test_what_a_backtrack_takes_back(pieces: list[str], left: list[str]) -> None:
    last = [*pieces, "Final Answer:x"]
    found = only({"absolute_message_list": last, "message_list": [*left, "Final Answer:x"]})
    assert prompts(found)[-1] == ["".join(f"\n{piece}" for piece in left)]
    assert len(found.warnings) == 1


def test_a_stack_that_replaying_does_not_give_is_said() -> None:
    value = record("tc-rag", "traces.jsonl")
    del value["message_list"][1]
    assert any("does not give the stack" in warning for warning in only(value).warnings)


def test_mem1_prompts_hold_the_question_and_the_last_turn_only() -> None:
    value, found = record("mem1", "rows.jsonl"), fixture("mem1")
    question = value["q"]
    assert prompts(found) == [
        [question],
        [question, value["r0"] + value["i0"]],
        [question, value["r1"] + value["i1"]],
        [question, value["r2"] + value["i2"]],
    ]
    assert replies(found) == [value[f"r{turn}"] for turn in range(4)]
    assert found.reward == 1.0


def test_a_mem1_reply_that_was_not_kept_is_its_state() -> None:
    found = only({"q": "q", "t0": "<think>s</think>", "index": 1})
    assert replies(found) == ["<think>s</think>"]
    assert any("only the state" in warning for warning in found.warnings)


def test_mem1_rows_with_notes_lose_the_question() -> None:
    value = {"q": "q", "t0": "s", "r0": "a", "i0": "b", "t1": "t", "r1": "c", "memories": ["", "n"]}
    assert prompts(only(value)) == [["q"], ["n", "ab"]]


def test_memagent_questions_keep_memories_of_their_own() -> None:
    def line(at: int, chunk: str | None, memory: str, **more: str) -> dict[str, Any]:
        return {"_id": at, "question": f"q{at}", "chunk": chunk, "memory": memory, **more}

    first, second = log(
        line(0, "a", "m0"), line(1, "x", "n0"), line(0, "b", "m1"), line(0, None, "m1", answer="z")
    ).rollouts
    assert prompts(first) == [["q0", "a"], ["q0", "m0", "b"], ["q0", "m1"]]
    assert replies(first) == ["m0", "m1", "z"]
    assert (second.id, prompts(second)) == ("1", [["q1", "x"]])


def test_a_conversation_of_infmem_is_exact() -> None:
    pair = [{"role": "user", "content": "p"}, {"role": "assistant", "content": "r"}]
    found = only({"conversation": [pair, pair], "final": "r"})
    assert prompts(found) == [["p"], ["p"]]
    assert {call.content for call in found.calls} == {"exact"}


def test_branches_stand_behind_the_call_that_opened_them() -> None:
    found = fixture("verl-agent-loop")
    base = [5, 9, 4, 4, 17]
    assert [ids(call) for call in found.calls] == [
        (base, [40, 41]),
        ([*base, 40, 41, 50, 51], [42, 43]),
        ([*base, 40, 41, 50, 51, 42, 43, 52, 53], [44, 45]),
        ([*base, 40, 41, 60, 61], [46, 47]),
    ]
    for call in found.calls:
        assert call.logprobs is not None
        assert call.logprobs.tolist() == [-0.5, -0.25]


def test_rows_of_another_sample_of_the_task_are_another_rollout() -> None:
    path = FIXTURES / "verl-agent-loop" / "outputs.jsonl"
    main, branch = (json.loads(line) for line in path.read_text().splitlines())
    found = log(main, branch, main, branch).rollouts
    assert [(rollout.id, len(rollout.calls)) for rollout in found] == [
        ("garden 0", 4),
        ("garden 0-2", 4),
    ]


def test_a_branch_without_messages_is_put_last_and_said() -> None:
    path = FIXTURES / "verl-agent-loop" / "outputs.jsonl"
    main, branch = (json.loads(line) for line in path.read_text().splitlines())
    del branch["extra_fields"]["messages"]
    found = only(main, branch)
    assert [ids(call)[1] for call in found.calls] == [[40, 41], [46, 47], [42, 43], [44, 45]]
    assert any("put behind main" in warning for warning in found.warnings)


def test_a_summary_of_resum_starts_the_context_anew() -> None:
    found = fixture("resum")
    assert [len(call.prompt or ()) for call in found.calls] == [2, 4, 2, 4]
    assert [m.mark for m in found.calls[2].prompt or ()] == [None, "summary"]


def test_a_result_that_never_summarised_only_grows() -> None:
    value = record("resum", "iter1.jsonl")
    del value["messages"][6]
    found = only(value)
    assert [len(call.prompt or ()) for call in found.calls] == [2, 4, 6, 8]
    assert found.warnings == ()


def test_the_last_prompt_at_the_limit_is_partial() -> None:
    value = record("resum", "iter1.jsonl")
    value["termination"] = "generate an answer as token limit reached"
    assert [call.content for call in only(value).calls] == [*["rebuilt"] * 3, "partial"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("agentfold", {"full_traj": "x"}, "expected a result with the text of its turns"),
        ("memexrl", {"trajectories": []}, "expected an episode of steps that may compress"),
        ("tc-rag", {"absolute_message_list": [1]}, r"absolute_message_list\[0\] is 1"),
        ("mem1", {"q": "q"}, "expected a question q with its turns"),
        ("memagent", {"_id": 1}, "expected a line with question, chunk and memory"),
        ("verl-agent-loop", {"prompt_ids": [1]}, "expected an agent's row of tokens"),
        ("resum", {"messages": []}, "expected a result with messages and termination"),
    ],
)
def test_what_is_no_record_of_the_format_is_said(
    name: str, value: dict[str, Any], message: str
) -> None:
    with pytest.raises(TraceError, match=message):
        read(json.dumps(value).encode(), format=name)
