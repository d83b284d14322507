"""One row a rollout: what its structure alone tells of two naive layouts; knows no Streamlit."""

from __future__ import annotations

import pandas as pd

from mwviz.analysis import Analysis
from mwviz.verdict import judge, refusal

Row = dict[str, object]
CLASSES = ("future", "erased", "stale")
"""Classes whose tokens are counted."""
JUDGED = ("rightmost", "replay")
"""Naive layouts that are judged."""


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
    return found


def table(rows: list[Row]) -> pd.DataFrame:
    """The rows, those with most tokens in a wrong context first; the index is their old place."""
    counted = [f"{method} {name}" for method in JUDGED for name in ("diverging", *CLASSES)]
    columns = ["trace", *_columns()]
    frame = pd.DataFrame(rows, columns=columns).astype({"reward": "float64"})
    wrong = frame[[name for name in counted if name.endswith("diverging")]].sum(axis=1)
    return frame.loc[wrong.sort_values(ascending=False, kind="stable").index]


def _columns() -> list[str]:
    sizes = ["rollout", "reward", "calls", "tokens", "sampled", "evictions", "leaves"]
    shares = [f"{method} {name}" for method in JUDGED for name in ("coverage", "diverging")]
    counts = [f"{method} {name}" for method in JUDGED for name in CLASSES]
    return [*sizes, "verdict", *shares, *counts]
