from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mwviz import load
from mwviz.formats import read
from mwviz.rollout import Rollout
from tests.formats.test_call_formats import FIXTURES

ATIF = FIXTURES / "atif"


def rollout_of(path: Path) -> Rollout:
    (rollout,) = read(path).rollouts
    return rollout


def texts(rollout: Rollout, lineage: str = "main") -> list[list[str]]:
    return [
        [message.text for message in (*(call.prompt or ()), *(call.completion or ()))]
        for call in rollout.calls
        if call.lineage == lineage
    ]


def test_sub_agents_stand_where_they_are_named() -> None:
    rollout = rollout_of(ATIF / "garden.trajectory.json")
    assert [(call.id, call.lineage) for call in rollout.calls] == [
        ("3", "main"),
        ("4", "main"),
        ("garden-summary/5", "garden-summary"),
        ("garden-questions/2", "garden-questions"),
        ("7", "main"),
        ("8", "main"),
    ]
    assert {call.content for call in rollout.calls} == {"rebuilt"}
    assert "rebuilt from the steps" in rollout.warnings[0]


def test_one_file_and_a_cut_one_give_the_same_contexts() -> None:
    whole = rollout_of(ATIF / "garden.trajectory.json")
    cut = rollout_of(ATIF / "linear.trajectory.json")
    assert texts(whole) == texts(cut)
    assert [hint.kind for call in cut.calls for hint in call.hints] == ["summary"]


def test_evicted_steps_are_not_in_the_context_behind_a_compaction() -> None:
    analysis = load(ATIF / "garden.trajectory.json").analyses[0]
    (junction,) = analysis.junction_list
    assert (junction.call, junction.kind, junction.evidence) == (4, "summary", "recorded")


def test_missing_parts_are_holes_and_named(tmp_path: Path) -> None:
    shutil.copy(ATIF / "garden.trajectory.json", tmp_path)
    rollout = rollout_of(tmp_path / "garden.trajectory.json")
    assert [call.content for call in rollout.calls] == ["rebuilt", "rebuilt", "partial", "partial"]
    assert "the calls of trajectory.questions.json stand in a file that is not beside this one" in (
        "\n".join(rollout.warnings)
    )
    shutil.copy(ATIF / "linear.trajectory.json", tmp_path)
    reading = read(tmp_path / "linear.trajectory.json")
    assert [damage.what for damage in reading.damage] == [
        "the trajectory goes on in 'trajectory.cont-1.json', which is not beside it"
    ]


@pytest.mark.parametrize("name", ["../garden.trajectory.summary.json", "/etc/hostname", ""])
def test_references_are_followed_by_plain_name_only(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    shutil.copy(ATIF / "garden.trajectory.summary.json", tmp_path)
    document = json.loads((ATIF / "linear.trajectory.json").read_text())
    document["continued_trajectory_ref"] = name
    path = folder / "x.trajectory.json"
    path.write_text(json.dumps(document))
    assert len(read(path).rollouts[0].calls) == 2


def test_a_trajectory_that_refers_to_itself_ends(tmp_path: Path) -> None:
    document = json.loads((ATIF / "linear.trajectory.json").read_text())
    document["continued_trajectory_ref"] = "x.trajectory.json"
    path = tmp_path / "x.trajectory.json"
    path.write_text(json.dumps(document))
    assert len(read(path).rollouts[0].calls) <= 4


def test_token_ids_win_and_placeholders_are_refused() -> None:
    exact = load(ATIF / "ids.trajectory.json").analyses[0]
    assert [call.tokens for call in exact.rollout.calls] == ["recorded"] * 3
    assert [junction.depth for junction in exact.junction_list] == [10]
    document = json.loads((ATIF / "ids.trajectory.json").read_text())
    for step in document["steps"]:
        if metrics := step.get("metrics"):
            metrics["prompt_token_ids"] = list(range(100, 130))
    (rollout,) = read(json.dumps(document).encode()).rollouts
    assert {call.tokens for call in rollout.calls} == {"rendered"}
    assert any("placeholders" in warning for warning in rollout.warnings)


def test_steps_without_a_request_are_context_and_sums_are_told() -> None:
    document = json.loads((ATIF / "ids.trajectory.json").read_text())
    document["steps"][2]["llm_call_count"] = 0
    document["steps"][3]["llm_call_count"] = 2
    (rollout,) = read(json.dumps(document).encode()).rollouts
    assert [call.id for call in rollout.calls] == ["4", "6"]
    assert any("several requests" in warning for warning in rollout.warnings)
