"""Addresses that lead to a rollout, a view, a call or a token: ids only, never text of a trace.

t     trace, `-` and the rollout's place in it behind it where it holds several
view  training view
call  call
tok   sampled token, by its place in that call
run   run of the train lab, by its folder's name
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode

import numpy as np
import streamlit as st

from mwviz.analysis import Analysis
from mwviz.display import shortened, visible
from mwviz.views import METHODS
from mwviz_app import lab, state, whose
from mwviz_app.state import Opened, Selection

KEYS = ("t", "view", "call", "tok", "run")
ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
DIGITS = 9
"""Of a call's or token's number."""
LONGEST = 200
"""Characters of what was ignored that are quoted."""


class Link(NamedTuple):
    """What an address asks for, as far as it is well formed."""

    trace: str | None = None
    rollout: int = 0
    view: str | None = None
    call: int | None = None
    token: int | None = None
    run: str | None = None
    ignored: tuple[str, ...] = ()
    """Keys that are not known here, or whose value is none."""


def read(asked: Mapping[str, str]) -> Link:
    """An address as a link; everything that is not an id known here is ignored by name."""
    good = {key: value for key, value in asked.items() if key in KEYS and ID.fullmatch(value)}
    trace, rollout = good.get("t"), 0
    known = state.traces()
    if trace is not None and trace not in known:
        head, _, tail = trace.rpartition("-")
        trace, rollout = (head, int(tail)) if head in known and tail.isdecimal() else (None, 0)
    view = next((method.name for method in METHODS if method.name == good.get("view")), None)
    call, token = _number(good.get("call")), _number(good.get("tok"))
    run = good.get("run")
    run = run if run is not None and lab.find(run) is not None else None
    used = {"t": trace, "view": view, "call": call, "tok": token if call is not None else None}
    ignored = tuple(key for key in asked if {**used, "run": run}.get(key) is None)
    return Link(trace, rollout, view, call, token, run, ignored)


def follow() -> None:
    """Goes where the address leads, once; says what of it was ignored while it stands there."""
    asked = st.query_params.to_dict()
    link = read(asked)
    if state.is_new("link", str(asked) if asked else None):
        _go(link)
    if link.ignored:
        st.info("Part of this link was ignored: it is not known here.", icon=":material/link_off:")
        st.text(visible(shortened(", ".join(link.ignored), LONGEST), keep=""))


def trace_id(opened: Opened) -> str:
    """The id of a rollout in addresses."""
    return opened.trace + (f"-{opened.rollout}" if opened.rollout else "")


def write(view: str) -> str:
    """The address of what is selected, which the address bar now shows too."""
    opened = state.opened()
    assert opened is not None
    parts = {"t": trace_id(opened), "view": view}
    chosen = state.selection()
    if chosen is not None:
        parts["call"] = str(chosen.call)
        tree = state.analysis(whose.shown(opened)).tree
        if chosen.target is not None and chosen.target < len(tree.token):
            parts["tok"] = str(int(tree.offset[chosen.target]))
    st.query_params.from_dict(parts)
    state.is_new("link", str(parts))
    return f"{st.context.url or ''}?{urlencode(parts)}"


def write_run(run: str) -> None:
    """Makes the address bar lead to a run of the train lab."""
    st.query_params.from_dict({"run": run})
    state.is_new("link", str({"run": run}))


def _go(link: Link) -> None:
    if link.run is not None:
        lab.show(link.run)
    if link.trace is not None:
        held = len(state.trace(link.trace).rollouts)
        state.open_rollout(Opened(link.trace, min(link.rollout, held - 1)))
    if link.view is not None:
        state.set_view(link.view)
    opened = state.opened()
    if opened is not None and link.call is not None:
        chosen = selection(state.analysis(whose.shown(opened)), link.call, link.token)
        if chosen is not None:
            state.order(chosen)


def selection(analysis: Analysis, call: int, token: int | None) -> Selection | None:
    """The token of a call, the end of the call if it has no such token; None without the call."""
    tree = analysis.tree
    if not 0 <= call < len(tree.tip) or tree.tip[call] < 0:
        return None
    found = np.flatnonzero((tree.call == call) & (tree.offset == (-1 if token is None else token)))
    if len(found):
        target = int(found[0])
        return Selection(call, int(tree.segment_of(tree.token[target])), target)
    return Selection(call, int(tree.segment_of(tree.tip[call])))


def _number(value: str | None) -> int | None:
    fits = value is not None and value.isdecimal() and len(value) <= DIGITS
    return int(value) if value is not None and fits else None
