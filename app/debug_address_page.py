"""The address `/debug`: the Debug page is the first one and stands at `/`."""

from __future__ import annotations

import streamlit as st

st.switch_page("debug_page.py", query_params=st.query_params.to_dict())
