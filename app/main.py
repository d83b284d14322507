"""Frame of the app: navigation, and the one place that shows what mwviz refuses to do."""

from __future__ import annotations

import streamlit as st

from mwviz.errors import MwvizError
from mwviz_app import links, widgets

PAGES = [
    st.Page("open_page.py", title="Open", url_path="open"),
    st.Page("triage_page.py", title="Triage", url_path="triage"),
    st.Page("debug_page.py", title="Debug", default=True),
    st.Page("train_page.py", title="Train lab", url_path="train"),
    st.Page("jobs_page.py", title="Jobs", url_path="jobs"),
    st.Page("learn_page.py", title="Learn", url_path="learn"),
    st.Page("debug_address_page.py", title="Debug", url_path="debug", visibility="hidden"),
]

st.set_page_config(page_title="mwviz", layout="wide")
widgets.style()
try:
    links.follow()
    st.navigation(PAGES, position="top").run()
except MwvizError as error:
    widgets.show_error(error)
    st.page_link(PAGES[0], label="Open another trace", icon=":material/folder_open:")
