"""Where an address points in a rollout, and what to do where it counts in tokens that are not here.

Such a place cannot be shown: the page says so and offers the run that makes it known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import streamlit as st

from mwviz.analysis import Analysis
from mwviz_app import checkpoints, runs, state, whose, widgets
from mwviz_app.scored import id_of
from mwviz_app.state import Opened, Selection
from mwviz_app.tried import tried

UNREAD = (
    "This link counts in the tokens of a model, which reads these messages in its own chat "
    "template. It has not read them here, so call, token and zoom of the link mean other places in "
    "what is shown."
)
RUN = "Run that model and go there"
OTHER = (
    "This link counts in other tokens than those in which the model reads these messages here: its "
    "chat template, its revision or the log differs. Call, token and zoom are not followed."
)
PANES = ("mask", "text", "drift")
"""Of the workbench, of which a narrow window shows one."""
ZOOMED = {"m": "mask", "d": "drift"}
"""Panes by what names their zoom in an address."""
_POINTS = "points-into"


class Place(NamedTuple):
    """What an address points at."""

    call: int | None
    token: int | None
    """Place in the call."""
    sight: Mapping[str, str]
    """What the browser is to show."""

    @property
    def pane(self) -> str | None:
        """The pane to show where only one is in sight; None if the link needs none of them."""
        sight = self.sight
        if "p" in sight:
            return sight["p"]
        if self.call is not None or "sel" in sight:
            return "text"
        zoomed = [ZOOMED[part[0]] for part in sight.get("z", "").split("_") if part[:1] in ZOOMED]
        return "mask" if "k" in sight else next(iter(zoomed), None)


class _Unread(NamedTuple):
    opened: Opened
    """In the tokens of its trace."""
    tokens: str
    """`Tokens.id` of those that the place counts in."""
    place: Place | None
    """None once the model was seen to read other tokens: it is never gone to."""
    chosen: Selection | None
    """What was selected when the link was followed."""

    @property
    def model(self) -> str:
        """Id of the model whose tokens the place counts in."""
        return self.tokens.partition("-")[0]


def go(opened: Opened, place: Place) -> None:
    """Selects the place and has the browser show it; the rollout in the tokens it counts in."""
    chosen = None
    if place.call is not None:
        chosen = selection(state.analysis(opened), place.call, place.token)
    if chosen is not None or place.sight:
        pane = place.pane
        state.order(chosen, place.sight if pane is None else {**place.sight, "p": pane})


def hold(opened: Opened, tokens: str, place: Place) -> None:
    """Keeps a place until a model has read the rollout in the tokens that it counts in."""
    st.session_state[_POINTS] = _Unread(opened.plain, tokens, place, state.selection())


def drop() -> None:
    """Forgets the place that was kept: another link is followed."""
    st.session_state.pop(_POINTS, None)


def resume(opened: Opened, chosen: Selection | None) -> None:
    """Goes to the place that was kept for the tokens that are shown now.

    Args:
        opened: the rollout in these tokens.
        chosen: what was selected before they were shown; if that is not what was selected when the
            link was followed, the user has gone elsewhere since, and the place is forgotten.
    """
    kept = _held(opened)
    if kept is None or opened.tokens is None:
        return
    if opened.tokens.id == kept.tokens:
        drop()
        if kept.place is not None and chosen == kept.chosen:
            go(opened, kept.place)
    elif _is_of(opened, kept):
        st.session_state[_POINTS] = kept._replace(place=None)


def tell(opened: Opened) -> None:
    """Says where the link points, and offers the run that is needed for it."""
    kept = _held(opened)
    if kept is None:
        return
    if kept.place is None:
        widgets.empty(OTHER, "The rest of the link is shown.")
        return
    offered = [
        one.model
        for one in checkpoints.readable(state.models(opened))
        if id_of(one.scored_as) == kept.model
    ]
    if not offered:
        widgets.empty(UNREAD, "That model is not offered here: name it when the app is started.")
        return
    widgets.empty(UNREAD, "Run it to be led there.")
    running = any(job.live for job in state.jobs_of(opened))
    st.button(
        RUN,
        icon=":material/play_arrow:",
        on_click=_run,
        args=(opened, offered[0]),
        disabled=running,
    )


def selection(analysis: Analysis, call: int, token: int | None) -> Selection | None:
    """The token of a call, the end of the call if it has no such token; None without the call."""
    tree = analysis.tree
    if not 0 <= call < len(tree.tip) or tree.tip[call] < 0:
        return None
    found = np.flatnonzero((tree.call == call) & (tree.offset == (-1 if token is None else token)))
    if len(found):
        target = int(found[0])
        return Selection(call, int(tree.segment_of(tree.token[target])), target)
    return Selection(call, int(tree.segment_of(tree.tip[call])))


def _held(opened: Opened) -> _Unread | None:
    found: _Unread | None = st.session_state.get(_POINTS)
    return found if found is not None and found.opened == opened.plain else None


def _is_of(opened: Opened, kept: _Unread) -> bool:
    """Whether the tokens that are shown are of the model whose tokens the place counts in."""
    return opened.tokens is not None and opened.tokens.id.startswith(f"{kept.model}-")


@tried
def _run(opened: Opened, model: str | None) -> None:
    whose.follow_runs()
    runs.start(opened, (state.view(),), model)
