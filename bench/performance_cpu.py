"""The CPU's part of docs/performance.md: the tidy demo, and what `exact` takes."""

from __future__ import annotations

from typing import Any

from bench.exact_cpu import LAYOUTS, MOST
from bench.goals import TIDY, against
from mwviz.wording import counted

STEPS = ("read_s", "tree_s", "views_s", "pairs_s")
"""Columns of a log's structure that add up."""


def waited(tidy: dict[str, Any]) -> float:
    """Seconds of the tidy demo's views: the clock's, or on free cores if the machine was busy."""
    rows, kind = tidy["rows"].values(), "core_seconds" if _busy(tidy) else "seconds"
    return float(sum(row[kind] for row in rows) / (tidy["cores"] if _busy(tidy) else 1))


def _busy(found: dict[str, Any]) -> bool:
    return bool(found["load"] > found["cores"])


def tidy(found: dict[str, Any]) -> str:
    """The tidy demo's views on a CPU."""
    cores = sum(row["core_seconds"] for row in found["rows"].values())
    load = f"load {found['load']:.1f} on {found['cores']} cores"
    took = (
        f"{waited(found):.1f} s on free cores (bar {TIDY:g}). The machine was busy ({load}): the "
        "clock and the prediction, which is calibrated by it, are of the machine as it was."
        if _busy(found)
        else f"{waited(found):.1f} s by the clock ({load}; bar {TIDY:g}). Predicted is the time "
        "without self-checks."
    )
    lines = [
        f"\n## The tidy demo on {found['cores']} CPU cores, {found['date']}\n",
        f"Its four views with the embedded model (torch {found['torch']}, {found['threads']} "
        f"threads, `python -m bench.tidy_demo`), self-check included: {cores:.1f} core seconds, "
        f"{took}\n",
        "| view | runs | tokens | predicted s | s | core s |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in found["rows"].items():
        times = (row["predicted"], row["seconds"], row["core_seconds"])
        cells = (name, row["method"], str(row["tokens"]), *(f"{one:.1f}" for one in times))
        lines.append(f"| {' | '.join(cells)} |")
    chosen = found["rows"]["exact"]["method"]
    costs = " and ".join(f"{name} {spent:.1f}" for name, spent in found["exact"].items())
    lines.append(f"\n`exact` chose {chosen}; without self-checks {costs} core seconds.")
    return "\n".join(lines)


def exact(found: dict[str, Any]) -> str:
    """What `exact` takes on a CPU beside the faster exact layout."""
    loads = [row["load"] for row in found["rows"]]
    load = " to ".join(dict.fromkeys(f"{end(loads):.0f}" for end in (min, max)))
    lines = [
        f"\n## What `exact` takes on a CPU, {found['date']}\n",
        f"The embedded model (torch {found['torch']}, {counted(found['threads'], 'thread')}, "
        "`python -m bench.exact_cpu`): both layouts in turns, core seconds without self-checks, "
        f"and what was predicted by the clock of a machine with a load of {load} on "
        f"{found['cores']} cores. Bar: what is taken costs at most {MOST} "
        "times the faster one. A letter is a tree A to D at a hundredth of its tokens; the "
        "branches of `apart` share their first token only.\n",
        "| tree, pass | packed tokens | branches, tokens | predicted s | core s | `exact` takes "
        "| of the faster (bar) |",
        "|" + "---|" * 7,
    ]
    for row in found["rows"]:
        packed, separate = (row["tokens"][name] for name in LAYOUTS)
        said, took = (
            " / ".join(f"{row[what][name]:.2f}" for name in LAYOUTS)
            for what in ("predicted", "core_seconds")
        )
        cells = (
            f"{row['tree']}, {'train' if row['train'] else 'score'}",
            *(f"{packed:,}", f"{row['rows']}, {separate:,}", said, took, row["exact"]),
            against(row["of the faster"], MOST),
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("\nPredicted and core seconds: packed_mask / logit_tree.")
    return "\n".join(lines)
