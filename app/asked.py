"""What numbers this session asked to see: two scorings to subtract, and one to colour by."""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st

from mwviz_app import serials
from mwviz_app.scored import Chosen
from mwviz_app.state import Opened

COMPARED, SHOWN, WANTED = "compared", "number-shown", "compared-by-link"
AWAITED = "compared-once-scored"
"""Keys of the session state."""
DECK, TAB = "deck", "B - A"
"""Key of the tabs of the Debug page, and the one that subtracts."""


class Shown(NamedTuple):
    """A number that the workbench is to colour by from now on."""

    kind: str
    serial: int
    """Grows with each: the same number may be asked for again."""


class Sides(NamedTuple):
    """Two models that are to be compared under one view, by the names that scores carry."""

    a: str
    b: str
    view: str


def compare(opened: Opened, chosen: Chosen) -> bool:
    """Keeps what is subtracted for a rollout; True if it is another choice than before."""
    fresh = compared(opened) != chosen
    st.session_state[COMPARED] = (opened, chosen)
    return fresh


def compared(opened: Opened) -> Chosen | None:
    """What is subtracted for a rollout; None if nothing was chosen for it."""
    kept: tuple[Opened, Chosen] | None = st.session_state.get(COMPARED)
    return kept[1] if kept is not None and kept[0] == opened else None


def want(opened: Opened, told: str) -> None:
    """Has the tab B - A opened on what an address names for a rollout, by `Chosen.id`."""
    st.session_state[WANTED] = (opened.plain, told)
    st.session_state[DECK] = TAB


def wanted(opened: Opened) -> str | None:
    """What an address asked to be compared of a rollout, until `settle`."""
    kept: tuple[Opened, str] | None = st.session_state.get(WANTED)
    return kept[1] if kept is not None and kept[0] == opened.plain else None


def settle() -> None:
    """Forgets what an address asked to be compared: the pickers show it."""
    st.session_state.pop(WANTED, None)


def await_models(opened: Opened, sides: Sides) -> None:
    """Has the tab B - A opened on two models that are being run on a rollout."""
    st.session_state[AWAITED] = (opened.plain, sides)
    st.session_state.pop(WANTED, None)
    st.session_state[DECK] = TAB


def awaited(opened: Opened) -> Sides | None:
    """What is to be compared of a rollout once it is scored, until `arrived`."""
    kept: tuple[Opened, Sides] | None = st.session_state.get(AWAITED)
    return kept[1] if kept is not None and kept[0] == opened.plain else None


def arrived() -> None:
    """Forgets what is to be compared: the pickers show it, or it did not come."""
    st.session_state.pop(AWAITED, None)


def show(kind: str) -> None:
    """Has the workbench colour by a number."""
    before = shown()
    st.session_state[SHOWN] = Shown(kind, serials.after(before and before.serial))


def shown() -> Shown | None:
    """The number that was asked for last; None if the browser chooses."""
    last: Shown | None = st.session_state.get(SHOWN)
    return last
