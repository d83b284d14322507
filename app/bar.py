"""The bar of the Debug page: which view, judged by what, scored by which model; and the runs."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.elements.lib.mutable_popover_container import PopoverContainer

from mwviz.analysis import Analysis
from mwviz.compare import Comparison
from mwviz.display import visible
from mwviz.engine import embedded
from mwviz.judging import CLASSES
from mwviz.scoring import REFERENCE
from mwviz.verdict import Verdict, refusal
from mwviz.views import METHODS, exact_methods, method_named
from mwviz.wording import counted
from mwviz_app import (
    cards,
    claim,
    coach,
    facts,
    follow,
    frontend,
    presses,
    runs,
    scored,
    setups,
    sought,
    state,
    whose,
    widgets,
    workbench,
)
from mwviz_app.scored import Scored, Setup
from mwviz_app.sources import Version
from mwviz_app.state import Opened

ALL = "all methods"
KEYS = "? for keys"
BY = 150
"""Pixels of the picker of the exact method."""
FIX = "packed_mask"
"""The view that the verdict offers instead of one that diverges or leaves tokens out."""
NO_WORST = "There is none: every token that this view trains sees what it was sampled from."
LOST = "The file has changed since, or its tokens are no longer kept: run it again."

_RUN = "run-pressed"
"""Key of the button that runs."""
_METHOD = "run-method"
"""Key of the session state: what was chosen to run, for when the popover is not drawn."""

_metric = frontend.component("metric")


class Choice(NamedTuple):
    """What the bar says."""

    view: str
    against: str
    setup: Setup | None
    """None if nothing is scored yet."""


def first(opened: Opened) -> Choice:
    """What `pick` gives as long as nothing else was chosen, without drawing anything."""
    found = state.scored(opened)
    offered = list(found)
    setup = offered[_picked(offered)] if offered else None
    judges = _judges(opened, found, setup)
    return Choice(state.view(), judges[_place(judges, sought.asked().against)], setup)


def _picked(offered: list[Setup]) -> int:
    """The place of the setup that was picked or that a link asked for, else 0."""
    ids = [setup.id for setup in offered]
    return _place(ids, sought.setup(ids))


def _place(offered: list[str], wanted: str | None) -> int:
    return offered.index(wanted) if wanted in offered else 0


def room(found: Verdict) -> None:
    """The verdict's words, and room for what else stands above the workbench."""
    with st.container(key="room-seen" if coach.is_over() else "room"):
        _said(found)


def pick(opened: Opened, version: Version) -> Choice:
    """The view, the exact method it is judged by, and the model whose scores are shown."""
    analysis, view = state.analysis(opened), state.view()
    with _line("bar"):
        st.segmented_control(
            "Training view",
            [method.name for method in METHODS],
            required=True,
            key=state.VIEW,
            label_visibility="collapsed",
            persist_state="session",
            wrap=True,
        )
        claim.show(analysis, view)
        with _popover("Run on a model", ":material/play_arrow:", "run") as box:
            if box.open or presses.waits(_RUN):  # closed before the page ran
                _run(opened)
        follow.toggle(opened, version)
    with _line("bar-judged"):
        return _judged_by(opened, view)


def _line(key: str) -> DeltaGenerator:
    return st.container(horizontal=True, vertical_alignment="center", key=key)


def _judged_by(opened: Opened, view: str) -> Choice:
    """The second line of the bar: against what, by which number, with which model."""
    found = state.scored(opened)
    offered = list(found)
    st.text("against what it saw, by", width="content")
    exact = st.container(width=BY)
    if not refusal(state.analysis(opened), view):  # else there is no drawing to colour
        _metric(key="metric", width="content")
    setup = offered[_picked(offered)] if offered else None
    in_full = None
    with _popover("Judged by", ":material/balance:", "judged") as box:
        if box.open:
            method = method_named(view)
            st.text(f"{view}: {method.summary} {method.why_not}")
            _tokens(opened)
            setup = _model(found)
            in_full = st.container()
    with exact:
        judges = _judges(opened, found, setup)
        against = st.selectbox(
            "What the agent saw, by",
            judges,
            _place(judges, sought.asked().against),
            help="An exact method: each token is predicted from what it was sampled from.",
            label_visibility="collapsed",
        )
    choice = Choice(view, against or REFERENCE, setup)
    comparison = state.comparisons(opened, setup, choice.against).get(view)
    earlier = setups.earlier(setup, found) if comparison and setup else ()
    st.text(" · ".join((facts.scored(comparison), *earlier)), width="content")
    if in_full is not None:
        in_full.text(facts.full(comparison))
    return choice


def _popover(label: str, icon: str, name: str) -> PopoverContainer:
    """One to fill where it is open: of a closed one the browser sends all with every selection."""
    closed = st.session_state.setdefault(f"{name}-closed", 0)
    key = f"{name}{closed}"
    return st.popover(label, icon=icon, key=key, on_change=_turned, args=(name, closed))


def _turned(name: str, closed: int) -> None:
    """Forgets the popover that was closed: the browser would send for good that it is."""
    if closed == st.session_state[f"{name}-closed"] and not st.session_state[f"{name}{closed}"]:
        _shut(name)


