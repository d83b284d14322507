"""What stands around every page: the look, the link that led here, navigation, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn
from urllib.parse import urlsplit

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from mwviz.errors import MwvizError, TraceError
from mwviz_app import follow, links, presses, state, tried, widgets

_BARE = "bare"
"""Key of the session state: whether this run leaves the navigation out."""


def show(pages: Sequence[StreamlitPage], *, brief: Sequence[str] = ()) -> None:
    """Runs the page that the address asks for; `pages[0]` is where another trace is opened.

    Args:
        pages: those of the app.
        brief: paths of addresses whose page stops after a first picture and runs once more as soon
            as that is drawn. The browser takes as long to draw the navigation as all of that
            picture: where a session begins there it comes with the second run.
    """
    with state.drawing():
        _show(pages, brief)


def _show(pages: Sequence[StreamlitPage], brief: Sequence[str]) -> None:
    st.set_page_config(page_title="mwviz", layout="wide")
    widgets.style()
    bare = state.is_new("frame", "begun") and _path() in brief
    st.session_state[_BARE] = bare
    undone = tried.failure()
    if undone is not None:
        widgets.show_error(undone, "mwviz could not do this.")
    state.forget_gone()
    with state.once("page", _path()) as arrived:
        if arrived:
            presses.forget()
    seen = follow.seen()
    try:
        links.follow()
        st.navigation(list(pages), position="hidden" if bare else "top").run()
    except MwvizError as error:
        if str(error) != str(undone):
            widgets.show_error(error)
        if _path() != pages[0].url_path:
            st.page_link(pages[0], label="Open another trace", icon=":material/folder_open:")
        if isinstance(error, TraceError):
            follow.await_change(seen)
    if bare:
        st.rerun()


def end() -> NoReturn:
    """Ends a page before its last line, without a picture that would have it run once more."""
    if st.session_state.get(_BARE):
        st.rerun()
    st.stop()


def _path() -> str | None:
    """Which page the address names; "" is the one that opens first, None is not known."""
    url = st.context.url
    return urlsplit(url).path.strip("/") if url else None
