"""The junctions of a rollout as a table, and the text that one of them took away or brought."""

from __future__ import annotations

import streamlit as st

from mwviz.analysis import Analysis
from mwviz.display import shortened, visible
from mwviz.junctions import Junction
from mwviz.trie import Longs
from mwviz_app import widgets

MOST_TEXT = 4_000
"""Characters of a text that are shown."""


def show(analysis: Analysis) -> None:
    """All junctions; the one that is picked, else the first, with its texts."""
    junctions = analysis.junction_list
    if not junctions:
        widgets.empty("Every call extends the one before it.", "Nothing was evicted here.")
        return
    table = analysis.junctions
    table.insert(len(table.columns), "inserted text", [_start(analysis, j) for j in junctions])
    picked = st.dataframe(
        widgets.shown(table.drop(columns="eviction")),
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        key=f"junctions-{analysis.digest}",
        column_config={"retained": "kept", "tokens_before": "before", "tokens_after": "after"},
        column_order=[
            "call",
            "kind",
            "tokens_before",
            "tokens_after",
            "evicted",
            "inserted",
            "retained",
            "evidence",
            "inserted text",
        ],
        alt="Changes of context, one row a junction",
    )
    rows = picked["selection"]["rows"] or [0]
    junction = junctions[min(rows[0], len(junctions) - 1)]
    if junction.depth is None:
        st.text(
            f"The provider counts {junction.evicted_tokens:,} tokens less in call "
            f"{junction.call:,}; the log does not say which."
        )
        return
    left, right = st.columns(2)
    with left:
        _text(analysis, f"Call {junction.call:,} no longer shows", junction.evicted)
    with right:
        _text(analysis, f"Call {junction.call:,} shows instead", junction.inserted)


def _text(analysis: Analysis, title: str, nodes: Longs) -> None:
    st.text(f"{title} ({len(nodes):,} tokens)")
    text = analysis.decoder.text(analysis.tree.ids[nodes[:MOST_TEXT]])
    shown = visible(shortened(text, MOST_TEXT), keep="\n\t")
    st.code(shown or "-", language=None, wrap_lines=True, height=160)


def _start(analysis: Analysis, junction: Junction) -> str:
    """The first words of what came in; a summary is the first thing that does."""
    nodes = junction.inserted[:60]
    return " ".join(analysis.decoder.text(analysis.tree.ids[nodes]).split())