def _shut(name: str) -> None:
    """Has a popover drawn anew, which closes it."""
    st.session_state[f"{name}-closed"] += 1


def _model(found: Scored) -> Setup | None:
    """The model that is picked, kept for when the picker is not drawn; None if none is scored."""
    offered = list(found)
    if not offered:
        return None
    chosen = st.selectbox(
        "Model", offered, _picked(offered), format_func=lambda setup: setups.told(setup, found)
    )
    if chosen != offered[_picked(offered)]:
        sought.pick_setup(chosen.id, [setup.id for setup in offered])
    return chosen


def status(opened: Opened, found: Verdict, comparison: Comparison | None) -> None:
    """What is shown in one line, at the lower edge of the window."""
    analysis, own = state.analysis(opened), state.analysis(opened.plain)
    with st.container(key="status"):
        st.text(" · ".join((*facts.sizes(analysis, own, found), facts.kernel(comparison), KEYS)))


def _judges(opened: Opened, found: Scored, setup: Setup | None) -> list[str]:
    """Methods that the view can be judged by, the usual one first."""
    cache, view = state.analysis(opened).tree.semantics, state.view()
    row = method_named(view).student or view
    able = scored.references(found[setup], row, cache) if setup else []
    return able or list(exact_methods(cache)[:1])


def _tokens(opened: Opened) -> None:
    """Whose tokens the rollout is shown in, where there is a choice."""
    offered = whose.options(opened)
    if len(offered) > 1:
        own = state.analysis(opened.plain)
        key = f"tokens-{offered.index(opened.tokens)}-of-{len(offered)}"
        st.selectbox(
            "Tokens",
            offered,
            offered.index(opened.tokens),
            format_func=lambda tokens: whose.named(tokens, own),
            help="Calls stay the same; a model that is run reads messages in its own template.",
            key=key,
            on_change=whose.choose,
            args=(opened, key),
        )
    st.text(visible(whose.told(state.analysis(opened)), keep=""))
    for warning in state.analysis(opened).encoding.warnings:
        st.text(visible(warning, keep=""))


def _said(found: Verdict) -> None:
    with st.container(key="verdict" if found.diverging else "verdict-clean"):
        st.text(found.headline)
        st.text(visible(found.detail, keep=""))


def verdict(found: Verdict, analysis: Analysis) -> None:
    """The verdict's sentence, and what can be done about it."""
    clean = not found.diverging
    with st.container(key="judged"):
        said, done = st.columns([5, 2], vertical_alignment="center")
        with said:
            _said(found)
        with done.container(horizontal=True, horizontal_alignment="right"):
            st.button(
                "Show me the worst one",
                type="primary",
                icon=":material/search:",
                disabled=found.worst is None and clean,
                help=NO_WORST if found.worst is None and clean else None,
                on_click=_go_to_worst,
                args=(analysis, found),
            )
            well = clean and found.covered == found.targets
            other = METHODS[0].name if well else FIX
            if found.method != other:
                st.button(
                    f"{'See' if well else 'Fix:'} {other}",
                    icon=":material/visibility:" if well else ":material/build:",
                    on_click=state.set_view,
                    args=(other,),
                )


def refused(view: str, reason: str) -> None:
    """Why this rollout cannot be laid out so, and a view that can."""
    with st.container(key="verdict"):
        said, done = st.columns([5, 2], vertical_alignment="center")
        with said:
            st.text(f"{view} cannot lay this rollout out.")
            st.text(visible(reason))
        with done.container(horizontal=True, horizontal_alignment="right"):
            st.button(f"Show {FIX}", on_click=state.set_view, args=(FIX,))


def _go_to_worst(analysis: Analysis, found: Verdict) -> None:
    """The token that drifts most; where no model has scored it, the one with most wrong keys."""
    target = found.worst.target if found.worst else most_wrong(analysis, found.method)
    workbench.lead_to(cards.of_target(analysis, target))


def most_wrong(analysis: Analysis, view: str) -> int:
    """The trained token that sees and misses most text wrongly."""
    pairs = analysis.pairs(view)
    wrong = np.sum([pairs.of(name) for name in CLASSES if name != "agree"], axis=0)
    return int(wrong.argmax())


def _run(opened: Opened) -> None:
    """Model, methods, how long that takes, and the button."""
    model = widgets.model_picker("run", opened)
    offered = [ALL, *(method.name for method in METHODS)]
    before = offered.index(st.session_state.get(_METHOD, ALL))
    method = st.session_state[_METHOD] = st.selectbox("Method", offered, before)
    names = tuple(m.name for m in METHODS) if method == ALL else (str(method),)
    if model is None and embedded.path() is None:
        widgets.empty("The embedded model is not here.", "Run `mwviz doctor --install-model`.")
    tokens = runs.tokens_of(opened, names)
    st.text(f"{counted(tokens, 'token')} through the model: {runs.told(tokens, model)}.")
    st.caption(
        "Runs in a process of its own; each method is also judged by an exact one. Scores are "
        "kept on disk: a second run answers at once. The time is that of the last runs here, "
        "before the first one that of the machine that made the demos."
    )

    def start() -> None:
        whose.follow_runs()
        runs.start(opened, names, model)

    presses.button("Run", _RUN, start, then=partial(_shut, "run"))
