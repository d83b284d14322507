"""The queue of the worker on a page: what runs, how much waits, and an end to all of it."""

from __future__ import annotations

import streamlit as st

from mwviz.wording import counted
from mwviz_app import state, widgets


def show() -> None:
    """The job that runs, with its progress, and how many wait; nothing while nothing runs."""
    live = [job for job in state.worker().states() if job.live]
    widgets.show_jobs([job for job in live if job.status == "running"])
    if len(live) > 1:
        with st.container(horizontal=True, vertical_alignment="center"):
            many = sum(job.status == "waiting" for job in live)
            st.text(f"{counted(many, 'job waits', 'jobs wait')} behind it.")
            st.button("Cancel all", on_click=state.cancel, args=(live,), icon=":material/cancel:")
