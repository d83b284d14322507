"""Our Streamlit components: one short stub starts all, their code travels once, as bytes.

A page sends the code first: the browser reads it while Python prepares what is to be shown.
"""

from __future__ import annotations

import streamlit as st
from streamlit.components.v2.types import ComponentRenderer

from mwviz_app.bundle import FOLDER, bundled


def _entry(name: str) -> str:
    """The text of a module without its comments and indents: it travels with every message.

    One line alone would be taken for a path.
    """
    lines = (FOLDER / f"{name}.js").read_text(encoding="utf-8").splitlines()
    return "\n".join(line.strip() for line in lines if line and not line.startswith("//"))


LOADER, STUB = _entry("loader"), _entry("stub")
CODE = bundled("parts").encode()


def component(name: str) -> ComponentRenderer:
    """Mounts the component that `frontend/parts.js` has under this name."""
    return st.components.v2.component(f"mwviz.{name}", js=STUB)


_code = st.components.v2.component("mwviz.code", js=LOADER)


def load() -> None:
    """Gives the page the code of all components: until then, each that is mounted shows nothing."""
    _code(key="code", data=CODE)
