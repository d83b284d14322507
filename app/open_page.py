"""Open: which traces there are, and what was read of them."""

from __future__ import annotations

import streamlit as st

from mwviz_app import state, widgets

st.header("Open")

paths = state.launch().paths

if not paths:
    widgets.empty("No trace was named when the app started.", "Start it with `mwviz app FILE`.")
for path in paths:
    st.text(path)
