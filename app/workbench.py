"""The canvas workbench as one Streamlit component: a constant payload down, one selection up."""

from __future__ import annotations

import streamlit as st

from mwviz_app import state

INSPECTOR = "inspector"
"""Key of the fragment that shows the selection; a new selection reruns it and nothing else."""

_mount = st.components.v2.component("mwviz.workbench", js="index.js")


def workbench(payload: bytes, *, key: str = "workbench") -> None:
    """Draws `payload` (from `mwviz.payload.pack`); hover, zoom and pan stay in the browser.

    The page must have a `st.fragment(key=INSPECTOR)`: it is what a selection reruns.
    """
    _mount(key=key, data=payload, on_selection_change=lambda: _commit(key))


def _commit(key: str) -> None:
    chosen = state.sent_selection(key)
    if chosen is not None:
        state.select(chosen)
    st.rerun(INSPECTOR)
