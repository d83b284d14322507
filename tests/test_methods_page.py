from __future__ import annotations

import runpy
from pathlib import Path

from mwviz.views import METHODS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "methods.md").read_text()
GRADIENT = 3
"""Last columns of the first table, which differ in the last digits from machine to machine."""


def rows() -> dict[str, list[str]]:
    """The cells of the first table by method."""
    lines = PAGE.split("## What each feeds")[0].splitlines()
    cells = [
        [cell.strip() for cell in line.strip("|").replace("\\|", "").split("|")]
        for line in lines
        if line.startswith("| `")
    ]
    return {row[0].strip("`"): row[1:] for row in cells}


def test_the_committed_page_is_what_the_command_makes() -> None:
    command = runpy.run_path(str(ROOT / "bench" / "methods_table.py"))
    read = {name: command["Gradient"](*cells[-GRADIENT:]) for name, cells in rows().items()}
    assert f"{command['page'](read)}\n" == PAGE


def test_the_gradients_of_exact_methods_and_of_no_other_are_the_references() -> None:
    assert list(rows()) == [method.name for method in METHODS]
    equal = [name for name, cells in rows().items() if cells[-2] == "below 1e-9"]
    assert equal == [method.name for method in METHODS if method.exact]
