"""Debug: one rollout, seen as its contexts, with one selection shared by all views."""

from __future__ import annotations

import streamlit as st

from mwviz.display import visible
from mwviz_app import state, widgets, workbench

opened = state.opened()
if opened is None:
    widgets.empty("No rollout is open.", "Choose one on the Open page.")
    st.stop()

analysis = state.analysis(opened)

workbench.workbench(state.payload(opened), key=f"workbench-{opened.trace}-{opened.rollout}")


@st.fragment(key=workbench.INSPECTOR)
def inspector() -> None:
    chosen = state.selection()
    if chosen is None:
        st.text("Click a rectangle to see its text.")
        return
    piece = workbench.segment(analysis, chosen)
    st.text(piece.sentence)
    st.code(visible(piece.text, keep="\n\t"), language=None, wrap_lines=True)


inspector()

st.subheader("Where the context changed")
if analysis.junctions.empty:
    widgets.empty("Every call extends the one before it.", "Nothing was evicted in this rollout.")
else:
    st.dataframe(analysis.junctions, hide_index=True)
