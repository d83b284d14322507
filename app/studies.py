"""Jobs that look into one thing: why a token drifts, where it looks, what an eviction cost.

A study belongs to a rollout as its file is now; its result stands in the job.
"""

from __future__ import annotations

import uuid
from typing import Literal

import streamlit as st

from mwviz.causes import Causes
from mwviz.display import visible
from mwviz.errors import ModelError
from mwviz.jobs import Job
from mwviz_app import checkpoints, state
from mwviz_app.jobs import JobState
from mwviz_app.scored import Setup, name_of
from mwviz_app.state import Opened
from mwviz_app.tried import tried

Kind = Literal["causes", "attention", "undo", "distances"]
KINDS = ("causes", "attention", "undo", "distances")
NO_METHOD = "call_by_call"
"""What stands for the method where a study needs none."""


def started(opened: Opened) -> list[JobState]:
    """The studies of a rollout, oldest first, whichever session started them."""
    path, rollout = str(state.source(opened.trace).path), state.analysis(opened).rollout.id
    return [
        found
        for found in state.worker().states()
        if found.job.kind in KINDS and (found.job.trace, found.job.rollout) == (path, rollout)
    ]


def last(
    opened: Opened,
    kind: Kind,
    method: str,
    model: str | None,
    at: int | None,
    *,
    scored: str | None = None,
) -> JobState | None:
    """The last study of one thing in the tokens that are shown; None if there is none.

    Args:
        opened: the rollout.
        kind: of study.
        method: the view, or `NO_METHOD`.
        model: as `model_of` gives it.
        at: what was asked about.
        scored: name and revision of the model whose scores are shown; None takes any.
    """
    wanted = (kind, method, model, at, state.digest(opened))
    for found in reversed(started(opened)):
        job = found.job
        fits = None in (scored, job.scored) or scored == job.scored
        if fits and (job.kind, job.method, job.model, job.at, job.tokens) == wanted:
            return found
    return None


def asked(
    opened: Opened, kind: Kind, method: str, setup: Setup | None, at: int | None
) -> JobState | None:
    """The last study of one thing with the model of a setup; None if it was not asked."""
    scored = None if setup is None else setup.model
    return last(opened, kind, method, model_of(opened, setup), at, scored=scored)


def start(
    opened: Opened,
    kind: Kind,
    method: str,
    model: str | None,
    at: int | None,
    *,
    scored: str | None = None,
) -> JobState | None:
    """Queues a study unless the same one is under way or done: gives that one then.

    Args:
        opened: the rollout.
        kind: of study.
        method: the view, or `NO_METHOD`.
        model: as `model_of` gives it.
        at: what is asked about.
        scored: name and revision of the model whose scores are shown; the worker refuses another.
    """
    before = last(opened, kind, method, model, at, scored=scored)
    if before is not None and (before.live or before.status == "done"):
        return before
    job = Job(
        uuid.uuid4().hex,
        kind,
        str(state.source(opened.trace).path),
        state.analysis(opened).rollout.id,
        method,
        model,
        state.launch().device,
        at,
        tokens=state.digest(opened),
        scored=scored,
    )
    state.worker().submit(job)
    return None


def news(opened: Opened) -> list[JobState]:
    """The studies to tell of: those under way, and the last one if it failed."""
    found = started(opened)
    return [one for one in found if one.live or (one is found[-1] and one.status != "done")]


def causes(opened: Opened, view: str, setup: Setup | None, target: int | None) -> Causes | None:
    """What a model said of a target under a view; None if it was not asked."""
    if target is None:
        return None
    found = asked(opened, "causes", view, setup, target)
    done = found is not None and found.status == "done"
    return Causes.from_json(found.result) if found and done and found.result else None


def model_of(opened: Opened, setup: Setup | None) -> str | None:
    """The name under which the model of a setup is run; without one, of the model that fits best.

    None is the embedded model. Where `refusal` says that it cannot be run it is the name that its
    scores carry, which no study ran with and `start` is never given.
    """
    offered = state.models(opened)
    if setup is None:
        return offered[0]
    try:
        return checkpoints.named(name_of(setup.model), offered)
    except ModelError:
        return name_of(setup.model)


def refusal(opened: Opened, setup: Setup | None) -> str:
    """Why nothing can be asked of the model of a setup, and what to do; "" if it can."""
    if setup is None:
        return ""
    try:
        checkpoints.named(name_of(setup.model), state.models(opened))
    except ModelError as error:
        return str(error)
    return ""


def button(
    opened: Opened, label: str, kind: Kind, method: str, setup: Setup | None, at: int
) -> None:
    """Starts a study of one thing; says where it stands once it was started, or why it cannot."""
    refused = refusal(opened, setup)
    if refused:
        tell_refused(refused)
        return
    found = asked(opened, kind, method, setup, at)
    if found is not None and found.live:
        st.text("Running: see above." if found.status == "running" else "Waiting for other jobs.")
        return
    st.button(
        label,
        key=f"study-{kind}-{method}-{at}",
        icon=":material/science:",
        on_click=tried(start),
        args=(opened, kind, method, model_of(opened, setup), at),
        kwargs={"scored": None if setup is None else setup.model},
        disabled=found is not None and found.status == "done",
    )


def tell_refused(refused: str) -> None:
    """Says why nothing can be asked of the chosen model; nothing is asked of another instead."""
    st.warning("The model of these scores cannot be asked.", icon=":material/block:")
    st.text(visible(refused))
