"""Addresses that lead to a place in a rollout: ids only, never text of a trace.

t     trace, `-` and the rollout's place in it behind it where it holds several
A     training view; `-` and the id of what ran the model behind it where it is scored
B     exact method that it is judged by
call  call
tok   sampled token, by its place in that call
ev    change of context, by its place among all
tk    whose tokens all these places count in, where those of the trace are not shown
ba    what the tab B - A subtracts: view and model of A, then of B, and which quantity
job   job under way on the rollout
run   run of the train lab, by its folder's name

What only the browser shows is handed to it as it is (`frontend/address.js`):

k     key, by its place in the order in which text was written
sel   marked text, by the places of its first and its last token in that order
m     number that colours the sampled tokens
z     what part of each drawing is in sight
p     pane in front, in a window that has room for one
pin   pinned call
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

import streamlit as st

from mwviz.display import shortened, visible
from mwviz.views import METHODS
from mwviz_app import asked, lab, pointed, sought, state, studies, whose, widgets
from mwviz_app.scored import Setup
from mwviz_app.state import Opened, Selection
from mwviz_app.tried import tried

SIGHT = {
    "k": re.compile(r"\d{1,9}", re.ASCII),
    "sel": re.compile(r"\d{1,9}-\d{1,9}", re.ASCII),
    "m": re.compile(r"[a-z]{1,20}"),
    "z": re.compile(r"[tmd][0-9a-z]+(-[0-9a-z]+){1,3}(_[tmd][0-9a-z]+(-[0-9a-z]+){1,3}){0,2}"),
    "p": re.compile("|".join(pointed.PANES)),
    "pin": re.compile(r"\d{1,9}", re.ASCII),
}
"""Form of what the browser alone understands."""
TOKENS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{32}")
"""Form of `Tokens.id`."""
SIDES = re.compile(r"([a-z_]{1,16}-[0-9a-f]{8}-){2}[pd]")
"""Form of `Chosen.id`."""
JOB = re.compile(r"[0-9a-f]{32}")
KEYS = ("t", "A", "B", "call", "tok", "ev", "tk", "ba", "job", "run", *SIGHT)
ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
DIGITS = 9
"""Of a call's or token's number."""
LONGEST = 200
"""Characters of what was ignored that are quoted."""
LOST_JOB = "The job of this link is not known to this app."
LOST_TRACE = "The trace of this link is not here, so only its view is followed."
LOST_ROLLOUT = "The trace holds fewer rollouts than this link counts: its last one is shown."
NAME_IT = "Name the trace when the app is started, then follow the link again."
_SHOWN, _COPIED = "address-of", "copied-link"


class Link(NamedTuple):
    """What an address asks for, as far as it is well formed."""

    trace: str | None = None
    rollout: int = 0
    view: str | None = None
    setup: str | None = None
    """Id of a `Setup`."""
    against: str | None = None
    call: int | None = None
    token: int | None = None
    junction: int | None = None
    tokens: str | None = None
    """`Tokens.id` of those that the places count in; None for those of the trace."""
    sides: str | None = None
    """`Chosen.id` of what is subtracted."""
    job: str | None = None
    run: str | None = None
    sight: Mapping[str, str] = {}
    """What the browser is to show, by key."""
    ignored: tuple[str, ...] = ()
    """Keys that are not known here, or whose value is none."""

    @property
    def lost(self) -> bool:
        """Whether it names a trace that is not known here: its places are of another rollout."""
        return "t" in self.ignored


def read(address: Mapping[str, str]) -> Link:
    """An address as a link; everything that is not an id known here is ignored by name."""
    good = {key: value for key, value in address.items() if key in KEYS and ID.fullmatch(value)}
    trace, rollout = _rollout(good.get("t"))
    names = {method.name for method in METHODS}
    view, _, setup = good.get("A", "").partition("-")
    run, against, call = good.get("run"), good.get("B"), _number(good.get("call"))
    used: dict[str, object] = {
        "t": trace,
        "A": view if view in names else None,
        "B": against if against in names else None,
        "call": call,
        "tok": _number(good.get("tok")) if call is not None else None,
        "ev": _number(good.get("ev")),
        "tk": _formed(TOKENS, good.get("tk")),
        "ba": _formed(SIDES, good.get("ba")),
        "job": _formed(JOB, good.get("job")),
        "run": run if run is not None and lab.find(run) is not None else None,
    }
    sight = {key: good[key] for key, form in SIGHT.items() if form.fullmatch(good.get(key, ""))}
    known: dict[str, Any] = {**used, **sight}
    return Link(
        trace,
        rollout,
        known["A"],
        setup or None,
        known["B"],
        call,
        known["tok"],
        known["ev"],
        known["tk"],
        known["ba"],
        known["job"],
        known["run"],
        sight,
        tuple(key for key in address if known.get(key) is None),
    )


def _rollout(told: str | None) -> tuple[str | None, int]:
    known = state.traces()
    if told is None or told in known:
        return told, 0
    head, _, tail = told.rpartition("-")
    return (head, int(tail)) if head in known and tail.isdecimal() else (None, 0)


def follow() -> None:
    """Goes where the address leads, once; says what of it was ignored while it stands there."""
    address = st.query_params.to_dict()
    link = read(address)
    with state.once("link", str(address) if address else None) as fresh:
        if fresh:
            _go(link)
    _follow_rollout()
    with st.container():  # always there: what stands below keeps its place when the note goes
        if link.ignored:
            words = "Part of this link was ignored: it is not known here."
            st.info(words, icon=":material/link_off:")
            st.text(visible(shortened(", ".join(link.ignored), LONGEST), keep=""))
        if link.lost:
            widgets.empty(LOST_TRACE, NAME_IT)
        if link.job is not None and state.job(link.job) is None:
            widgets.empty(LOST_JOB, "Run it again: what it had finished is kept.")


def trace_id(opened: Opened) -> str:
    """The id of a rollout in addresses."""
    return opened.trace + (f"-{opened.rollout}" if opened.rollout else "")


def _follow_rollout() -> None:
    """Has the address lead to the rollout once another one is open than before."""
    opened = state.opened()
    shown = trace_id(opened) if opened else None
    before = st.session_state.get(_SHOWN, shown)
    st.session_state[_SHOWN] = shown
    if shown is not None and before != shown and st.query_params.get("t") != shown:
        _write({"t": shown})


@tried
def ask(view: str, setup: Setup | None, against: str) -> None:
    """Writes the address of what is shown; the browser then adds what it alone knows."""
    opened = state.opened()
    assert opened is not None
    parts = {**_facts(opened, against), "A": _named(view, setup)}
    chosen = state.selection()
    if chosen is not None:
        parts["call"] = str(chosen.call)
        tree = state.analysis(whose.shown(opened)).tree
        if chosen.target is not None and chosen.target < len(tree.token):
            parts["tok"] = str(int(tree.offset[chosen.target]))
    write(parts)
    sought.ask_link()


def write(parts: Mapping[str, str]) -> None:
    """Has the address bar lead to `parts`, of which everything that is no id is left out."""
    good = {key: parts[key] for key in KEYS if ID.fullmatch(parts.get(key, ""))}
    _write(good)
    st.session_state[_COPIED] = (good, state.selection())


def written() -> str | None:
    """The address as it was last copied; None once something else is selected."""
    found: tuple[dict[str, str], Selection | None] | None = st.session_state.get(_COPIED)
    if found is None or found[1] != state.selection():
        return None
    return f"{st.context.url or ''}?{urlencode(found[0])}"


def told(setup: Setup | None, against: str) -> dict[str, str]:
    """What the browser needs to write an address by itself."""
    opened = state.opened()
    assert opened is not None
    found = _facts(opened, against)
    return found if setup is None else {**found, "setup": setup.id}


def _facts(opened: Opened, against: str) -> dict[str, str]:
    """The parts of an address that only Python knows, but for the view and the selection."""
    parts = {"t": trace_id(opened), "B": against}
    shown, picked = whose.shown(opened), sought.junction()
    compared = asked.compared(shown)
    live = [one for one in (*state.jobs_of(shown), *studies.started(shown)) if one.live]
    if live:
        parts["job"] = live[0].job.id
    if picked is not None:
        parts["ev"] = str(picked)
    if shown.tokens is not None:
        parts["tk"] = shown.tokens.id
    if compared is not None:
        parts["ba"] = compared.id
    return parts


def _named(view: str, setup: Setup | None) -> str:
    return view if setup is None else f"{view}-{setup.id}"


def _write(parts: dict[str, str]) -> None:
    st.query_params.from_dict(parts)
    state.is_new("link", str(parts))


def write_run(run: str) -> None:
    """Makes the address bar lead to a run of the train lab."""
    _write({"run": run})


def _go(link: Link) -> None:
    asked.settle()
    pointed.drop()
    if link.run is not None:
        lab.show(link.run)
    lost = link.lost
    if link.trace is not None:
        held = len(state.trace(link.trace).rollouts)
        lost = link.rollout >= held
        state.open_rollout(Opened(link.trace, min(link.rollout, held - 1)))
        if lost:
            st.toast(LOST_ROLLOUT)
    if link.view is not None:
        state.set_view(link.view)
    if not lost:
        _go_to_place(link)


def _go_to_place(link: Link) -> None:
    """Goes where the link leads in the rollout that is open."""
    sought.ask_for(sought.Asked(link.setup, link.against, link.junction))
    opened = state.opened()
    if opened is None:
        return
    if link.sides is not None:
        asked.want(opened, link.sides)
    place = pointed.Place(link.call, link.token, link.sight)
    places = link.call is not None or link.sight
    if (link.setup or link.tokens or places) and not whose.seek(opened, link.setup, link.tokens):
        assert link.tokens is not None
        pointed.hold(opened, link.tokens, place)
    else:
        pointed.go(whose.shown(opened), place)


def _formed(form: re.Pattern[str], value: str | None) -> str | None:
    return value if value is not None and form.fullmatch(value) else None


def _number(value: str | None) -> int | None:
    fits = value is not None and value.isdecimal() and len(value) <= DIGITS
    return int(value) if value is not None and fits else None
