"""What stands around every page: the look, the link that led here, navigation, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

import streamlit as st
from streamlit.navigation.page import StreamlitPage
from streamlit.runtime.scriptrunner import StopException

from mwviz.errors import MwvizError
from mwviz_app import links, state, widgets


def show(pages: Sequence[StreamlitPage], *, brief: Sequence[str] = ()) -> None:
    """Runs the page that the address asks for; `pages[0]` is where another trace is opened.

    Args:
        pages: those of the app.
        brief: paths of addresses whose page runs once more as soon as its first picture is drawn
            (`state.expect_drawn`). The browser takes longer to draw the navigation than all else of
            that picture: where a session begins there it comes with the second run.
    """
    st.set_page_config(page_title="mwviz", layout="wide")
    widgets.style()
    bare = state.is_fresh() and _path() in brief
    try:
        links.follow()
        st.navigation(list(pages), position="hidden" if bare else "top").run()
    except MwvizError as error:
        widgets.show_error(error)
        st.page_link(pages[0], label="Open another trace", icon=":material/folder_open:")
    except StopException:
        if bare and not state.expects_drawn():
            st.rerun()
        raise
    if bare:
        st.rerun()


def _path() -> str | None:
    """Which page the address names; "" is the one that opens first, None is not known."""
    url = st.context.url
    return urlsplit(url).path.strip("/") if url else None
