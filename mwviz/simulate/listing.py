"""The presets as text: for the terminal, and as the table of the documentation.

`python -m mwviz.simulate.listing` prints the table.
"""

from __future__ import annotations

import sys
from typing import Any

from mwviz.simulate.presets import PRESETS, Option, Preset


def listed() -> str:
    """Every preset with its rule, the junction kinds it makes, and its options."""
    return "\n\n".join(_paragraph(preset) for preset in PRESETS)


def table() -> str:
    """Every preset as a row of a Markdown table."""
    rows = ["| preset | rule | junction kinds | options and defaults |", "|---|---|---|---|"]
    for preset in PRESETS:
        options = "<br>".join(
            f"`{option.name}={shown(option.default)}` {_meaning(option)}"
            for option in preset.options
        )
        rows.append(f"| `{preset.name}` | {preset.rule} | {_kinds(preset)} | {options or '-'} |")
    return "\n".join(rows)


def shown(value: Any) -> str:
    """A value as the command line takes it."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _paragraph(preset: Preset) -> str:
    lines = [preset.name, f"  {preset.rule}", f"  junctions: {_kinds(preset)}"]
    lines += [f"  {o.name}={shown(o.default)}  {_meaning(o)}" for o in preset.options]
    return "\n".join(lines)


def _meaning(option: Option) -> str:
    return option.about + (f" ({', '.join(option.choices)})" if option.choices else "")


def _kinds(preset: Preset) -> str:
    return ", ".join(preset.kinds) or "none"


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
