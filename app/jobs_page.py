"""Jobs: everything the worker was asked to run, whoever asked; cancel, reasons."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from mwviz.wording import counted
from mwviz_app import checkpoints, queues, state, widgets

MOST_ROWS = 15  # jobs shown before the table scrolls; a page shows what would be a docstring

st.header("Jobs")
jobs = state.worker().states()
if not jobs:
    widgets.empty("Nothing was run.", "Choose *Run on a model* on the Debug page.")
    st.stop()

live = [job for job in jobs if job.live]
many = counted(len(jobs), "job")
st.text(f"{many}, {len(live):,} of them waiting or running; they run one at a time.")
queues.show()

newest = jobs[::-1]
table = pd.DataFrame(
    [
        {
            "state": job.status,
            "what": widgets.title(job),
            "rollout": job.job.rollout,
            "trace": Path(job.job.trace).name,
            "model": checkpoints.shown(job.job.model),
            "device": job.job.device or "automatic",
            "done": job.done / job.total if job.total else None,
            "why it failed": job.message.strip().rsplit("\n", 1)[-1],
        }
        for job in newest
    ]
)
row = widgets.picked(
    widgets.shown(table),
    placeholder="-",
    height="content" if len(jobs) <= MOST_ROWS else 560,
    column_config={
        "done": st.column_config.ProgressColumn(format="percent", min_value=0, max_value=1)
    },
    alt="Jobs, the newest first",
)
st.caption("Results are kept on disk: the same run answers at once. Select a row for more.")
if row is not None:
    job = newest[row]
    if job.status == "waiting":
        st.button("Cancel", on_click=state.cancel, args=([job],), icon=":material/cancel:")
    elif not job.live:
        widgets.show_jobs([job])
    place = state.place_of(job)
    if job.job.plan is not None:
        st.page_link("train_page.py", label="Open the train lab", icon=":material/science:")
    elif place is None:
        widgets.empty(
            "The trace was dropped into another tab, has changed or is gone.",
            "Drop it once more on the Open page, or start the app with it.",
        )
    elif st.button("Debug this rollout", type="primary", icon=":material/bug_report:"):
        state.open_rollout(place)
        st.switch_page("debug_page.py")
