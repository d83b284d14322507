"""One row a rollout: what its structure alone tells of two naive layouts; knows no Streamlit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from mwviz.analysis import Analysis
from mwviz.compare import Comparison
from mwviz.verdict import judge, refusal

Row = dict[str, object]
CLASSES = ("future", "erased", "stale")
"""Classes whose tokens are counted."""
JUDGED = ("rightmost", "replay")
"""Naive layouts that are judged."""
DRIFT = ("mean |d|", "max |d|")
"""Columns that need a model: |drift| of `rightmost` over its diverging tokens, and its largest."""
BARS = 12
"""Bars of a histogram."""

Ranges = Mapping[str, tuple[float, float]]
"""Lowest and highest value that a row may have, by column."""


def row(analysis: Analysis) -> Row:
    """Sizes of one rollout, and how many sampled tokens each naive layout trains wrongly."""
    tree = analysis.tree
    found: Row = {
        "rollout": analysis.rollout.id,
        "reward": analysis.rollout.reward,
        "calls": len(analysis.rollout.calls),
        "tokens": tree.budget["tree"],
        "sampled": len(tree.token),
        "evictions": sum(junction.is_eviction for junction in analysis.junction_list),
        "leaves": len(tree.leaves),
        "verdict": "",
        "to score": tree.budget["branches"],
    }
    for method in JUDGED:
        reason = refusal(analysis, method)
        if reason:
            found["verdict"] = found["verdict"] or reason
            continue
        verdict = judge(analysis, method)
        found["verdict"] = found["verdict"] or verdict.headline
        found[f"{method} coverage"] = verdict.coverage
        found[f"{method} diverging"] = verdict.diverging
        for name in CLASSES:
            found[f"{method} {name}"] = verdict.hit[name]
        if method == "rightmost":
            found["to score"] = tree.budget["branches"] + sum(
                one.size for one in analysis.view(method).rows
            )
    return found


def drift(comparison: Comparison | None) -> Row:
    """The columns that need a model; empty if the rollout was not scored."""
    if comparison is None:
        return {}
    diverging, every = comparison.drift("diverging"), comparison.drift()
    return {
        "mean |d|": diverging.values.get("mean_abs", 0.0),
        "max |d|": every.values.get("max_abs", 0.0),
    }


def table(rows: list[Row]) -> pd.DataFrame:
    """The rows, the worst first; the index is their old place.

    Worst is most tokens in a wrong context under `rightmost`, among equals under `replay`.
    """
    columns = ["trace", *_columns()]
    shares = [f"{method} coverage" for method in JUDGED]
    numbers = dict.fromkeys(("reward", *shares, *DRIFT), "float64")
    frame = pd.DataFrame(rows, columns=columns).astype(numbers)
    return frame.sort_values([f"{method} diverging" for method in JUDGED], ascending=False)


def within(frame: pd.DataFrame, ranges: Ranges) -> pd.DataFrame:
    """The rows whose values lie in every range; a missing value lies in none."""
    kept = np.ones(len(frame), dtype=bool)
    for column, (low, high) in ranges.items():
        if column in frame:
            value = pd.to_numeric(frame[column], errors="coerce").to_numpy(dtype=np.float64)
            kept &= (value >= low) & (value <= high)
    return frame[kept]


def edges(values: pd.Series[float], *, whole: bool) -> np.ndarray:
    """float64: edges of at most `BARS` bars over all known values.

    Whole numbers stay whole; others, which are never negative, are told from 0.
    """
    known = pd.to_numeric(values, errors="coerce").dropna().to_numpy(dtype=np.float64)
    if not len(known):
        return np.array([0.0, 1.0])
    low, high = float(known.min()), float(known.max())
    if not whole:
        return np.linspace(0.0, high if high > 0 else 1.0, BARS + 1)
    step = max(1, int(np.ceil((high - low + 1) / BARS)))
    return np.arange(low, high + step + 1, step) - 0.5


def chosen_range(bars: Iterable[int], at: np.ndarray) -> tuple[float, float] | None:
    """The values from the first to the last of the chosen bars; None if none is."""
    picked = [bar for bar in bars if 0 <= bar < len(at) - 1]
    return (float(at[min(picked)]), float(at[max(picked) + 1])) if picked else None


def _columns() -> list[str]:
    sizes = ["rollout", "reward", "calls", "tokens", "sampled", "evictions", "leaves"]
    shares = [f"{method} {name}" for method in JUDGED for name in ("coverage", "diverging")]
    counts = [f"{method} {name}" for method in JUDGED for name in CLASSES]
    return [*sizes, "verdict", *shares, *counts, *DRIFT, "to score"]
