"""How the table of the triage shows its columns: order, labels, widths."""

from __future__ import annotations

import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from mwviz_app import triage

NARROW = {
    "calls": "Requests to the model.",
    "tokens": "Of all contexts together, shared text counted once.",
    "sampled": "Tokens that the model wrote: those that can be trained.",
    "evictions": "Changes of context in which text left.",
    "leaves": "Ends of branches: contexts that no later call continues.",
}
"""Columns of sizes, and what each counts."""
ORDER = [
    *("trace", "rollout", "reward", *NARROW, "rightmost coverage", "rightmost diverging"),
    *(f"rightmost {name}" for name in triage.CLASSES),
    *(*triage.DRIFT, "verdict", "replay coverage", "replay diverging"),
    *(f"replay {name}" for name in triage.CLASSES),
]
"""Columns from left to right."""


def configured() -> dict[str, ColumnConfig]:
    """Short labels: `wrong` counts sampled tokens in a wrong context; no prefix is rightmost."""
    column, share = st.column_config.NumberColumn, st.column_config.ProgressColumn
    found: dict[str, ColumnConfig] = {
        name: column(format="localized", width=66, help=NARROW[name]) for name in NARROW
    }
    for method, prefix in (("rightmost", ""), ("replay", "replay ")):
        found[f"{method} coverage"] = share(
            f"{prefix}coverage",
            format="percent",
            min_value=0,
            max_value=1,
            width=104,
            help=f"Share of the sampled tokens that {method} trains.",
        )
        for name, label in (("diverging", "wrong"), *((name, name) for name in triage.CLASSES)):
            found[f"{method} {name}"] = column(
                prefix + label, format="localized", width=64 if not prefix else 96
            )
    for name in triage.DRIFT:
        found[name] = column(
            format="%.2f", width=72, help="Of rightmost, in nats; - is not run: see Run drift."
        )
    found["verdict"] = st.column_config.TextColumn(width=470)
    return found
