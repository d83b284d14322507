"""The performance page is what the committed results say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.performance_cpu import exact, tidy, waited
from bench.performance_summary import summary
from bench.performance_table import RESULTS, main
from tests.test_architecture import ROOT


def test_the_page_is_made_from_the_results(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    page = (ROOT / "docs" / "performance.md").read_text()
    assert capsys.readouterr().out == page, (
        "python -m bench.performance_table > docs/performance.md"
    )


@pytest.fixture
def found() -> dict[str, Any]:
    results: dict[str, Any] = json.loads(max(RESULTS.glob("h200-*.json")).read_text())
    return results


@pytest.fixture
def cpu() -> dict[str, Any]:
    names = ("tidy", "exact_cpu", "structure")
    return {name: json.loads((RESULTS / f"{name}.json").read_text()) for name in names}


def _lines(text: str) -> dict[str, list[str]]:
    """Cells of the table's lines by goal."""
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in rows}


def test_the_page_begins_with_every_goal_and_why_some_are_missed(
    found: dict[str, Any], cpu: dict[str, Any]
) -> None:
    goals = _lines(summary(found, cpu))
    assert len(goals) == 20
    for goal, (met, missed, why) in list(goals.items())[1:]:
        few, all_of_them = map(int, met.split(" of "))
        assert all_of_them > 0, goal
        assert bool(missed) == bool(why) == (few < all_of_them), goal


def test_a_goal_that_a_run_misses_is_named_with_what_it_reached(
    found: dict[str, Any], cpu: dict[str, Any]
) -> None:
    met = int(_lines(summary(found, cpu))["train, bar"][0].split()[0])
    (row,) = (
        row
        for row in found["timings"]
        if (row["model"], row["workload"], row["method"]) == ("0.6B", "B", "packed_mask split")
    )
    row["train_floors"], row["setup"] = 2.5, 0.02
    cpu["structure"]["rows"]["150k"]["pairs_s"] = 2.0
    goals = _lines(summary(found, cpu))
    assert goals["train, bar"][0] == f"{met - 1} of 8"
    assert "0.6B B 2.5 (2.1)" in goals["train, bar"][1]
    assert goals["set-up and mask, s"][:2] == ["7 of 8", "0.6B B 0.02 (0.01)"]
    spent = goals["tree, views and pair counts of 200 calls, 150k tokens"]
    assert spent[0] == "1 of 2"


def test_an_exact_layout_that_was_refused_is_not_the_fastest(
    found: dict[str, Any], cpu: dict[str, Any]
) -> None:
    """Its row has no time."""
    goal = "`exact` of the fastest exact layout's time"
    before = _lines(summary(found, cpu))[goal]
    (row,) = (
        row
        for row in found["timings"]
        if (row["model"], row["workload"], row["method"]) == ("1.7B", "A", "packed_mask flex")
    )
    row["train"], row["refused"] = 0.0, "a row does not fit"
    assert _lines(summary(found, cpu))[goal] == before == ["8 of 8", "", ""]


def test_the_tidy_demo_is_timed_by_the_clock_unless_the_machine_was_busy(
    found: dict[str, Any], cpu: dict[str, Any]
) -> None:
    row = {"method": "replay", "tokens": 9, "predicted": 1.0, "seconds": 11.0, "core_seconds": 6.0}
    free = cpu["tidy"] | {"rows": {"exact": row}, "cores": 2, "load": 2.0}
    busy = free | {"load": 2.1}
    assert (waited(free), waited(busy)) == (11.0, 3.0)
    goal = "the tidy demo's four views on free cores, s"
    met = [_lines(summary(found, cpu | {"tidy": one}))[goal][0] for one in (free, busy)]
    assert met == ["0 of 1", "1 of 1"]
    assert "11.0 s by the clock (load 2.0 on 2 cores; bar 10)" in tidy(free)
    assert "busy" not in tidy(free)
    assert "3.0 s on free cores (bar 10). The machine was busy (load 2.1 on 2 cores)" in tidy(busy)


def test_one_load_is_said_once(cpu: dict[str, Any]) -> None:
    one = cpu["exact_cpu"]
    for loads, said in (((5.7, 6.1), "a load of 6 on"), ((0.7, 6.1), "a load of 1 to 6 on")):
        rows = [row | {"load": load} for row, load in zip(one["rows"], loads, strict=False)]
        assert said in exact(one | {"rows": rows})
