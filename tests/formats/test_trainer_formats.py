"""Rows and steps of trainers: what their masks and step lists give."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mwviz import load
from mwviz.errors import TraceError
from mwviz.exports.training import write_branches
from mwviz.formats import Reading, read
from mwviz.rollout import Call
from tests.formats.test_call_formats import EXPECTED, FIXTURES

TOKENS = (
    "rllm",
    "rllm-gateway",
    "agent-lightning",
    "areal-rows",
    "slime",
    "prime-rl",
    "trl",
    "skyrl",
    "tinker",
)
"""Formats whose fixtures hold the same three calls, but for the branch that slime shares."""


def log(*records: dict[str, Any]) -> Reading:
    return read("\n".join(map(json.dumps, records)).encode())


def ids(call: Call) -> tuple[list[int], list[int]]:
    assert call.prompt_ids is not None
    assert call.completion_ids is not None
    return call.prompt_ids.tolist(), call.completion_ids.tolist()


@pytest.mark.parametrize("name", TOKENS)
def test_calls_have_the_tokens_and_logprobs_of_the_trainer(name: str) -> None:
    (rollout,) = read(FIXTURES / name / EXPECTED[name].file).rollouts
    base = [5, 9, 4, 4, 17, 3, 8, 8, 2, 30]
    first, second, third = rollout.calls
    assert ids(first) == (base, [40, 41])
    assert ids(second) == ([*base, 40, 41, 50, 51, 7], [42, 43])
    assert ids(third)[0][-2:] == [60, 61]
    for call in rollout.calls:
        assert call.logprobs is not None
        assert call.logprobs.tolist() == [-0.5, -0.25]


def test_a_call_that_two_branches_share_is_counted_once() -> None:
    row = {"token_ids": [1, 2, 3], "mask": [0, 1, 0], "logprobs": [-0.5]}
    branch = {"token_ids": [1, 2, 9, 4], "mask": [0, 1, 0, 1], "logprobs": [0, -0.5, 0, -1]}
    (rollout,) = log(row, branch).rollouts
    assert [ids(call) for call in rollout.calls] == [([1], [2]), ([1, 2, 9], [4])]
    assert [np.round(c.logprobs, 3).tolist() for c in rollout.calls if c.logprobs is not None] == [
        [-0.5],
        [-1.0],
    ]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"token_ids": [1], "mask": [0, 1], "logprobs": []}, "a row of 1 tokens has 2 marks"),
        ({"token_ids": [1], "mask": ["a"]}, "mask holds something else than numbers"),
        ({"tokens": [1], "response_length": 1, "rollout_log_probs": [-1, -1]}, "has 2 logprobs"),
    ],
)
def test_rows_that_do_not_fit_are_reported(record: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        log(record)


def test_a_slime_call_names_the_weights_of_its_row() -> None:
    row = {"tokens": [1, 2], "response_length": 1, "weight_versions": ["3", "3", "4"]}
    assert log(row).rollouts[0].calls[0].weights == "3, 4"


def test_a_slime_sample_without_a_mask_trains_its_whole_response() -> None:
    (rollout,) = log({"tokens": [1, 2, 3], "response_length": 2, "index": 4}).rollouts
    assert (rollout.id, ids(rollout.calls[0])) == ("4", ([1], [2, 3]))


def test_a_pytorch_file_is_refused_with_the_way_to_convert_it(tmp_path: Path) -> None:
    path = tmp_path / "rollout_0.pt"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("rollout_0/data.pkl", b"\x80\x02.")
    with pytest.raises(TraceError, match="never opened; if you trust it, write its samples as JS"):
        read(path)


def test_injected_replies_of_art_are_context() -> None:
    record = {
        "reward": 0.5,
        "messages_and_choices": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "given"},
            {"role": "user", "content": "r"},
            {"finish_reason": "stop", "message": {"role": "assistant", "content": "own"}},
        ],
    }
    (rollout,) = log(record).rollouts
    (call,) = rollout.calls
    assert call.prompt is not None
    assert [m.text for m in call.prompt] == ["q", "given", "r"]
    assert (rollout.reward, call.finish) == (0.5, "stop")


def compact(episode: dict[str, Any]) -> dict[str, Any]:
    """An episode whose trajectories keep each message once, under its place in the chat."""
    for trajectory in episode["trajectories"]:
        nodes: dict[str, Any] = {}
        for step in trajectory["steps"]:
            chat, at = step["chat_completions"], None
            for message in chat:
                key = f"{at}/{message['content']}"
                nodes[key] = {"p": at, "m": message}
                at = key
            step["chat_completions"] = {"messages_ref": [at, len(chat)]}
        trajectory["message_nodes"] = nodes
    return {**episode, "episode_format": "compact", "compact_version": 1}


def test_a_compact_episode_of_rllm_reads_like_the_whole_one() -> None:
    episode = json.loads((FIXTURES / "rllm/episodes.jsonl").read_text())
    (whole,) = log(episode).rollouts
    reading = log(compact(episode))
    assert not reading.damage
    (rollout,) = reading.rollouts
    assert [(tuple(c.prompt or ()), c.completion) for c in rollout.calls] == [
        (tuple(c.prompt or ()), c.completion) for c in whole.calls
    ]
    assert [ids(call) for call in rollout.calls] == [ids(call) for call in whole.calls]


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (["gone", 3], "no way from .gone."),
        (["loop", 3], "no way from .loop."),
        ([3, 3], "no way from 3"),
        (["end", 7], "gives 1 messages, expected 7"),
        ("end", "expected the last message and their number"),
    ],
)
def test_a_chat_that_the_nodes_do_not_give_is_damage(named: Any, said: str) -> None:
    episode = compact(json.loads((FIXTURES / "rllm/episodes.jsonl").read_text()))
    (trajectory,) = episode["trajectories"]
    trajectory["message_nodes"]["loop"] = {"p": "loop", "m": {"role": "user", "content": "x"}}
    trajectory["message_nodes"]["end"] = {"p": None, "m": {"role": "user", "content": "x"}}
    trajectory["steps"][1]["chat_completions"] = {"messages_ref": named}
    reading = log(episode)
    assert len(reading.rollouts[0].calls) == 2
    (damage,) = reading.damage
    assert re.search(said, damage.what)


def test_triplets_may_hold_text() -> None:
    (rollout,) = log(
        {"rollout_id": "r", "triplets": [{"prompt": "q", "response": "a", "reward": 1.0}]}
    ).rollouts
    (call,) = rollout.calls
    assert call.prompt is not None
    assert call.completion is not None
    assert (call.prompt[0].text, call.completion[0].text, call.reward) == ("q", "a", 1.0)


def test_areal_requests_and_responses_may_be_whole() -> None:
    item = {
        "request": {"messages": [{"role": "user", "content": "q"}]},
        "response": {"choices": [{"message": {"role": "assistant", "content": "a"}}]},
        "reward": None,
    }
    (rollout,) = log({"interactions": [item]}).rollouts
    assert rollout.calls[0].completion is not None
    assert rollout.calls[0].completion[0].text == "a"


def test_areal_rows_of_a_batch_lose_their_padding() -> None:
    rollouts = log(
        {
            "task_id": 3,
            "input_ids": [[1, 2, 3, 0], [1, 5, 6, 7]],
            "loss_mask": [[0, 0, 1, 0], [0, 1, 1, 1]],
            "logprobs": [[0, 0, -0.5, 0], [0, -0.5, -0.25, -1.0]],
            "versions": [[-1, -1, 4, 0], [-1, 4, 4, 5]],
            "attention_mask": [[True, True, True, False], [True, True, True, True]],
            "rewards": [0.0, 1.0],
        }
    ).rollouts
    (rollout,) = rollouts
    assert [ids(call) for call in rollout.calls] == [([1, 2], [3]), ([1], [5, 6, 7])]
    assert [call.weights for call in rollout.calls] == ["4", "4, 5"]
    assert (rollout.id, rollout.reward) == ("3", 1.0)


def test_a_codex_record_of_a_reviewer_alone_changes_no_context() -> None:
    path = FIXTURES / "codex" / "a-replacement.jsonl"
    lines = path.read_text().splitlines()
    guardian = {"type": "compacted", "payload": {"message": "", "guardian_history": []}}
    before = read("\n".join(lines).encode()).rollouts[0].calls
    mixed = [line for each in lines for line in (each, json.dumps(guardian))]
    after = read("\n".join(mixed).encode()).rollouts[0].calls
    assert [[m.text for m in call.prompt or ()] for call in after] == [
        [m.text for m in call.prompt or ()] for call in before
    ]
    assert [call.hints for call in after] == [call.hints for call in before]


def test_text_dumps_of_three_trainers_are_one_call_a_row() -> None:
    first, second, third = read(FIXTURES / "text-dump" / "10.jsonl").rollouts
    assert [len(rollout.calls) for rollout in (first, second, third)] == [1, 1, 1]
    assert [rollout.id for rollout in (first, second, third)] == [
        "step 10, line 1",
        "4, line 2",
        "step 10, line 3",
    ]
    assert (first.reward, second.reward, third.reward) == (1.0, 0.0, None)
    assert [call.content for call in first.calls] == ["unknown"]
    assert second.calls[0].weights == "3, 4"
    assert third.calls[0].prompt is not None
    assert third.calls[0].prompt[0].text == "Which beds?"
    assert "not told apart" in first.warnings[0]


@pytest.mark.parametrize("reward", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_reward_that_is_no_finite_number_is_refused_by_name(reward: str) -> None:
    row = '{"input": "a", "output": "b", "score": REWARD, "step": 1}'
    group = (
        '{"trajectories_G": [{"transitions": [{"ob": [1, 2], "ac": {"tokens": [3]}}]}], '
        '"final_rewards_G": [REWARD]}'
    )
    for text, name in ((row, "score"), (group, r"final_rewards_G\[0\]")):
        read(text.replace("REWARD", "1").encode())
        with pytest.raises(TraceError, match=f"1: .*{name} is .*, expected a finite number"):
            read(text.replace("REWARD", reward).encode())


def test_a_tinker_summary_says_that_it_has_no_tokens() -> None:
    summary = {"schema_version": 1, "steps": [{"step_idx": 0, "ob_len": 5, "ac_len": 2}]}
    with pytest.raises(TraceError, match="holds the lengths of observations and actions, no token"):
        log(summary)


def test_a_tinker_observation_with_an_image_is_left_out() -> None:
    steps: list[dict[str, Any]] = [
        {"ob": {"chunks": [{"type": "image"}]}, "ac": {"tokens": [1]}, "reward": 0.0},
        {"ob": [1, 2], "ac": {"tokens": [3], "logprobs": [-1.0]}, "reward": 1.0},
    ]
    reading = log({"transitions": steps})
    assert [ids(call) for call in reading.rollouts[0].calls] == [([1, 2], [3])]
    assert [d.what for d in reading.damage] == ["a chunk of the kind 'image' has no tokens"]


def test_exchanges_of_art_are_calls_in_the_order_of_their_start() -> None:
    def exchanged(start: str, asked: str, said: str, ids: list[int]) -> dict[str, Any]:
        choice = {"message": {"role": "assistant", "content": said}, "token_ids": ids}
        return {
            "request": {"model": "m", "messages": [{"role": "user", "content": asked}]},
            "response": {"id": said, "prompt_token_ids": [1, 2], "choices": [choice]},
            "start_time": f"2026-11-01T10:00:{start}Z",
            "end_time": "2026-11-01T10:01:00Z",
            "model": "m",
        }

    record = {
        "trajectories": [
            {
                "exchanges": {
                    "chat_completions": [
                        exchanged("02", "q2", "b", [4]),
                        exchanged("01", "q1", "a", [3]),
                        {"request": {}, "response": {}},
                    ],
                    "completions": [],
                    "responses": [],
                    "messages": [],
                },
                "messages_and_choices": [],
                "additional_histories": [],
                "reward": 0.5,
            }
        ]
    }
    reading = log(record)
    (rollout,) = reading.rollouts
    assert (reading.format, rollout.reward) == ("art", 0.5)
    assert [ids(call) for call in rollout.calls] == [([1, 2], [3]), ([1, 2], [4])]
    assert [(call.prompt or ())[0].text for call in rollout.calls] == ["q1", "q2"]
    assert rollout.calls[0].time is not None
    assert [d.what for d in reading.damage] == ["an exchange without a request and its response"]


EXPORTS = {None: "areal-rows", "verl": "verl-agent-loop", "trl": "trl", "prime-rl": "prime-rl"}
"""What each shape of our training rows opens as."""


@pytest.mark.parametrize("shape", EXPORTS)
def test_exported_rows_of_rendered_ids_do_not_pass_for_sampled_ones(
    shape: str | None, tmp_path: Path
) -> None:
    chat = [{"role": r, "content": c} for r, c in (("user", "q"), ("assistant", "a long reply"))]
    trace = load("\n".join(map(json.dumps, chat)).encode())
    write_branches(trace.analyses, tmp_path / "rows.jsonl", shape=shape)
    reading = read(tmp_path / "rows.jsonl")
    (call,) = reading.rollouts[0].calls
    assert reading.format == EXPORTS[shape]
    assert (call.tokens, call.logprobs) == ("rendered", None)
    assert any("were rendered from messages ('neutral/1')" in text for text in reading.warnings)
    assert load(tmp_path / "rows.jsonl").analyses[0].encoding.rendering == "rendered"


@pytest.mark.parametrize("shape", EXPORTS)
def test_exported_rows_of_sampled_ids_stay_sampled_ones(shape: str | None, tmp_path: Path) -> None:
    record = {"prompt_ids": [1, 2], "completion_ids": [3, 4], "logprobs": [-0.5, -0.25]}
    bare = {key: record[key] for key in ("prompt_ids", "completion_ids")}
    for given in (record, bare):
        trace = load(json.dumps(given).encode())
        write_branches(trace.analyses, tmp_path / "rows.jsonl", shape=shape)
        (call,) = read(tmp_path / "rows.jsonl").rollouts[0].calls
        assert (ids(call), call.tokens) == (([1, 2], [3, 4]), "recorded")
        assert (call.logprobs is None) == (given is bare)


def test_a_batch_with_unequal_sides_is_reported() -> None:
    sides = {"prompt_ids": [[1], [1]], "completion_ids": [[2]], "env_mask": [[1], [1]]}
    with pytest.raises(TraceError, match="1 completion_ids, 2 env_mask, 2 prompt_ids, expected as"):
        log(sides)
