from __future__ import annotations

import runpy
from pathlib import Path

from mwviz.views import METHODS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "methods.md").read_text()


def test_the_committed_page_has_the_structure_that_the_command_makes() -> None:
    """Gradients apart, which differ in the last digits from machine to machine."""
    made = runpy.run_path(str(ROOT / "bench" / "methods_table.py"))["structure"]()
    assert PAGE.split("\n## Gradients")[0] == made


def test_the_gradients_of_exact_methods_and_of_no_other_are_the_references() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.split("\n## Gradients")[1].splitlines()
        if line.startswith("| `")
    ]
    assert [row[0] for row in rows] == [f"`{method.name}`" for method in METHODS]
    equal = [row[0].strip("`") for row in rows if row[2] == "below 1e-9"]
    assert equal == [method.name for method in METHODS if method.exact]
