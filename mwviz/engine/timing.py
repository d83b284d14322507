"""What one method took on one tree: a row of the bench's table, as an object and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


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
