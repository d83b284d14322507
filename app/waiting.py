"""Asks a study of one place; where the model has to read the rollout first, behind that run.

A model reads messages in tokens of its own, which are known once it has run: the place is then
found again by its words.
"""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st

from mwviz.analysis import Analysis
from mwviz.rendering import NEUTRAL
from mwviz_app import anchors, cards, runs, state, studies, whatif, whose, widgets
from mwviz_app.anchors import Anchor
from mwviz_app.scored import Setup
from mwviz_app.state import Opened
from mwviz_app.tried import tried

NEEDED = "This log holds messages only: the model reads all of it first, then this is asked."
AGAIN = "Run the model on the rollout, then ask again"
BUSY = "Another question on this rollout waits for its run: ask this one after that."
NOT_RUN = "The run that your question waited for did not end well, so it was not asked."
ELSEWHERE = "The model has run, but other tokens than its are shown: choose those and ask again."
ANSWERED = "This was asked before: its answer stands with the token."
UNDER_WAY = "This is being asked already: how far it is stands below the buttons."
REFUSED = "Nothing was asked: below the buttons stands why the model of these scores cannot be."
SELECT = "Select a sampled token first: click one in the text or in the drift strip."
PLACED: tuple[studies.Kind, ...] = ("causes", "attention", "undo")
"""Studies of one place, which is found again in the tokens of a model."""
_WAITING = "studies-waiting"
"""Key of what waits, one question a rollout."""


class _Study(NamedTuple):
    kind: studies.Kind
    method: str
    model: str | None
    anchor: Anchor | None
    """The token that is asked about; None if the study is of a change of context."""
    call: int
    """The call of the token, or the one that the change of context stands before."""
    run: str = ""
    """The method that is run for it; "" while none is."""


def is_needed(analysis: Analysis, setup: Setup | None) -> bool:
    """Whether no model has read the messages in the tokens that are shown."""
    return setup is None and analysis.encoding.rendering == NEUTRAL


@tried
def ask_causes(opened: Opened, analysis: Analysis, view: str, setup: Setup | None) -> None:
    """Asks a model about the selected token; says why if there is nothing to ask."""
    target = cards.target_of(analysis, state.selection())
    if target is None:
        st.toast(SELECT)
    elif not analysis.view(view).multiplicity[target]:
        st.toast("This view does not train that token: there is nothing to explain.")
    else:
        _ask(opened, analysis, "causes", view, setup, target)


@tried
def ask_attention(opened: Opened, analysis: Analysis, view: str, setup: Setup | None) -> None:
    """Asks a model where the selected token looks; the page has asked whether it can be."""
    target = cards.target_of(analysis, state.selection())
    if target is not None:
        _ask(opened, analysis, "attention", view, setup, target)


@tried
def ask_undo(opened: Opened, analysis: Analysis, setup: Setup | None) -> None:
    """Asks a model what the last eviction before the selected token cost it."""
    target = cards.target_of(analysis, state.selection())
    if target is None:
        st.toast(SELECT)
        return
    index = whatif.eviction_before(analysis, target)
    if index is None:
        st.toast(whatif.refusal(analysis, target))
    else:
        _ask(opened, analysis, "undo", studies.NO_METHOD, setup, index)


def undo_button(
    opened: Opened, analysis: Analysis, label: str, setup: Setup | None, index: int
) -> None:
    """Asks a model what one change of context cost."""
    if not is_needed(analysis, setup):
        studies.button(opened, label, "undo", studies.NO_METHOD, setup, index)
        return
    st.caption(NEEDED)
    model = studies.model_of(opened, setup)
    study = _study(analysis, "undo", studies.NO_METHOD, model, index)
    st.button(
        label,
        key=f"study-undo-{index}",
        icon=":material/science:",
        on_click=_run_first,
        args=(opened, study),
        disabled=_waits(opened) is not None,
    )


def offer_run(opened: Opened, analysis: Analysis) -> None:
    """Offers to run the model of the last study if that was not asked in the model's tokens."""
    found = studies.started(opened)
    if not found or not found[-1].unread or _waits(opened):
        return
    job = found[-1].job
    if job.at is None or job.tokens != state.digest(opened):
        return
    kind = next((one for one in PLACED if one == job.kind), None)
    if kind is None:
        return
    study = _study(analysis, kind, job.method, job.model, job.at)
    icon = ":material/play_arrow:"
    st.button(AGAIN, icon=icon, on_click=_run_first, args=(opened, study))


def resume(opened: Opened, analysis: Analysis) -> None:
    """Starts what waits for a run of this rollout once that has ended; says so if it cannot.

    Args:
        opened: the rollout in the tokens that are shown.
        analysis: of it.
    """
    study = _waits(opened)
    if study is None:
        return
    if any(one.live for one in state.jobs_of(opened) if one.job.model == study.model):
        return
    del _waiting()[opened.plain]
    # The model's runs of other methods may be from before its checkpoint was trained on.
    key = runs.left_by(opened, study.run, study.model)
    at = _place(analysis, study)
    if key is None:
        st.toast(NOT_RUN)
    elif key.trace != state.digest(opened):
        st.toast(ELSEWHERE)
    elif at is None:
        st.toast("The model has run; what you asked about is not in its tokens.")
    else:
        studies.start(opened, study.kind, study.method, study.model, at, scored=key.model)


def tell(opened: Opened, setup: Setup | None) -> None:
    """Says that a question waits, while it does, and why the chosen model cannot be asked."""
    refused = studies.refusal(opened, setup)
    if refused:
        studies.tell_refused(refused)
    if _waits(opened) is not None:
        widgets.empty("Your question waits for the run above.", "It is asked once that has ended.")


def _ask(
    opened: Opened, analysis: Analysis, kind: studies.Kind, view: str, setup: Setup | None, at: int
) -> None:
    """Starts a study, or has the model read the messages first; never asks another model."""
    model = studies.model_of(opened, setup)
    if studies.refusal(opened, setup):
        st.toast(REFUSED)
    elif is_needed(analysis, setup):
        _run_first(opened, _study(analysis, kind, view, model, at))
    else:
        scored = None if setup is None else setup.model
        before = studies.start(opened, kind, view, model, at, scored=scored)
        if before is not None:
            st.toast(UNDER_WAY if before.live else ANSWERED)


def _study(
    analysis: Analysis, kind: studies.Kind, method: str, model: str | None, at: int
) -> _Study:
    """A study of a token or a change of context, to be found again in other tokens."""
    if kind == "undo":
        return _Study(kind, method, model, None, analysis.junction_list[at].call)
    chosen = cards.of_target(analysis, at)
    return _Study(kind, method, model, anchors.anchored(analysis, chosen), chosen.call)


@tried
def _run_first(opened: Opened, study: _Study) -> None:
    if _waits(opened) is not None:
        st.toast(BUSY)
        return
    run = next(iter(runs.queue_of(opened, (state.view(),))), "")
    _waiting()[opened.plain] = study._replace(run=run)
    whose.follow_runs()
    runs.start(opened, (state.view(),), study.model)


def _waits(opened: Opened) -> _Study | None:
    return _waiting().get(opened.plain)


def _waiting() -> dict[Opened, _Study]:
    """What waits, by rollout in the tokens of its trace."""
    found: dict[Opened, _Study] = st.session_state.setdefault(_WAITING, {})
    return found


def _place(analysis: Analysis, study: _Study) -> int | None:
    if study.anchor is not None:
        return cards.target_of(analysis, anchors.translated(analysis, study.anchor))
    changes = analysis.junction_list
    return next((i for i, change in enumerate(changes) if change.call == study.call), None)
