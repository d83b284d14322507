"""Filters of the triage: bars of small histograms that are picked, kept under a name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mwviz.display import shortened, visible
from mwviz.figures.bars import bars_figure, told_range
from mwviz_app import memory, triage, widgets

CHARTS = {
    "rightmost diverging": "tokens in a wrong context",
    "rightmost coverage": "coverage",
    "evictions": "evictions",
    "tokens": "tokens",
    "max |d|": "largest |drift|, nats",
}
"""Columns with a histogram, and what it says above it."""
WHOLE = ("rightmost diverging", "evictions", "tokens")
LEAST = 3
"""Rows below which there is nothing to filter."""
LONGEST = 40
"""Characters of a slice's name."""
_FILTER, _ROUND = "triage-filter", "triage-round"


def filtered(whole: pd.DataFrame, tools: DeltaGenerator) -> pd.DataFrame:
    """The rows that fit the picked bars; draws the histograms, and the slices into `tools`."""
    if len(whole) < LEAST:
        return whole
    ranges: dict[str, tuple[float, float]] = st.session_state.setdefault(_FILTER, {})
    with tools.popover("Slices", icon=":material/filter_alt:"):
        _saved(ranges)
    shown = [name for name in CHARTS if whole[name].notna().any()]
    with st.container(key="histograms"):
        for column, name in zip(st.columns(len(shown)), shown, strict=True):
            with column:
                _histogram(whole, name, ranges)
    st.caption("How many rollouts have how much of each. A click on a bar keeps those rollouts.")
    if ranges:
        with st.container(horizontal=True, vertical_alignment="center"):
            told = (
                f"{CHARTS[name]} {told_range(low, high, whole=name in WHOLE)}"
                for name, (low, high) in ranges.items()
            )
            st.text("Shown: " + "; ".join(told))
            st.button("Clear", icon=":material/close:", on_click=use, args=({},))
    return triage.within(whole, ranges)


def use(ranges: triage.Ranges) -> None:
    """Makes a filter the one of this session."""
    st.session_state[_FILTER] = {name: ranges[name] for name in CHARTS if name in ranges}
    st.session_state[_ROUND] = int(st.session_state.get(_ROUND, 0)) + 1


def _histogram(whole: pd.DataFrame, name: str, ranges: dict[str, tuple[float, float]]) -> None:
    integers = name in WHOLE
    at = triage.edges(whole[name], whole=integers)
    values = pd.to_numeric(whole[name], errors="coerce").to_numpy(dtype=np.float64)
    figure = bars_figure(
        values,
        at,
        CHARTS[name],
        picked=ranges.get(name),
        whole=integers,
        theme=widgets.theme(),
    )
    key = f"bars-{name}-{st.session_state.get(_ROUND, 0)}"
    event = st.plotly_chart(
        figure,
        theme=None,
        key=key,
        on_select="rerun",
        selection_mode="points",
        config={"displayModeBar": False},
        alt=f"Histogram of {CHARTS[name]}; a click on a bar filters the table",
    )
    picked = event["selection"]["point_indices"] if event else []
    found = triage.chosen_range(picked, at)
    if found is not None and ranges.get(name) != found:
        use({**ranges, name: found})
        st.rerun()


def _saved(ranges: dict[str, tuple[float, float]]) -> None:
    """Named filters: use one, keep the present one, forget one."""
    held = memory.slices()
    for number, (name, kept) in enumerate(held.items()):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.text(visible(shortened(name, LONGEST), keep=""))
            st.button("Use", key=f"use-{number}", on_click=use, args=(kept,))
            st.button("Forget", key=f"forget-{number}", on_click=memory.save_slice, args=(name, {}))
    if not held:
        st.caption("No slice is kept yet: pick bars of the histograms, then give them a name.")
    name = st.text_input("Name", max_chars=LONGEST, placeholder="long and leaking")
    if st.button("Keep what is picked", disabled=not ranges) and name.strip():
        memory.save_slice(name.strip(), dict(ranges))
        st.rerun()
