"""A page with nothing but the workbench and what it selects, on a made tree or a trace file.

`?trace=NAME` shows NAME.jsonl of the folder that the environment names, `?cache=1` a rollout whose
cache kept its entries.
"""

from __future__ import annotations

import os
from pathlib import Path

import streamlit as st

from mwviz.payload import pack, pack_contents
from mwviz.trace import load
from mwviz_app import frontend, state, workbench
from tests.browser.trees import CACHE_VIEWS, VIEWS, demo_calls, dropping_calls, unit_contents

st.set_page_config(layout="wide", page_title="workbench")
frontend.load()


@st.cache_resource
def payload(trace: str | None, calls: int, *, helper: bool, cache: bool) -> bytes:
    if trace is not None:
        return pack(load(Path(os.environ["TRACES"], f"{trace}.jsonl")).analyses[0], VIEWS, {})
    if cache:
        return pack_contents(unit_contents(dropping_calls(), CACHE_VIEWS, semantics="kv_orig"))
    return pack_contents(unit_contents(demo_calls(calls, helper=helper)))


@st.fragment(key=workbench.INSPECTOR)
def inspector() -> None:
    chosen = state.selection()
    if chosen is None:
        st.text("nothing selected")
    else:
        token = "" if chosen.target is None else f", token {chosen.target}"
        st.text(f"call {chosen.call}, segment {chosen.segment}{token}")


def show_first() -> None:
    workbench.command(state.Selection(0, 0, 3))


cache = "cache" in st.query_params
view = st.segmented_control("view", CACHE_VIEWS if cache else VIEWS, default=VIEWS[0])
grown = 5 * st.session_state.get("grown", 0)
sent = payload(
    st.query_params.get("trace"),
    int(os.environ.get("CALLS", "60")) + grown,
    helper="HELPER" in os.environ,
    cache=cache,
)
frontend.component("metric")(key="metric")
workbench.workbench(sent, view=view)
inspector()
st.button("run again")
if st.button("more calls"):
    st.session_state["grown"] = st.session_state.get("grown", 0) + 1
    st.rerun()
st.button("show token 3", on_click=show_first)
