"""The canvas workbench as one Streamlit component: a constant payload down, one selection up.

What Python wants of it (another view, another selection) goes through a second, tiny component, so
that the payload is never sent again. Up go the selection, where a key chose it the view, the
address that was copied, and once that all is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from mwviz_app import frontend, links, presses, sought, state

INSPECTOR = "inspector"
"""Key of the fragment that shows the selection: on a page that is drawn, a new selection reruns it
and nothing else."""

_mount = frontend.component("workbench")
_tell = frontend.component("command")


def workbench(
    payload: bytes,
    *,
    key: str = "workbench",
    view: str | None = None,
    awaited: bool = False,
    address: Mapping[str, object] | None = None,
) -> None:
    """Draws `payload` (from `mwviz.payload.pack`); hover, zoom and pan stay in the browser.

    The page must have called `frontend.load`, and must have a `st.fragment(key=INSPECTOR)`: it is
    what a selection reruns once the page is drawn.

    Args:
        payload: sent once, and again only if it changes.
        key: one a rollout, so that each keeps its own zoom.
        view: method whose mask and drift are shown, of those in the payload; None for its first.
        awaited: whether the page is to run once more as soon as this is drawn, as it does anyway
            where the browser is told nothing else: one component less to wait for.
        address: what of an address that leads here only the page knows.
    """
    order = state.ordered()
    told: dict[str, object] = {"awaited": True} if awaited else {}
    if view is not None:
        told["view"] = view
    if address is not None:
        told |= {"address": address, "copy": sought.link_asked()}
    if order is not None:
        told["serial"] = order.serial
        if order.selection is not None:
            told["selection"] = order.selection._asdict()
        if order.sight:
            told["sight"] = dict(order.sight)
        if order.leads:
            told["leads"] = True
    _mount(
        key=key,
        data=payload,
        on_selection_change=lambda: _commit(key),
        on_view_change=lambda: _choose_view(key),
        on_drawn_change=lambda: None,  # only has the page run once more
        on_link_change=lambda: links.write(sought.sent_link(key)),
    )
    if told != {"awaited": True}:
        _tell(key=f"{key}-told", data=told)


def command(selection: state.Selection) -> None:
    """Selects for the user, in the browser too: call it in a callback, before the page runs."""
    state.order(selection)


def lead_to(selection: state.Selection) -> None:
    """As `command`, and scrolls the page to the text and to what is said of the selection."""
    state.order(selection, leads=True)


def _commit(key: str) -> None:
    """Has the card alone drawn anew, unless the page was still being drawn: that goes on then."""
    sent = state.sent_selection(key)
    if sent is not None and sent.overtakes:
        state.order(sent.selection)  # else the browser would leave it for what was ordered before
    elif sent is not None:
        state.select(sent.selection)
    if state.is_whole() and not presses.any_waits():
        st.rerun(INSPECTOR)


def _choose_view(key: str) -> None:
    """Has the picker of the page show the view that a key chose."""
    name = state.sent_view(key)
    if name is not None:
        state.set_view(name)
