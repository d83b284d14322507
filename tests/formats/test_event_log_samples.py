"""Real event logs, where they are there: only counts of them are repeated here."""

from __future__ import annotations

from itertools import pairwise

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
    assert sorted(falls(rollout)) == [480, 816, 3304, 3369, 20_218, 202_506]
    assert rollout.warnings == ()
