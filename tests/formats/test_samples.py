"""Real traces, where they are there: only counts of them are repeated here."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from mwviz.formats import read
from mwviz.summary import summarise
from mwviz.tokens import encode
from mwviz.trace import load

SAMPLES = Path(__file__).parents[3] / "shared" / "samples"


def sample(name: str) -> Path:
    path = SAMPLES / name
    if not path.exists():
        pytest.skip(f"no sample {name} beside the repository")
    return path


@pytest.mark.parametrize(
    ("name", "calls", "hints"),
    [
        ("compact-13-calls", 13, ["summary"]),
        ("parallel-tools-compact", 20, ["summary"]),
        ("micro-compact", 57, ["placeholder"]),
        ("two-compactions", 169, ["summary", "summary"]),
        ("silent-micro-compact", 54, []),
    ],
)
def test_claude_code_sessions_have_their_calls_and_compactions(
    name: str, calls: int, hints: list[str]
) -> None:
    reading = read(sample(f"claude_code/{name}.jsonl"))
    (rollout,) = reading.rollouts
    assert reading.damage == ()
    assert len(rollout.calls) == calls
    assert {call.lineage for call in rollout.calls} == {"main"}
    assert [hint.kind for call in rollout.calls for hint in call.hints] == hints


@pytest.mark.parametrize(
    ("name", "breaks"),
    [
        ("compact-13-calls", 1),
        ("parallel-tools-compact", 1),
        ("micro-compact", 1),
        ("two-compactions", 2),
        ("silent-micro-compact", 0),
    ],
)
def test_rebuilt_contexts_break_only_where_the_log_says_so(name: str, breaks: int) -> None:
    (rollout,) = read(sample(f"claude_code/{name}.jsonl")).rollouts
    tokens = encode(rollout, "words/1").calls
    found = []
    for at in range(1, len(tokens)):
        before, prompt = tokens[at - 1].context, tokens[at].context[: tokens[at].prompt_length]
        if not np.array_equal(before, prompt[: len(before)]):
            found.append(at)
    assert found == [at for at, call in enumerate(rollout.calls) if call.hints]
    assert len(found) == breaks


def test_a_silent_shrink_shows_in_usage_alone() -> None:
    (rollout,) = read(sample("claude_code/silent-micro-compact.jsonl")).rollouts
    used = [call.usage.prompt for call in rollout.calls if call.usage and call.usage.prompt]
    falls = [before - after for before, after in pairwise(used) if after < before]
    assert [fall for fall in falls if fall > 3000] == [33_054]


def test_parallel_results_are_all_in_the_rebuilt_context() -> None:
    (rollout,) = read(sample("claude_code/parallel-tools-compact.jsonl")).rollouts
    last = rollout.calls[-1].prompt
    assert last is not None
    asked = {p.id for m in last for p in m.parts if p.kind == "tool_call"}
    answered = {p.id for m in last for p in m.parts if p.kind == "tool_result"}
    assert asked == answered
    assert sum(len(m.text) for m in last) > 60_000


def test_the_recorded_per_call_log_is_read_whole() -> None:
    reading = read(sample("smollm2/calls.jsonl"))
    assert reading.format == "calls"
    assert len(reading.rollouts) == 16
    calls = [call for rollout in reading.rollouts for call in rollout.calls]
    assert len(calls) == 116
    assert sum(len(call.logprobs) for call in calls if call.logprobs is not None) == 3_786


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("compact-13-calls", ["summary"]),
        ("parallel-tools-compact", ["summary"]),
        ("micro-compact", ["placeholder"]),
        ("two-compactions", ["summary", "summary"]),
        ("silent-micro-compact", ["unexplained"]),
    ],
)
def test_inspect_counts_the_evictions_that_are_known_of_each_session(
    name: str, kinds: list[str]
) -> None:
    (rollout,) = summarise(load(sample(f"claude_code/{name}.jsonl")))["rollouts"]
    assert [junction["kind"] for junction in rollout["junctions"]] == kinds
    assert rollout["evictions"] == len(kinds)
    if kinds == ["unexplained"]:
        assert rollout["junctions"][0]["evicted"] == 33_054
        assert rollout["fidelity"] == "unknown"
