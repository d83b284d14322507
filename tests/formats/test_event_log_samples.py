"""Real event logs, where they are there: only counts of them are repeated here."""

from __future__ import annotations

from itertools import pairwise

from mwviz import load
from mwviz.formats import read
from mwviz.rollout import Rollout
from tests.formats.test_samples import sample


def only(name: str) -> Rollout:
    reading = read(sample(name))
    assert reading.damage == ()
    (rollout,) = reading.rollouts
    return rollout


def falls(rollout: Rollout) -> list[int]:
    """By how much the reported prompt shrank, wherever it did."""
    used = [call.usage.prompt for call in rollout.calls if call.usage and call.usage.prompt]
    return [before - after for before, after in pairwise(used) if after < before]


def test_a_codex_session_has_one_remote_compaction_and_five_silent_shrinks() -> None:
    rollout = only("codex/remote-compaction.jsonl")
    assert len(rollout.calls) == 280
    assert all(call.usage for call in rollout.calls)
    hinted = [call for call in rollout.calls if call.hints]
    assert [hint.detail for call in hinted for hint in call.hints] == ["remote"]
    assert any("summary of a remote compaction" in hole.why for hole in hinted[0].holes)
    sizes = {hole.why.split()[0]: hole.tokens for hole in hinted[0].holes}
    assert sizes["tool"] is not None
    assert 10_000 < sizes["tool"] < 20_000
    assert sizes["the"] is not None
    assert 500 < sizes["the"] < 6_000
    assert sorted(falls(rollout)) == [480, 816, 3304, 3369, 20_218, 202_506]
    assert rollout.warnings == ()


def test_a_pi_session_has_two_compactions_and_stopped_calls_without_counts() -> None:
    rollout = only("pi/two-compactions.jsonl")
    assert len(rollout.calls) == 484
    hinted = [call for call in rollout.calls if call.hints]
    assert [hint.kind for call in hinted for hint in call.hints] == ["summary", "summary"]
    for call in hinted:
        assert call.prompt is not None
        assert call.prompt[0].mark == "summary"
        assert len(call.prompt) > 10
    uncounted = [call for call in rollout.calls if call.usage is None]
    assert len(uncounted) == 13
    assert {call.completion for call in uncounted} == {()}
    assert len(falls(rollout)) == 2


def test_a_gemini_document_has_its_calls_and_no_junction() -> None:
    (analysis,) = load(sample("gemini_cli/legacy.json")).analyses
    assert len(analysis.rollout.calls) == 10
    assert analysis.junction_list == ()
    used = [c.usage.prompt or 0 for c in analysis.rollout.calls if c.usage]
    assert used == sorted(used)
    assert len(used) == 10


def test_an_openhands_folder_has_two_condensations() -> None:
    folder = sample("openhands_v1/0fcf60199a4b4b9ca62c4b9212f55b6e")
    (analysis,) = load(folder).analyses
    assert len(analysis.rollout.calls) == 9
    kinds = [(junction.kind, junction.evidence) for junction in analysis.junction_list]
    assert kinds == [("summary_tail", "recorded")] * 2
    assert [junction.call for junction in analysis.junction_list] == [5, 8]
