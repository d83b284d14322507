"""Small pieces that pages share. Trace text passes only through calls that show it as text."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from mwviz.analysis import Trace
from mwviz.errors import MwvizError
from mwviz_app import state
from mwviz_app.jobs import JobState

POLL = 0.5
"""Seconds between two looks at a running job; nothing is asked once it has ended."""


def show_error(error: MwvizError) -> None:
    """Says what went wrong; the message may quote a trace, so it is never read as markdown."""
    st.error("mwviz cannot show this.", icon=":material/error:")
    st.text(str(error))


def empty(why: str, what_to_do: str) -> None:
    """An empty place: why it is empty, and what fills it. Both are our words, never a trace's."""
    st.info(f"{why} {what_to_do}", icon=":material/info:")


def rollout_table(trace: Trace) -> pd.DataFrame:
    """One row a rollout of a trace: what it holds before anything is computed."""
    return pd.DataFrame(
        [
            {
                "rollout": rollout.id,
                "calls": len(rollout.calls),
                "reward": rollout.reward,
                "cache": rollout.semantics,
                "warnings": len(rollout.warnings),
            }
            for rollout in trace.rollouts
        ]
    )


def show_job(job_id: str) -> None:
    """Progress and a cancel button while a job lives; when it ends, the page runs once more."""
    job = state.job(job_id)
    if job is None:
        empty("This job is not known here.", "It may belong to an earlier start of the app.")
    elif job.live:
        _watch(job_id)
    elif job.status == "failed":
        st.error("The job failed.", icon=":material/error:")
        st.text(job.message)
    elif job.status == "cancelled":
        st.info("The job was cancelled.", icon=":material/info:")


@st.fragment(run_every=POLL)
def _watch(job_id: str) -> None:
    job = state.job(job_id)
    if job is None or not job.live:
        st.rerun()
    st.progress(job.done / job.total if job.total else 0.0, text=_progress(job))
    if st.button("Cancel", key=f"cancel-{job_id}"):
        state.worker().cancel(job_id)


def _progress(job: JobState) -> str:
    if job.status == "waiting":
        return "Waiting for the jobs before it"
    if not job.total or job.eta is None:
        return "Starting: loading the model"
    return f"{job.done:,} of {job.total:,}, about {job.eta:.0f} s left"
