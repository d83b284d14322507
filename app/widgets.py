"""Small pieces that pages share. Trace text passes only through calls that show it as text."""

from __future__ import annotations

import streamlit as st

from mwviz.errors import MwvizError


def show_error(error: MwvizError) -> None:
    """Says what went wrong; the message may quote a trace, so it is never read as markdown."""
    st.error("mwviz cannot show this.", icon=":material/error:")
    st.text(str(error))


def empty(why: str, what_to_do: str) -> None:
    """An empty place: why it is empty, and what fills it. Both are our words, never a trace's."""
    st.info(f"{why} {what_to_do}", icon=":material/info:")
