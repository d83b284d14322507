"""The tables of the Debug page: all views beside one another, and every sampled token."""

from __future__ import annotations

import json

import pandas as pd
import streamlit as st

from mwviz.analysis import Analysis
from mwviz.compare import Comparison
from mwviz.display import visible
from mwviz_app import inspector, state, widgets

SHOWN = [
    "call",
    "offset",
    "text",
    "drift",
    "logprob_true",
    "logprob_view",
    "logprob_recorded",
    "gap",
    "rank_true",
    "rank_view",
    "diverging",
    "notable",
    "future",
    "erased",
    "stale",
    "foreign",
    "lost",
    "shifted",
]
NATS = ("mean |d|", "diverging mean", "max |d|", "floor")


def views(overview: pd.DataFrame) -> None:
    """One row a view: what it covers, which pairs differ, how far it drifts."""
    columns = {
        name: st.column_config.NumberColumn(name, format="%.2g", width="small") for name in NATS
    }
    coverage = st.column_config.NumberColumn("coverage", format="percent", width="small")
    st.dataframe(
        overview.drop(columns="exact"),
        hide_index=True,
        column_config={**columns, "coverage": coverage},
        alt="All views: coverage, diverging tokens, pairs by class, drift in nats",
    )
    st.caption(
        "Pairs of a sampled token and a token it sees or misses; drift d in nats over the tokens "
        "a view covers, and over those whose context differs; `multiplicity`: how often a covered "
        "token trains."
    )


def targets(analysis: Analysis, comparison: Comparison | None) -> None:
    """One row a sampled token; picking one selects it everywhere."""
    if comparison is None:
        widgets.empty("This view is not scored.", "Choose *Run on a model* above.")
        return
    texts = analysis.decoder.decode(analysis.tree.ids[analysis.tree.token])
    table = comparison.table.assign(text=[visible(text, keep="") for text in texts])
    picked = st.dataframe(
        table[SHOWN],
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        key=f"targets-{analysis.digest}",
        alt="Every sampled token with its drift and pair counts",
    )
    rows = picked["selection"]["rows"]
    if rows and state.is_new("targets", rows[0]):
        chosen = inspector.of_target(analysis, rows[0])
        state.select(chosen)
        st.rerun()
    st.download_button(
        "Download as CSV",
        lambda: csv(comparison, texts),
        f"{comparison.view.method}.csv",
        "text/csv",
        icon=":material/download:",
    )


def csv(comparison: Comparison, texts: list[str]) -> bytes:
    """The comparison with its texts; quoted as JSON, so that no program reads one as a formula."""
    quoted = [json.dumps(text, ensure_ascii=False) for text in texts]
    return comparison.table.assign(text=quoted).to_csv(index=False).encode()
