"""Our Streamlit components: one small loader starts all, their code travels once, as bytes.

A page sends the code first: the browser reads it while Python prepares what is to be shown.
"""

from __future__ import annotations

import streamlit as st
from streamlit.components.v2.types import ComponentRenderer

from mwviz_app.bundle import FOLDER, bundled

LOADER = (FOLDER / "loader.js").read_text(encoding="utf-8")
CODE = bundled("parts").encode()


def component(name: str) -> ComponentRenderer:
    """Mounts the component that `frontend/parts.js` has under this name."""
    return st.components.v2.component(f"mwviz.{name}", js=LOADER)


_code = component("code")


def load() -> None:
    """Gives the page the code of all components: until then, each that is mounted shows nothing."""
    _code(key="code", data=CODE)
