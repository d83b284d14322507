"""Open: which traces there are, and what was read of the one that was chosen."""

from __future__ import annotations

from typing import Literal

import pandas as pd
import streamlit as st

from mwviz.demos import DEMOS, STRESS
from mwviz.display import shortened, visible
from mwviz.summary import fidelity
from mwviz_app import receipt, state, whose, widgets
from mwviz_app.state import Opened

ACROSS = 4  # demos side by side; a page shows what would be a docstring

known = state.traces()
named = [trace_id for trace_id, source in known.items() if source.origin == "start"]


def is_own() -> bool:
    """Whether a trace of the user's is open: what was read of it then comes before the demos."""
    found = state.opened()
    return found is not None and known[found.trace].origin != "demo"


def demos() -> None:
    """The demos, each with what it shows; folded away where a trace of the user's is open."""
    with st.expander("Demos") if is_own() else st.container():
        _cards()


def _cards() -> None:
    offered = (*DEMOS[:2], STRESS, *DEMOS[2:])
    cards = [card for _ in range(0, len(offered), ACROSS) for card in st.columns(ACROSS)]
    for card, demo in zip(cards, offered, strict=False):
        with card.container(border=True, height="stretch", vertical_alignment="distribute"):
            st.markdown(f"**{demo.title}**  \n{demo.summary}")
            first = demo is offered[0]
            kind: Literal["primary", "secondary"] = "primary" if first else "secondary"
            if st.button("Open this demo", key=f"demo-{demo.name}", type=kind):
                if demo is STRESS:
                    state.make_stress()
                state.open_rollout(Opened(demo.name, 0))
                st.switch_page("debug_page.py")


def files() -> None:
    """What was named at the start, and a place to drop a trace."""
    left, right = st.columns(2)
    with left:
        chosen = st.selectbox(
            "Traces named when the app started",
            named,
            index=None,
            format_func=lambda trace_id: visible(known[trace_id].name, keep=""),
            placeholder="Type to search" if named else "None was named: mwviz app FILE",
            disabled=not named,
        )
        if state.is_new("named", chosen):
            state.open_rollout(Opened(str(chosen), 0))
            st.rerun()  # the demos, which may stand above, make room
    with right:
        sent = st.file_uploader("Or drop a trace: it stays on this machine")
        if sent is not None and state.is_new("upload", sent.file_id):
            state.open_rollout(Opened(state.add_upload(sent.name, sent.getvalue()), 0))
            st.rerun()


st.header("Open a rollout")
for part in (files, demos) if named else (demos, files):
    part()

opened = state.opened()
before = [kept for kept in state.recent() if kept != opened]
if before:
    st.caption("Opened before")
    for row in range(0, len(before), 3):
        for index, (column, kept) in enumerate(
            zip(st.columns(3), before[row : row + 3], strict=False), row
        ):
            with column.container(horizontal=True, vertical_alignment="center"):
                st.button("Open", key=f"r{index}", on_click=state.open_rollout, args=(kept,))
                name = state.source(kept.trace).name
                place = f", rollout {kept.rollout}" if kept.rollout else ""
                st.text(visible(shortened(name, 60) + place, keep=""))

if opened is None:
    widgets.empty("No trace is open.", "Open a demo, choose a file or drop one.")
    st.stop()

st.subheader("What was read")
source = state.source(opened.trace)
st.text(visible(source.name, keep=""))
trace = state.trace(opened.trace)
picked = widgets.picked(
    widgets.shown(receipt.rollouts(trace)),
    key=f"rollouts-{opened.trace}",
    placeholder="-",
)
rollout = min(opened.rollout if picked is None else picked, len(trace.rollouts) - 1)  # as `kept`
if rollout != opened.rollout:
    state.open_rollout(Opened(opened.trace, rollout))
analysis = trace.analyses[rollout]
st.text(f"Format {trace.format}; contexts {fidelity(analysis)}. {receipt.sentence(analysis)}")
st.text(visible(whose.told(analysis), keep=""))
if st.button("Debug this rollout", type="primary", icon=":material/bug_report:"):
    st.switch_page("debug_page.py")

st.subheader("What it cannot show")
if receipt.unknowable(trace):
    st.text(f"This format cannot tell: {receipt.unknowable(trace)}")
missing = receipt.gaps(analysis)
if len(missing):
    st.table(missing, hide_index=True, border="horizontal")
else:
    st.text("Every field that mwviz reads is recorded for every call.")
if trace.damage:
    st.subheader("What was damaged")
    st.dataframe(widgets.shown(pd.DataFrame(trace.damage)), hide_index=True)
for scope, texts in receipt.warned(trace, rollout).items():
    for warning in texts:
        st.text(f"Warning {scope}: {visible(warning)}")
