"""Jobs that look into one thing: why a token drifts, what an eviction cost, how far a view is off.

A study belongs to a rollout as its file is now; its result stands in the job.
"""

from __future__ import annotations

import uuid
from typing import Literal

import streamlit as st

from mwviz.causes import Causes
from mwviz.worker import Job
from mwviz_app import checkpoints, state
from mwviz_app.jobs import JobState
from mwviz_app.scored import Setup, name_of
from mwviz_app.state import Opened

Kind = Literal["causes", "undo", "distances"]
KINDS = ("causes", "undo", "distances")
NO_METHOD = "call_by_call"
"""What stands for the method where a study needs none."""


def started(opened: Opened) -> list[JobState]:
    """The studies of a rollout, oldest first, whichever session started them."""
    path, rollout = str(state.traces()[opened.trace].path), state.analysis(opened).rollout.id
    return [
        found
        for found in state.worker().states()
        if found.job.kind in KINDS and (found.job.trace, found.job.rollout) == (path, rollout)
    ]


def last(
    opened: Opened, kind: Kind, method: str, model: str | None, at: int | None
) -> JobState | None:
    """The last study of one thing in the tokens that are shown; None if there is none."""
    wanted = (kind, method, model, at, state.digest(opened))
    for found in reversed(started(opened)):
        job = found.job
        if (job.kind, job.method, job.model, job.at, job.tokens) == wanted:
            return found
    return None


def start(opened: Opened, kind: Kind, method: str, model: str | None, at: int | None) -> None:
    """Queues a study unless the same one is under way or done."""
    before = last(opened, kind, method, model, at)
    if before is not None and (before.live or before.status == "done"):
        return
    job = Job(
        uuid.uuid4().hex,
        kind,
        str(state.traces()[opened.trace].path),
        state.analysis(opened).rollout.id,
        method,
        model,
        state.launch().device,
        at,
        tokens=state.digest(opened),
    )
    state.worker().submit(job)


def news(opened: Opened) -> list[JobState]:
    """The studies to tell of: those under way, and the last one if it failed."""
    found = started(opened)
    return [one for one in found if one.live or (one is found[-1] and one.status != "done")]


def causes(opened: Opened, view: str, setup: Setup | None, target: int | None) -> Causes | None:
    """What a model said of a target under a view; None if it was not asked."""
    if target is None:
        return None
    found = last(opened, "causes", view, model_of(opened, setup), target)
    done = found is not None and found.status == "done"
    return Causes.from_json(found.result) if found and done and found.result else None


def model_of(opened: Opened, setup: Setup | None) -> str | None:
    """The name under which the model of a setup is run; without one, of the model that fits best.

    None is the embedded model.
    """
    offered = state.models(opened)
    if setup is None:
        return offered[0]
    named = name_of(setup.model)
    own = (one.model for one in checkpoints.readable(offered) if one.scored_as == named)
    return next(own, offered[0])


def button(
    opened: Opened, label: str, kind: Kind, method: str, setup: Setup | None, at: int
) -> None:
    """Starts a study of one thing; says where it stands once it was started."""
    model = model_of(opened, setup)
    found = last(opened, kind, method, model, at)
    if found is not None and found.live:
        st.text("Running: see above." if found.status == "running" else "Waiting for other jobs.")
        return
    st.button(
        label,
        key=f"study-{kind}-{method}-{at}",
        icon=":material/science:",
        on_click=start,
        args=(opened, kind, method, model, at),
        disabled=found is not None and found.status == "done",
    )
