"""Sends the browser the numbers a token that are known beside the payload, through a component."""

from __future__ import annotations

import streamlit as st

from mwviz.analysis import Analysis
from mwviz.compare import Comparison
from mwviz_app import asked, numbers
from mwviz_app.scored import Setup
from mwviz_app.state import Opened

_mount = st.components.v2.component("mwviz.numbers", js="numbers.js")


def send(
    opened: Opened,
    analysis: Analysis,
    *,
    setup: Setup | None,
    against: str,
    comparisons: dict[str, Comparison],
) -> None:
    """Gives the browser all that is known now; the same again sends nothing."""
    measured = numbers.distances(opened, setup, comparisons)
    worth, beside = numbers.advantage(opened, analysis), numbers.beside(opened, against)
    data: dict[str, object] = {"numbers": [*measured, worth, *beside]}
    shown = asked.shown()
    if shown is not None:
        data["show"] = shown._asdict()
    _mount(key="numbers", data=data)
