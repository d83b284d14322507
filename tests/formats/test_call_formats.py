"""Fixtures of the formats that hold the context of every call: what must come out of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from mwviz import load
from mwviz.formats import read, write
from mwviz.rollout import Call, Rollout

FIXTURES = Path(__file__).parents[1] / "data" / "formats"


class Expected(NamedTuple):
    file: str
    calls: int
    kinds: list[str]
    leaves: int
    lineages: int = 1


EXPECTED = {
    "otel": Expected("spans.jsonl", 4, ["placeholder"], 2),
    "agentfold": Expected("results.jsonl", 4, ["rewrite", "fold", "fold"], 4),
    "memexrl": Expected("episodes.jsonl", 5, ["summary"], 2),
    "tc-rag": Expected(
        "traces.jsonl", 5, ["reserialise", "reserialise", "rewind", "reserialise"], 5
    ),
    "mem1": Expected("rows.jsonl", 4, ["retokenise", "summary", "summary"], 4),
    "memagent": Expected("memory.jsonl", 3, ["summary", "summary"], 3),
    "verl-agent-loop": Expected("outputs.jsonl", 4, ["fold"], 2),
    "resum": Expected("iter1.jsonl", 4, ["summary"], 2),
    "mask-spans": Expected("records.jsonl", 3, ["drop"], 2),
    "recording": Expected("rollouts.jsonl", 3, ["placeholder"], 2),
    "tinker": Expected("groups.jsonl", 3, ["rewrite"], 2),
    "rllm": Expected("episodes.jsonl", 3, ["rewrite"], 2),
    "rllm-gateway": Expected("traces.jsonl", 3, ["rewrite"], 2),
    "agent-lightning": Expected("rollouts.jsonl", 3, ["rewrite"], 2),
    "areal": Expected("export.jsonl", 3, ["summary"], 2),
    "areal-rows": Expected("rows.jsonl", 3, ["rewrite"], 2),
    "art": Expected("groups.jsonl", 3, ["summary"], 2),
    "slime": Expected("samples.jsonl", 3, ["rewrite"], 2),
    "prime-rl": Expected("samples.jsonl", 3, ["rewrite"], 2),
    "trl": Expected("rows.jsonl", 3, ["rewrite"], 2),
    "skyrl": Expected("batch.jsonl", 3, ["rewrite"], 2),
    "inspect": Expected("log.json", 5, ["placeholder"], 3, 2),
    "atif": Expected("garden.trajectory.json", 6, ["summary"], 4, 3),
    "harbor-traces": Expected("traces.json", 3, ["summary"], 2),
    "swe-agent": Expected("query.traj", 4, ["placeholder", "placeholder"], 3),
    "langchain": Expected("callback.jsonl", 5, ["summary_tail", "placeholder"], 4, 2),
    "verifiers": Expected("traces.jsonl", 3, ["summary"], 2),
    "verifiers-results": Expected("results.jsonl", 3, ["rewrite"], 2),
    "openhands-calls": Expected("own__small-1-1772359260.500.json", 4, ["summary"], 2),
    "litellm": Expected("log.jsonl", 4, ["placeholder"], 2),
    "openai-chat": Expected("log.jsonl", 4, ["placeholder"], 2),
    "openai-text": Expected("log.jsonl", 4, ["drop", "retry"], 3),
    "openai-responses": Expected("log.jsonl", 4, ["summary"], 2),
    "anthropic": Expected("log.jsonl", 5, ["summary"], 2),
}


def fixture(name: str) -> Rollout:
    (rollout,) = read(FIXTURES / name / EXPECTED[name].file).rollouts
    return rollout


def first_call(*records: dict[str, Any]) -> Call:
    return read("\n".join(map(json.dumps, records)).encode()).rollouts[0].calls[0]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_fixture_has_its_calls_junctions_and_leaves(name: str) -> None:
    expected = EXPECTED[name]
    trace = load(FIXTURES / name / expected.file)
    (analysis,) = trace.analyses
    assert (trace.format, trace.damage) == (name, ())
    assert len(analysis.rollout.calls) == expected.calls
    assert [junction.kind for junction in analysis.junction_list] == expected.kinds
    assert len(analysis.tree.leaves) == expected.leaves
    assert len(analysis.tree.lineages) == expected.lineages


@pytest.mark.parametrize("name", EXPECTED)
def test_a_fixture_converted_to_mwviz_keeps_every_context(name: str, tmp_path: Path) -> None:
    source = load(FIXTURES / name / EXPECTED[name].file)
    write(source.rollouts, tmp_path / "out.jsonl")
    copy = load(tmp_path / "out.jsonl")
    left, right = source.analyses[0], copy.analyses[0]
    for before, after in zip(left.encoding.calls, right.encoding.calls, strict=True):
        assert np.array_equal(before.context, after.context)
        assert before.prompt_length == after.prompt_length
    assert [j.kind for j in right.junction_list] == [j.kind for j in left.junction_list]
    assert [c.content for c in copy.rollouts[0].calls] == [
        c.content for c in source.rollouts[0].calls
    ]
