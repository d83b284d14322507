"""What one method took on one tree: a row of the bench's table, as object, words or cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

COLUMNS = (
    *("tree", "method and kernel", "score ms (x floor)", "train ms (x floor)", "x LogitTree"),
    *("tokens/s", "peak GiB", "set-up ms", "first s", "max d nats", "gradient error"),
    "predicted ms",
)
REFERENCE = "logit_tree"
"""Method that the others' training time is compared with."""


@dataclass(frozen=True, slots=True)
class Timing:
    """One row of the table, in seconds and bytes; 0 or None where it was not run."""

    model: str = ""
    workload: str = ""
    method: str = ""
    forward: float = 0.0
    """Scoring every target, table included."""
    train: float = 0.0
    """Loss and gradient."""
    first: float = 0.0
    """The first of each: compilation, kernel planning and the self-check included."""
    setup: float = 0.0
    """Laying out the rows and building masks, of one pass."""
    peak: int = 0
    tokens_per_second: float = 0.0
    """Of the tree, in training."""
    forward_floors: float = 0.0
    """Forward time over the least the hardware allows."""
    train_floors: float = 0.0
    max_drift: float | None = None
    """Largest |d logprob| against LogitTree, nats."""
    gradient_error: float | None = None
    """|gradient - LogitTree's| / |LogitTree's|."""
    predicted: float = 0.0
    """Seconds of `train`, said before it ran."""
    recomputed: bool = False
    """Whether layers ran twice for lack of memory."""
    refused: str = ""


def as_json(timings: Sequence[Timing]) -> list[dict[str, Any]]:
    """The rows as plain objects."""
    return [asdict(timing) for timing in timings]


def line(row: dict[str, Any]) -> str:
    """A row in words."""
    name = f"{row['model']} {row['workload']} {row['method']}"
    if row["refused"]:
        return f"{name}: refused: {row['refused']}"
    exact = "" if row["max_drift"] is None else f", max |d| {row['max_drift']:.2g} nats"
    return (
        f"{name}: score {row['forward'] * 1e3:.0f} ms ({row['forward_floors']:.2f} floors), "
        f"train {row['train'] * 1e3:.0f} ms ({row['train_floors']:.2f} floors, predicted "
        f"{row['predicted'] * 1e3:.0f}), peak {row['peak'] / 2**30:.1f} GiB{exact}"
    )


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Lines of a Markdown table of one model's rows, as `as_json` gives them."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    for row in rows:
        if row["refused"]:
            cells = [row["workload"], row["method"], "does not fit", *["-"] * (len(COLUMNS) - 3)]
        else:
            cells = _cells(row, first_row(rows, row["workload"], REFERENCE))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def first_row(rows: Sequence[dict[str, Any]], tree: str, method: str) -> dict[str, Any] | None:
    """The first of a tree's methods that begins so and was run; the preferred kernel is first."""
    found = (row for row in rows if row["workload"] == tree and not row["refused"])
    return next((row for row in found if row["method"].startswith(method)), None)


def _cells(row: dict[str, Any], base: dict[str, Any] | None) -> list[str]:
    """Of a method that was run."""
    score = f"{row['forward'] * 1e3:.0f} ({row['forward_floors']:.2f})"
    return [
        row["workload"],
        row["method"] + (", layers run twice" if row["recomputed"] else ""),
        score if row["forward"] else "-",
        f"{row['train'] * 1e3:.0f} ({row['train_floors']:.2f})",
        "-" if base is None else f"{base['train'] / row['train']:.2f}",
        f"{row['tokens_per_second']:,.0f}",
        f"{row['peak'] / 2**30:.1f}",
        f"{row['setup'] * 1e3:.1f}",
        f"{row['first']:.1f}",
        _small(row["max_drift"]),
        _small(row["gradient_error"]),
        f"{row['predicted'] * 1e3:.0f}",
    ]


def _small(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"
