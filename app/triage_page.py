"""Triage: every rollout there is, judged by structure and, where it was run, by drift."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st

from mwviz.wording import counted
from mwviz_app import (
    presses,
    queues,
    runs,
    slices,
    sources,
    state,
    survey,
    triage,
    triage_columns,
    widgets,
)
from mwviz_app.state import Opened

LIMITS = (25, 100, 500, 2_000)


def _judged(limit: int) -> list[tuple[Opened | None, triage.Row]]:
    found: list[tuple[Opened | None, triage.Row]] = []
    bar = st.progress(0.0, text="Judging rollouts")
    for one in survey.rollouts(limit):
        found.append(one)
        bar.progress(len(found) / limit, text="Judging rollouts")
    bar.empty()
    return found


def _run(places: list[Opened], shown: pd.DataFrame) -> None:
    """Scores what is shown; says how long that takes before it starts."""
    model = widgets.model_picker("triage", places[0] if places else None)
    tokens = int(shown["to score"].sum())
    st.text(
        f"{counted(len(places), 'rollout')}, about {counted(tokens, 'token')} through the model "
        f"(rightmost and an exact method each): {runs.told(tokens, model)}."
    )
    st.caption(
        "Scored one after another in a process of its own; results stay on disk. The time is that "
        "of the last runs here, before the first one that of the machine that made the demos."
    )
    start = partial(runs.start_all, places, ("rightmost",), model)
    if presses.button("Run drift", "triage-pressed", start, disabled=not places):
        st.rerun()


st.header("Which rollout to look at")
with st.container(horizontal=True, vertical_alignment="bottom", key="triage-bar"):
    most = st.segmented_control(
        "Rollouts judged at most", LIMITS, default=LIMITS[0], required=True, key="triage-limit"
    )
    tools = st.container(horizontal=True, vertical_alignment="bottom")
limit = int(most or LIMITS[0])
judged = _judged(limit)
whole = triage.table([row for _, row in judged])
table = slices.filtered(whole, tools)
places = [place for index in table.index if (place := judged[int(index)][0]) is not None]
with tools.popover("Run drift", icon=":material/play_arrow:"):
    _run(places, table)
queues.show()
wrong = int((table["rightmost diverging"] > 0).sum())
broken = sum(judged[int(index)][0] is None for index in table.index)
st.text(
    f"rightmost trains tokens in a wrong context in {wrong:,} of {len(table) - broken:,} rollouts"
    + (f"; {broken:,} unreadable." if broken else ".")
)
left = survey.left_out(limit)
if any(left):
    more = []
    if left.rollouts:
        more.append(counted(left.rollouts, "more rollout") + " of the last file")
    if left.files:
        more.append(counted(left.files, "more file"))
    st.text(
        f"Not judged: {' and '.join(more)}. "
        + (
            "Raise the limit above."
            if limit < LIMITS[-1]
            else "Name a smaller folder at the start."
        )
    )
if state.is_cut():
    st.text(f"Of a folder its first {sources.MOST_TRACES:,} traces by name are offered.")
if not len(table):
    widgets.empty("No rollout fits the filter.", "Clear it, or pick other bars.")
    st.stop()
row = widgets.picked(
    widgets.shown(table),
    placeholder="-",
    height="content" if len(table) <= LIMITS[0] else 640,
    column_order=triage_columns.ORDER,
    column_config=triage_columns.configured(),
    alt="Rollouts with their sizes and how many tokens two naive layouts train wrongly",
)
st.caption(
    "Select a row to open it in Debug. Worst first: wrong counts the sampled tokens that train in "
    "a wrong context under rightmost (and under replay, at the right end); future, erased and "
    "stale count those with at least one such key. mean |d| and max |d| are the drift of rightmost "
    "in nats, over its wrong tokens and at most; '-' there: not run, Run drift above fills it."
)
if state.only_demos():
    why = "What was named at the start holds no trace. " if state.launch().paths else ""
    widgets.empty(
        f"{why}These are the demos.", "`mwviz app FOLDER` judges every trace of a folder."
    )
if row is not None:
    place, _ = judged[int(table.index[row])]
    if place is None:
        st.text("This file cannot be opened: its row says why.")
    else:
        state.open_rollout(place)
        st.switch_page("debug_page.py")
