"""Open: which traces there are, and what was read of them."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from mwviz_app import state, widgets

st.header("Open")

traces = state.traces()
if not traces:
    widgets.empty("No trace was named when the app started.", "Start it with `mwviz app FILE`.")
    st.stop()

chosen = st.selectbox("Trace file", list(traces), format_func=lambda name: traces[name].name)
trace = state.trace(chosen)
rollout = st.selectbox(
    "Rollout",
    range(len(trace.rollouts)),
    format_func=lambda index: trace.rollouts[index].id,
)
if st.button("Debug this rollout", type="primary"):
    state.open_rollout(state.Opened(chosen, rollout))
    st.switch_page("debug_page.py")

st.subheader("What was read")
st.text(f"{traces[chosen]}\nformat {trace.format}, {len(trace.rollouts):,} rollouts")
st.dataframe(widgets.rollout_table(trace), hide_index=True)

if trace.damage:
    st.subheader("What was damaged")
    st.dataframe(pd.DataFrame(trace.damage), hide_index=True)
for warning in trace.warnings:
    st.text(warning)
