"""The app: its pages."""

from __future__ import annotations

import streamlit as st

from mwviz_app import frame

frame.show(
    [
        st.Page("open_page.py", title="Open", url_path="open"),
        st.Page("triage_page.py", title="Triage", url_path="triage"),
        st.Page("debug_page.py", title="Debug", default=True),
        st.Page("train_page.py", title="Train lab", url_path="train"),
        st.Page("jobs_page.py", title="Jobs", url_path="jobs"),
        st.Page("learn_page.py", title="Learn", url_path="learn"),
        st.Page("debug_address_page.py", title="Debug", url_path="debug", visibility="hidden"),
    ],
    brief=("",),
)
