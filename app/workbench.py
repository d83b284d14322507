"""The canvas workbench as one Streamlit component: a constant payload down, one selection up.

What Python wants of it (another view, another selection) goes through a second, tiny component, so
that the payload is never sent again. Up go the selection and, where a key chose it, the view.
"""

from __future__ import annotations

import streamlit as st

from mwviz_app import links, state

INSPECTOR = "inspector"
"""Key of the fragment that shows the selection; a new selection reruns it and nothing else."""


_mount = st.components.v2.component("mwviz.workbench", js="index.js")
_tell = st.components.v2.component("mwviz.command", js="command.js")


def workbench(payload: bytes, *, key: str = "workbench", view: str | None = None) -> None:
    """Draws `payload` (from `mwviz.payload.pack`); hover, zoom and pan stay in the browser.

    The page must have a `st.fragment(key=INSPECTOR)`: it is what a selection reruns.

    Args:
        payload: sent once, and again only if it changes.
        key: one a rollout, so that each keeps its own zoom.
        view: method whose mask and drift are shown, of those in the payload; None for its first.
    """
    order = state.ordered()
    told: dict[str, object] = {} if view is None else {"view": view}
    opened = state.opened()
    if opened is not None:
        told["trace"] = links.trace_id(opened)
    if order is not None:
        told |= {"serial": order.serial, "selection": order.selection._asdict()}
    _mount(
        key=key,
        data=payload,
        on_selection_change=lambda: _commit(key),
        on_view_change=lambda: _choose_view(key),
    )
    _tell(key=f"{key}-told", data=told)


def command(selection: state.Selection) -> None:
    """Selects for the user, in the browser too: call it in a callback, before the page runs."""
    state.order(selection)


def _commit(key: str) -> None:
    chosen = state.sent_selection(key)
    if chosen is not None:
        state.select(chosen)
    st.rerun(INSPECTOR)


def _choose_view(key: str) -> None:
    """Has the picker of the page show the view that a key chose."""
    name = state.sent_view(key)
    if name is not None:
        state.set_view(name)
