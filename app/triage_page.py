"""Triage: every rollout there is, judged by structure and, where it was run, by drift."""

from __future__ import annotations

import pandas as pd
import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from mwviz.wording import counted, duration
from mwviz_app import slices, state, survey, triage, widgets
from mwviz_app.state import Opened

LIMITS = (25, 100, 500, 2_000)
NARROW = {
    "calls": "Requests to the model.",
    "tokens": "Of all contexts together, shared text counted once.",
    "sampled": "Tokens that the model wrote: those that can be trained.",
    "evictions": "Changes of context in which text left.",
    "leaves": "Ends of branches: contexts that no later call continues.",
}  # columns of sizes, and what each counts; a page shows what would be a docstring
ORDER = [
    *("trace", "rollout", "reward", *NARROW, "rightmost coverage", "rightmost diverging"),
    *(f"rightmost {name}" for name in triage.CLASSES),
    *(*triage.DRIFT, "verdict", "replay coverage", "replay diverging"),
    *(f"replay {name}" for name in triage.CLASSES),
]


def _columns() -> dict[str, ColumnConfig]:
    """Short labels: `wrong` counts sampled tokens in a wrong context; no prefix is rightmost."""
    column, share = st.column_config.NumberColumn, st.column_config.ProgressColumn
    found: dict[str, ColumnConfig] = {
        name: column(format="localized", width=66, help=NARROW[name]) for name in NARROW
    }
    for method, prefix in (("rightmost", ""), ("replay", "replay ")):
        found[f"{method} coverage"] = share(
            f"{prefix}coverage",
            format="percent",
            min_value=0,
            max_value=1,
            width=104,
            help=f"Share of the sampled tokens that {method} trains.",
        )
        for name, label in (("diverging", "wrong"), *((name, name) for name in triage.CLASSES)):
            found[f"{method} {name}"] = column(
                prefix + label, format="localized", width=64 if not prefix else 96
            )
    for name in triage.DRIFT:
        found[name] = column(format="%.2f", width=72)
    return found


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
    seconds = survey.seconds_for(tokens, model)
    told = "known once one was run" if seconds is None else duration(seconds)
    st.text(
        f"{counted(len(places), 'rollout')}, about {counted(tokens, 'token')} through the model "
        f"(rightmost and an exact method each): {told}."
    )
    st.caption(
        "Scored one after another in a process of its own; results stay on disk. The time is that "
        "of the last runs here, before the first one that of the machine that made the demos."
    )
    if st.button("Run drift", type="primary", disabled=not places):
        for place in places:
            state.run(place, ("rightmost",), model)
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
live = [job for job in state.worker().states() if job.live]
widgets.show_jobs([job for job in live if job.status == "running"])
wrong = int((table["rightmost diverging"] > 0).sum())
broken = sum(judged[int(index)][0] is None for index in table.index)
st.text(
    f"rightmost trains tokens in a wrong context in {wrong:,} of {len(table) - broken:,} rollouts"
    + (f"; {broken:,} unreadable." if broken else ".")
)
if not len(table):
    widgets.empty("No rollout fits the filter.", "Clear it, or pick other bars.")
    st.stop()
row = widgets.picked(
    widgets.shown(table),
    placeholder="-",
    height="content" if len(table) <= LIMITS[0] else 640,
    column_order=ORDER,
    column_config={**_columns(), "verdict": st.column_config.TextColumn(width=470)},
    alt="Rollouts with their sizes and how many tokens two naive layouts train wrongly",
)
st.caption(
    "Select a row to open it in Debug. Worst first: wrong counts the sampled tokens that train in "
    "a wrong context under rightmost (and under replay, at the right end); future, erased and "
    "stale count those with at least one such key. mean |d| and max |d| are the drift of rightmost "
    "in nats, over its wrong tokens and at most; '-' means not run."
)
if state.only_demos():
    widgets.empty("These are the demos.", "`mwviz app FOLDER` judges every trace of a folder.")
if row is not None:
    place, _ = judged[int(table.index[row])]
    if place is None:
        st.text("This file cannot be opened: its row says why.")
    else:
        state.open_rollout(place)
        st.switch_page("debug_page.py")
