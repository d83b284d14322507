"""Follow mode: a trace file that grows is read again, and what was selected stays selected."""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st

from mwviz.analysis import Analysis
from mwviz.errors import TraceError
from mwviz_app import kept, state
from mwviz_app.anchors import Anchor, anchored, found, translated
from mwviz_app.sources import Version, version_of
from mwviz_app.state import Opened, Selection

POLL = 2.0
"""Seconds between two looks at the file's size and time; its content is not read for that."""
KEY = "follow"
_NOTED = "noted"


class _Noted(NamedTuple):
    place: kept.Shown
    chosen: Selection | None
    anchor: Anchor | None


class Seen(NamedTuple):
    """A rollout and its file."""

    opened: Opened | None
    version: Version | None
    """None while the file is gone."""


def toggle(opened: Opened, version: Version) -> None:
    """The switch, for files that were named at the start: others do not grow.

    Args:
        opened: the rollout.
        version: its file as the page has read it.
    """
    if state.source(opened.trace).origin != "start":
        return
    if st.toggle("Follow", key=KEY, help="New calls appear as the file grows."):
        _watch(opened, version)


@st.fragment(run_every=POLL)
def _watch(opened: Opened, version: Version) -> None:
    if _now(opened) != version:
        st.rerun()  # the page says it if it is gone


def seen() -> Seen:
    """The rollout of this session and its file, before a page reads it."""
    opened = state.opened()
    return Seen(opened, _now(opened) if opened else None)


def await_change(before: Seen) -> None:
    """Where a rollout could not be shown, runs the page again once its file is another one.

    Nothing is done where the rollout can be shown, so that another file was refused, and for files
    that do not change.

    Args:
        before: what `seen` told before the page ran.
    """
    now = seen()
    if now.opened is None or state.source(now.opened.trace).origin != "start":
        return
    if before.opened != now.opened:  # the page has opened another one
        before = now
    if before == now and not _refused(now.opened):
        return
    st.caption("Once the file is there or has changed it is read again.")
    _await_change(now.opened, before.version)


def _refused(opened: Opened) -> bool:
    try:
        state.analysis(opened)
    except TraceError:
        return True
    return False


@st.fragment(run_every=POLL)
def _await_change(opened: Opened, before: Version | None) -> None:
    if _now(opened) != before:
        st.rerun()


def _now(opened: Opened) -> Version | None:
    """The file as it is; None while it is gone."""
    try:
        return version_of(state.source(opened.trace).path)
    except TraceError:
        return None


def note(opened: Opened, analysis: Analysis) -> None:
    """Remembers the selection by what stays when its file grows or its tokens are others."""
    chosen = state.selection()
    anchor = anchored(analysis, chosen) if chosen else None
    st.session_state[_NOTED] = _Noted(state.place(opened), chosen, anchor)


def resume(opened: Opened, analysis: Analysis) -> None:
    """Points the selection at the same words if the rollout is another one than it was noted in."""
    noted: _Noted | None = st.session_state.get(_NOTED)
    now = state.place(opened)
    if noted is None or noted.anchor is None or noted.place == now:
        return
    same = (noted.place.version.path, noted.place.rollout) == (now.version.path, now.rollout)
    if not same or state.selection() != noted.chosen:
        return
    if noted.place.tokens == now.tokens:
        state.select(found(analysis, noted.anchor))
    elif (chosen := translated(analysis, noted.anchor)) is not None:
        state.order(chosen)
    else:
        state.select(None)
