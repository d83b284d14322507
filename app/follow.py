"""Follow mode: a trace file that grows is read again, and what was selected stays selected."""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st

from mwviz.analysis import Analysis
from mwviz_app import cards, state
from mwviz_app.sources import Version, version_of
from mwviz_app.state import Opened, Selection

POLL = 2.0
"""Seconds between two looks at the file's size and time; its content is not read for that."""
KEY = "follow"
_NOTED = "noted"


class Anchor(NamedTuple):
    """A selection by what does not move when calls are added."""

    call: int
    position: int
    """Place of the segment's first token in the context of the call."""
    target: int | None
    """Targets are numbered by call: later calls leave the numbers of earlier ones."""


def toggle(opened: Opened, version: Version) -> None:
    """The switch, for files that were named at the start: others do not grow.

    Args:
        opened: the rollout.
        version: its file as the page has read it.
    """
    if state.traces()[opened.trace].origin != "start":
        return
    if st.toggle("Follow", key=KEY, help="New calls appear as the file grows."):
        _watch(opened, version)


@st.fragment(run_every=POLL)
def _watch(opened: Opened, version: Version) -> None:
    if version_of(state.traces()[opened.trace].path) != version:
        st.rerun()


def note(version: Version, analysis: Analysis) -> None:
    """Remembers the selection by what does not move when its file grows."""
    chosen = state.selection()
    st.session_state[_NOTED] = (version, _anchor(analysis, chosen) if chosen else None)


def resume(version: Version, analysis: Analysis) -> None:
    """Points the selection at the same tokens if the file has grown since it was noted."""
    noted: tuple[Version, Anchor | None] | None = st.session_state.get(_NOTED)
    if noted is None or noted[0] == version or noted[0].path != version.path:
        return
    if noted[1] is not None:
        state.select(_at(analysis, noted[1]))


def _anchor(analysis: Analysis, chosen: Selection) -> Anchor | None:
    tree = analysis.tree
    if chosen.call >= len(tree.tip) or chosen.segment >= len(tree.start):
        return None
    return Anchor(chosen.call, int(tree.depth[chosen.segment]), chosen.target)


def _at(analysis: Analysis, anchor: Anchor) -> Selection | None:
    tree = analysis.tree
    if anchor.target is not None and anchor.target < len(tree.token):
        return cards.of_target(analysis, anchor.target)
    if anchor.call >= len(tree.tip):
        return None
    context = tree.context(anchor.call)
    if not len(context):
        return None
    node = context[min(anchor.position, len(context) - 1)]
    return Selection(anchor.call, int(tree.segment_of(node)))
