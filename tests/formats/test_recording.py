"""Recordings of the sample research agent: exact tokens, spans and the harness's own evictions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mwviz.errors import TraceError
from mwviz.formats import read
from mwviz.trace import load
from tests.formats.test_call_formats import FIXTURES, fixture

SAMPLES = Path(__file__).parents[3] / "shared" / "samples" / "smollm2"


def recorded() -> dict[str, Any]:
    value: dict[str, Any] = json.loads((FIXTURES / "recording" / "rollouts.jsonl").read_text())
    return value


def test_a_call_has_its_messages_ids_and_spans() -> None:
    found = fixture("recording")
    last = found.calls[2]
    assert [m.text for m in last.prompt or ()][3] == "(cleared)"
    assert [m.mark for m in last.prompt or ()] == [None, None, None, "placeholder", None, None]
    assert [(s.start, s.end, s.message) for s in last.spans or ()][2:4] == [
        (6, 8, "2"),
        (8, 10, "5"),
    ]
    assert (found.semantics, found.reward, found.calls[0].model) == ("re_prefill", 1.0, "made-up")
    assert [hint.kind for call in found.calls for hint in call.hints] == ["placeholder"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"completion_mid": 99}, "a call names the message '99', which is not there"),
        (
            {"segments": [{"mid": 0, "start": 0, "end": 99, "role": "user"}]},
            "within the prompt's 6",
        ),
        ({"segments": [{"mid": 0, "start": 0}]}, "a segment without start or end"),
        ({"prompt_ids": None}, "a call without prompt_ids"),
    ],
)
def test_a_call_that_does_not_fit_is_left_out_and_said(
    change: dict[str, Any], message: str
) -> None:
    value = recorded()
    value["calls"][0].update(change)
    reading = read(json.dumps(value).encode())
    assert len(reading.rollouts[0].calls) == 2
    (damage,) = reading.damage
    assert message in damage.what


def test_another_record_is_no_recording() -> None:
    with pytest.raises(TraceError, match="expected a recorded rollout with its evictions"):
        read(b'{"messages": {}, "calls": []}', format="recording")


def test_the_sample_recording_is_the_sample_call_log() -> None:
    if not SAMPLES.exists():
        pytest.skip("no samples beside the repository")
    recording, log = load(SAMPLES / "rollouts.jsonl"), load(SAMPLES / "calls.jsonl")
    assert (recording.format, log.format) == ("recording", "calls")
    assert len(recording.rollouts) == 16
    plain = {rollout.id: rollout for rollout in log.rollouts}
    for rollout in recording.rollouts:
        for ours, theirs in zip(rollout.calls, plain[rollout.id].calls, strict=True):
            for key in ("prompt_ids", "completion_ids", "logprobs"):
                assert np.allclose(getattr(ours, key), getattr(theirs, key), rtol=0, atol=1e-6)
    kinds = {
        junction.kind
        for analysis in recording.analyses
        for junction in analysis.junction_list
        if junction.evidence == "recorded"
    }
    assert kinds == {"summary_tail", "placeholder", "fold", "drop"}
