"""The table of what `exact` takes on a CPU can tell a right choice from always the same one."""

from __future__ import annotations

import json

from bench.exact_cpu import LAYOUTS, MOST, TREES
from bench.performance_cpu import exact
from bench.performance_table import RESULTS

FOUND = json.loads((RESULTS / "exact_cpu.json").read_text())


def test_either_layout_is_clearly_the_faster_one_of_some_tree() -> None:
    packed, separate = LAYOUTS
    ratios = [row["core_seconds"][packed] / row["core_seconds"][separate] for row in FOUND["rows"]]
    assert min(ratios) < 1 / MOST
    assert max(ratios) > MOST
    assert {row["tree"] for row in FOUND["rows"]} == set(TREES)


def test_a_constant_choice_misses_the_bar() -> None:
    assert "missed" not in exact(FOUND)
    for method in LAYOUTS:
        rows = [
            row
            | {"exact": method}
            | {"of the faster": row["core_seconds"][method] / min(row["core_seconds"].values())}
            for row in FOUND["rows"]
        ]
        assert "missed" in exact(FOUND | {"rows": rows})
