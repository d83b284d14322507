"""All session state and caches of the app, behind typed functions.

Nothing here holds an array as a key, and no tensor ever enters the session.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import streamlit as st

from mwviz.serve import Launch
from mwviz_app.jobs import JobState, Worker


class Selection(NamedTuple):
    """What all views of a rollout have chosen together."""

    call: int
    segment: int


def launch() -> Launch:
    """What the user named on the command line of `mwviz app`."""
    return Launch.from_arguments(sys.argv)


@st.cache_resource
def worker() -> Worker:
    """The worker process of this server, shared by all sessions; it starts with the first job."""
    return Worker()


def job(job_id: str) -> JobState | None:
    """A job as it is now; None if this server does not know it."""
    return worker().state(job_id)


def selection() -> Selection | None:
    """The selection of this session; None before the first one."""
    chosen: Selection | None = st.session_state.get("selection")
    return chosen


def select(chosen: Selection | None) -> None:
    """Makes `chosen` the selection of this session."""
    st.session_state["selection"] = chosen


def sent_selection(key: str) -> Selection | None:
    """The selection that component `key` sent from the browser; None if it is not a valid one."""
    component: Any = st.session_state.get(key)
    sent = component.get("selection") if component else None
    if not isinstance(sent, dict):
        return None
    call, segment = sent.get("call"), sent.get("segment")
    if not isinstance(call, int) or not isinstance(segment, int):
        return None
    return Selection(call, segment) if call >= 0 and segment >= 0 else None
