"""Triage: every rollout there is, judged by structure alone; one click opens it in Debug."""

from __future__ import annotations

import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from mwviz_app import state, triage, widgets
from mwviz_app.state import Opened

LIMITS = (25, 100, 500, 2_000)
NARROW = ("calls", "tokens", "sampled", "evictions", "leaves")
ORDER = [
    *("trace", "rollout", "reward", *NARROW, "rightmost coverage", "rightmost diverging"),
    *(f"rightmost {name}" for name in triage.CLASSES),
    *("verdict", "replay coverage", "replay diverging"),
    *(f"replay {name}" for name in triage.CLASSES),
]


def _columns() -> dict[str, ColumnConfig]:
    """Short labels: `wrong` counts sampled tokens in a wrong context; no prefix is rightmost."""
    column, share = st.column_config.NumberColumn, st.column_config.ProgressColumn
    found: dict[str, ColumnConfig] = {name: column(format="localized", width=66) for name in NARROW}
    for method, prefix in (("rightmost", ""), ("replay", "replay ")):
        found[f"{method} coverage"] = share(
            f"{prefix}coverage", format="percent", min_value=0, max_value=1, width=104
        )
        for name, label in (("diverging", "wrong"), *((name, name) for name in triage.CLASSES)):
            found[f"{method} {name}"] = column(
                prefix + label, format="localized", width=64 if not prefix else 96
            )
    return found


st.header("Which rollout to look at")
most = st.segmented_control(
    "Rollouts judged at most", LIMITS, default=LIMITS[0], required=True, key="triage-limit"
)
limit = int(most or LIMITS[0])
judged: list[tuple[Opened | None, triage.Row]] = []
bar = st.progress(0.0, text="Judging rollouts")
for one in state.triage(limit):
    judged.append(one)
    bar.progress(len(judged) / limit, text="Judging rollouts")
bar.empty()
table = triage.table([row for _, row in judged])
wrong = int((table["rightmost diverging"] > 0).sum())
broken = sum(place is None for place, _ in judged)
st.text(
    f"rightmost trains tokens in a wrong context in {wrong:,} of {len(judged) - broken:,} rollouts"
    + (f"; {broken:,} unreadable." if broken else ".")
)
picked = st.dataframe(
    widgets.shown(table),
    hide_index=True,
    on_select="rerun",
    selection_mode="single-row",
    placeholder="-",
    height="content" if len(judged) <= LIMITS[0] else 640,
    column_order=ORDER,
    column_config={**_columns(), "verdict": st.column_config.TextColumn(width=470)},
    alt="Rollouts with their sizes and how many tokens two naive layouts train wrongly",
)
st.caption(
    "Select a row to open it in Debug. Worst first: wrong counts the sampled tokens that train in "
    "a wrong context under rightmost (and under replay, at the right end); future, erased and "
    "stale count those with at least one such key. No model is needed; drift is run in Debug."
)
if state.only_demos():
    widgets.empty("These are the demos.", "`mwviz app FOLDER` judges every trace of a folder.")
chosen = picked["selection"]["rows"]
if chosen:
    place, _ = judged[int(table.index[chosen[0]])]
    if place is None:
        st.text("This file cannot be opened: its row says why.")
    else:
        state.open_rollout(place)
        st.switch_page("debug_page.py")
