"""Real logs that hold the context of every call, where they are there: only counts of them."""

from __future__ import annotations

import pytest

from mwviz import load
from mwviz.formats import read
from tests.formats.test_samples import sample


@pytest.mark.parametrize(
    ("name", "calls", "evictions", "lineages"),
    [
        ("openhands_llm_logs/litellm_proxy__deepseek__deepseek-chat-1757015062.589.json", 4, 0, 1),
        # Of the 8 changes in the file the last is in the messages behind the last call's answer,
        # which no call was sent: a step's messages are those of the step after it.
        ("swe_agent/last-n-observations.traj", 13, 7, 1),
        ("langchain/summarization.jsonl", 14, 5, 6),
        ("langchain/editing.jsonl", 9, 5, 1),
        ("inspect/edit.eval", 16, 12, 1),
        ("inspect/trim.eval", 16, 12, 1),
        ("atif_harbor/hello-world-context-summarization.trajectory.json", 10, 1, 4),
        ("atif_harbor/hello-world-context-summarization-linear-history.trajectory.json", 7, 1, 1),
    ],
)
def test_a_real_log_has_its_calls_and_evictions(
    name: str, calls: int, evictions: int, lineages: int
) -> None:
    trace = load(sample(name))
    (analysis,) = trace.analyses
    assert trace.damage == ()
    assert len(analysis.rollout.calls) == calls
    assert len(analysis.tree.lineages) == lineages
    assert sum(junction.is_eviction for junction in analysis.junction_list) == evictions


@pytest.mark.parametrize("name", ["swe_agent/last-n-observations.traj", "langchain/editing.jsonl"])
def test_edits_in_place_are_each_at_another_depth(name: str) -> None:
    junctions = load(sample(name)).analyses[0].junction_list
    depths = [junction.depth or 0 for junction in junctions]
    assert {junction.kind for junction in junctions} == {"placeholder"}
    assert depths == sorted(set(depths))


def test_rebuilt_trajectories_agree_with_the_conversations_of_the_same_run() -> None:
    folder = sample("atif_harbor")
    rebuilt = read(
        folder / "hello-world-context-summarization-linear-history.trajectory.json"
    ).rollouts[0]
    exact = read(folder / "hello-world-context-summarization.traces.json").rollouts[0]
    for left, right in zip(rebuilt.calls, exact.calls, strict=True):
        assert left.prompt is not None
        assert right.prompt is not None
        assert [m.role for m in left.prompt] == [m.role for m in right.prompt]
