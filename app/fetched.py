"""Numbers a token that the browser gets after the payload, through a component that asks for more.

What was measured or chosen here comes with every page. Of scored views the payload holds the drift
of two; the browser asks for another number once it is to be shown, and gets it from a fragment that
reruns alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import streamlit as st

from mwviz import payload
from mwviz.analysis import Analysis
from mwviz.compare import Comparison
from mwviz.errors import TraceError
from mwviz.numberpacking import numbers_of, send, shipped
from mwviz_app import asked, frontend, numbers, widgets
from mwviz_app.scored import Setup
from mwviz_app.state import Opened

KEY = "numbers"
"""Of the component and its fragment."""
WANTED = "numbers-wanted"
"""Key of the session state."""
MOST_NAMES = 200
"""Names that one question may hold."""

_mount = frontend.component("numbers")


class Wanted(NamedTuple):
    """What the browser asked for last."""

    of: str
    """Id of the payload that it is of."""
    names: tuple[str, ...]
    """As `numberpacking` names numbers."""


class Shown(NamedTuple):
    """What the page shows."""

    opened: Opened
    analysis: Analysis
    setup: Setup | None
    against: str
    view: str
    comparisons: dict[str, Comparison]
    payload: bytes


@st.fragment(key=KEY)
def answer(shown: Shown) -> None:
    """Gives the browser what it asked for, and what is measured; the same again sends nothing.

    It stands above the workbench: a view then comes with its numbers, before the browser asks.
    """
    try:
        data = _told(shown)
    except TraceError as error:  # may run alone: nothing else says that the file is gone
        widgets.show_error(error)
        return
    _mount(key=KEY, data=data, on_wanted_change=_want)


def _told(shown: Shown) -> dict[str, Any]:
    """What is measured, what was asked for, and which number colours."""
    opened, comparisons = shown.opened, shown.comparisons
    measured = numbers.distances(opened, shown.setup, comparisons)
    worth, beside = numbers.advantage(opened), numbers.beside(opened, shown.against)
    known = numbers_of(shown.analysis.tree, comparisons)
    of = payload.id_of(shown.payload)
    data: dict[str, Any] = {
        "numbers": [*measured, worth, *beside],
        "of": of,
        "scored": {n: told._asdict() for n, told in send(known, names(shown, wanted(of))).items()},
    }
    colour = asked.shown()
    if colour is not None:
        data["show"] = colour._asdict()
    return data


def names(shown: Shown, more: Sequence[str]) -> list[str]:
    """Numbers that go to the browser: what it says of a token of the view, and what it asked for.

    Args:
        shown: what the page shows.
        more: names that the browser asked for; their kinds are told of the view in sight too.
    """
    comparisons, view = shown.comparisons, shown.view
    if not comparisons:
        return list(dict.fromkeys(more))
    judge = comparisons.get(view, next(iter(comparisons.values()))).reference.method
    kinds = [name.partition(":")[2] for name in more]
    of_view = [f"{view}:drift", f"{judge}:logprob", *(f"{view}:{kind}" for kind in kinds if kind)]
    here = shipped(comparisons)
    return [name for name in dict.fromkeys((*of_view, *more)) if name not in here]


def comes_later(shown: Shown) -> bool:
    """Whether the payload does not hold the drift of the view, although it is known."""
    drift = f"{shown.view}:drift"
    return shown.view in shown.comparisons and drift not in shipped(shown.comparisons)


def wanted(of: str) -> tuple[str, ...]:
    """What the browser asked for last of a payload."""
    last: Wanted | None = st.session_state.get(WANTED)
    return last.names if last is not None and last.of == of else ()


def _want() -> None:
    component: Any = st.session_state.get(KEY)
    sent = component.get("wanted") if component else None
    if not isinstance(sent, dict):
        return
    of, found = sent.get("of"), sent.get("names")
    if isinstance(of, str) and isinstance(found, list):
        told = tuple(str(name) for name in found[:MOST_NAMES])
        st.session_state[WANTED] = Wanted(of, told)
