"""What stands around every page: the look, the link that led here, navigation, refusals."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from mwviz.errors import MwvizError
from mwviz_app import links, widgets


def show(pages: Sequence[StreamlitPage]) -> None:
    """Runs the page that the address asks for; `pages[0]` is where another trace is opened."""
    st.set_page_config(page_title="mwviz", layout="wide")
    widgets.style()
    try:
        links.follow()
        st.navigation(list(pages), position="top").run()
    except MwvizError as error:
        widgets.show_error(error)
        st.page_link(pages[0], label="Open another trace", icon=":material/folder_open:")
