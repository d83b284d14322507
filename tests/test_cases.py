from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mwviz
from mwviz.births import cut_birth_axis
from mwviz.cli import main
from mwviz.judging import CLASSES, blocks

CASES = sorted(Path(__file__).parent.glob("data/cases/*/expected.json"))


def read(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.fixture(params=CASES, ids=lambda path: path.parent.name)
def case(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param.parent
    return folder


def test_inspect_prints_what_was_worked_out_by_hand(
    case: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(case / "calls.jsonl"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    expected = read(case / "expected.json")
    (rollout,) = printed["rollouts"]
    for key in ("calls", "lineages", "leaves", "tokens"):
        assert rollout[key] == expected[key], key
    sizes = [
        {
            "call": j["call"],
            "depth": j["depth"],
            **{key: len(j[key]) for key in ("evicted", "inserted", "retained")},
        }
        for j in expected["junction_list"]
    ]
    shown = [
        {key: j[key] for key in ("call", "depth", "evicted", "inserted", "retained")}
        for j in rollout["junctions"]
    ]
    assert shown == sizes
    for name, view in expected["views"].items():
        got = rollout["views"][name]
        assert (got["targets"], got["diverging"]) == (view["targets"], view["diverging"])
        assert got["coverage"] == pytest.approx(view["coverage"], abs=1e-6)
        assert {key: got["pairs"][key] for key in view["pairs"]} == view["pairs"], name


def test_junctions_name_the_units_that_left_came_and_stayed(case: Path) -> None:
    analysis = mwviz.load(case / "calls.jsonl").analyses[0]
    units = read(case / "units.json")
    expected = read(case / "expected.json")["junction_list"]
    for junction, truth in zip(analysis.junction_list, expected, strict=True):
        for key in ("evicted", "inserted", "retained"):
            names = [units[i] for i in analysis.tree.ids[getattr(junction, key)]]
            assert sorted(names) == sorted(truth[key])


def test_every_leaking_and_missing_unit_of_each_target_is_named(case: Path) -> None:
    analysis = mwviz.load(case / "calls.jsonl").analyses[0]
    units = read(case / "units.json")
    tree = analysis.tree
    for name, expected in read(case / "expected.json")["views"].items():
        view = analysis.view(name)
        axis = cut_birth_axis(tree, view)
        found: dict[str, dict[str, list[str]]] = {}
        birth = tree.birth
        for block in blocks(axis, view):
            for target in block.targets:
                detail: dict[str, list[str]] = {}
                for key, kind in zip(block.keys, block.kind, strict=True):
                    if CLASSES[kind] != "agree":
                        owners = birth[axis.cut[key] : axis.cut[key + 1]]
                        detail.setdefault(CLASSES[kind], []).extend(
                            units[i] for i in tree.ids[owners]
                        )
                if detail:
                    found[units[tree.ids[tree.token[target]]]] = detail
        truth = expected["detail"]
        assert {t: {c: sorted(u) for c, u in d.items()} for t, d in found.items()} == {
            t: {c: sorted(u) for c, u in d.items()} for t, d in truth.items()
        }


def test_units_logs_get_the_kinds_their_structure_shows() -> None:
    folder = CASES[0].parent.parent
    kinds = {
        "vector-1-running-example": ["drop", "drop", "drop"],
        "vector-2-summary": ["summary"],
        "vector-3-summary-tail": ["summary_tail"],
        "vector-4-rewind": ["retry"],
        "vector-6b-restore-in-place": ["summary", "restore"],
        "T01": ["placeholder"],
        "H10": ["placeholder"],
    }
    for name, expected in kinds.items():
        (analysis,) = mwviz.load(folder / name / "calls.jsonl").analyses
        assert [junction.kind for junction in analysis.junction_list] == expected, name
