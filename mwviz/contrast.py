"""B minus A: two scorings of the same targets (two views, models or checkpoints) side by side.

Each side is a `Comparison` and brings its own floor, coverage and true contexts. Letters: M
targets, C calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from mwviz.compare import Comparison
from mwviz.errors import ViewError
from mwviz.junctions import Junction
from mwviz.trie import Longs

if TYPE_CHECKING:
    import pandas as pd

Quantity = Literal["log p", "|drift|"]
QUANTITIES: dict[Quantity, str] = {
    "log p": "log-probability of the sampled token under each side, nats",
    "|drift|": "how far each side's view moves the log-probability from the true context, nats",
}
"""What is subtracted, and what a reader calls it."""
Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]
SETS = ("both", "diverging", "control")
"""Targets that both sides cover; of those, the ones whose context differs from the truth in A or in
B; and the others."""


@dataclass(frozen=True, eq=False)
class Contrast:
    """One quantity of every target on both sides."""

    quantity: Quantity
    a: Floats
    """float32 (M,): nats; NaN where A does not cover the target."""
    b: Floats
    threshold: float
    """Largest |B - A| that noise alone explains, nats."""
    coverage: tuple[float | None, float | None]
    """Shares of all sampled tokens that A and B cover; None if nothing was sampled."""
    floors: tuple[float, float]
    """Thresholds of the two sides, nats."""
    diverging: Bools
    """bool (M,): the context differs from the truth in A or in B."""
    call: npt.NDArray[np.int64]
    """int64 (M,): call that sampled the target."""

    @cached_property
    def change(self) -> Floats:
        """float32 (M,): B - A, nats; NaN where not both cover the target."""
        change: Floats = self.b - self.a
        return change

    @cached_property
    def both(self) -> Bools:
        """Covered by both: bool (M,)."""
        return ~np.isnan(self.change)

    @property
    def first(self) -> int | None:
        """The first target, in the order of sampling, whose |B - A| is above the floor."""
        found = np.flatnonzero(np.abs(self.change) > self.threshold)
        return int(found[0]) if len(found) else None

    def of(self, token_set: str) -> Bools:
        """The targets of one of `SETS`: bool (M,)."""
        if token_set == "both":
            return self.both
        members: Bools = self.both & (self.diverging == (token_set == "diverging"))
        return members

    def by_set(self) -> pd.DataFrame:
        """One row a token set."""
        return _table([(name, np.flatnonzero(self.of(name))) for name in SETS], "tokens of", self)

    def by_call(self) -> pd.DataFrame:
        """One row a call that sampled tokens which both cover."""
        calls, number = np.unique(self.call[self.both], return_inverse=True)
        place = np.full(len(self.call), -1, dtype=np.int64)
        place[self.both] = number
        members = _members(place, len(calls))
        return _table(list(zip(calls.tolist(), members, strict=True)), "call", self)

    def by_junction(self, junctions: Sequence[Junction], lineage: npt.ArrayLike) -> pd.DataFrame:
        """One row a change of context: the tokens of its lineage from there to the next change.

        Args:
            junctions: of the rollout, in call order; those without a place are left out.
            lineage: int (C,): of each call.
        """
        placed = [junction for junction in junctions if junction.depth is not None]
        calls = np.array([junction.call for junction in placed], dtype=np.int64)
        members = _members(self._junction_of(calls, np.asarray(lineage)), len(calls))
        table = _table(list(zip(calls.tolist(), members, strict=True)), "before call", self)
        table.insert(1, "change", [junction.kind.replace("_", " ") for junction in placed])
        return table

    def _junction_of(self, calls: Longs, lineage: Longs) -> Longs:
        """int64 (M,): which junction is the last one at or before a target in its lineage, or -1.

        Args:
            calls: int64 (J,): of each junction.
            lineage: int (C,): of each call.
        """
        width = len(lineage) + 1
        place = lineage[calls] * width + calls  # by lineage, then by call
        order = np.argsort(place, kind="stable")
        last = np.searchsorted(place[order], lineage[self.call] * width + self.call, "right") - 1
        found = np.append(order, -1)[last]
        found[~self.both | (np.append(lineage[calls], -1)[found] != lineage[self.call])] = -1
        return found


def contrast(a: Comparison, b: Comparison, quantity: Quantity = "log p") -> Contrast:
    """Both sides of one rollout, target by target.

    The floor of log p is the larger of the two, that of |drift|, a difference of differences, their
    sum.

    Raises:
        ViewError: the sides have not the same targets (another tokenizer, or another rollout).
    """
    if len(a.table) != len(b.table) or not np.array_equal(a.table["node"], b.table["node"]):
        raise ViewError(
            f"A has {len(a.table):,} sampled tokens and B {len(b.table):,}: only scorings of the "
            "same rollout in the same tokens are compared"
        )
    floors = (a.threshold, b.threshold)
    if quantity == "log p":
        sides, threshold = (a.view.logprob, b.view.logprob), max(floors)
    else:
        sides = (_size(a), _size(b))
        threshold = sum(floors)
    diverging = (a.table["diverging"] | b.table["diverging"]).to_numpy(dtype=bool)
    call = a.table["call"].to_numpy(dtype=np.int64)
    return Contrast(quantity, *sides, threshold, (a.coverage, b.coverage), floors, diverging, call)


def _size(side: Comparison) -> Floats:
    size: Floats = np.abs(side.view.logprob - side.reference.logprob).astype(np.float32)
    return size


def _members(place: Longs, count: int) -> list[Longs]:
    """The targets of each of `count` groups, by the group of every target; -1 is none."""
    order = np.argsort(place, kind="stable")
    return np.split(order, np.searchsorted(place[order], np.arange(count + 1)))[1:-1]


def _table(rows: Sequence[tuple[object, Longs]], name: str, told: Contrast) -> pd.DataFrame:
    """Means and extremes of some groups of targets, nats; NaN where a group is empty."""
    import pandas as pd

    found = []
    for label, members in rows:
        change = told.change[members].astype(np.float64)
        known = len(change) > 0
        found.append(
            {
                name: label,
                "tokens": len(change),
                "A": float(told.a[members].mean(dtype=np.float64)) if known else np.nan,
                "B": float(told.b[members].mean(dtype=np.float64)) if known else np.nan,
                "B - A": float(change.mean()) if known else np.nan,
                "|B - A|": float(np.abs(change).mean()) if known else np.nan,
                "largest": float(np.abs(change).max()) if known else np.nan,
                "above floor": int((np.abs(change) > told.threshold).sum()),
            }
        )
    columns = [name, "tokens", "A", "B", "B - A", "|B - A|", "largest", "above floor"]
    return pd.DataFrame(found, columns=columns)
