"""Sends the browser the numbers a token that are known beside the payload, through a component."""

from __future__ import annotations

from mwviz.analysis import Analysis
from mwviz.compare import Comparison
from mwviz_app import asked, frontend, numbers
from mwviz_app.scored import Setup
from mwviz_app.state import Opened

_mount = frontend.component("numbers")


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
