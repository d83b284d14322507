"""What a link asked this session for, what was picked since, and what a link to it needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import streamlit as st

_PICKED = "setup-picked"
"""Key of the session state."""


class Asked(NamedTuple):
    """What a link asks for of the page; it may not be there."""

    setup: str | None = None
    against: str | None = None
    junction: int | None = None


class _Picked(NamedTuple):
    setup: str
    among: tuple[str, ...]


def ask_for(wanted: Asked) -> None:
    """Has the page offer a model, an exact method and a junction first, if they are there."""
    st.session_state["asked"] = wanted
    if wanted.setup is not None:
        st.session_state.pop(_PICKED, None)
    pick_junction(wanted.junction)


def asked() -> Asked:
    """What a link asked the page for."""
    found: Asked = st.session_state.get("asked", Asked())
    return found


def pick_setup(setup: str, among: Sequence[str]) -> None:
    """Makes a model the one that is shown while the same ones are offered; all by `Setup.id`."""
    st.session_state[_PICKED] = _Picked(setup, tuple(among))


def setup(offered: Sequence[str]) -> str | None:
    """The model that was picked among these, else the one that a link asked for; by `Setup.id`."""
    picked: _Picked | None = st.session_state.get(_PICKED)
    if picked is not None and picked.among == tuple(offered):
        return picked.setup
    return asked().setup


def junction() -> int | None:
    """The change of context that is picked, by its place; None if none is."""
    picked: int | None = st.session_state.get("junction-picked")
    return picked


def pick_junction(index: int | None) -> None:
    """Makes a change of context the one that is picked."""
    st.session_state["junction-picked"] = index


def ask_link() -> None:
    """Has the browser copy the address of what it shows."""
    st.session_state["link-asked"] = link_asked() + 1


def link_asked() -> int:
    """How often a link was asked for."""
    count: int = st.session_state.get("link-asked", 0)
    return count


def sent_link(key: str) -> dict[str, str]:
    """The parts of an address that component `key` sent; those that are no text are left out."""
    component: Any = st.session_state.get(key)
    sent = component.get("link") if component else None
    if not isinstance(sent, dict):
        return {}
    return {str(name): value for name, value in sent.items() if isinstance(value, str)}
