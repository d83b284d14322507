"""A page with nothing but the workbench and its inspector, on a made tree."""

from __future__ import annotations

import os

import streamlit as st

from mwviz.payload import pack
from mwviz_app import state, workbench
from tests.browser.trees import demo_calls, unit_tree, word

st.set_page_config(layout="wide", page_title="workbench")


@st.cache_resource
def payload(calls: int, *, helper: bool) -> bytes:
    return pack(unit_tree(demo_calls(calls, helper=helper)), word)


@st.fragment(key=workbench.INSPECTOR)
def inspector() -> None:
    chosen = state.selection()
    st.text(f"call {chosen.call}, segment {chosen.segment}" if chosen else "nothing selected")


workbench.workbench(payload(int(os.environ.get("CALLS", "60")), helper="HELPER" in os.environ))
inspector()
st.button("run again")
