"""B - A: two scorings of the rollout side by side, in tables and as colours of text and strip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pandas as pd
import streamlit as st

from mwviz.analysis import Analysis
from mwviz.contrast import QUANTITIES, Contrast
from mwviz.display import visible
from mwviz.errors import ModelError
from mwviz_app import asked, cards, checkpoints, numbers, runs, setups, state, widgets, workbench
from mwviz_app.scored import Chosen, Scored, Setup, Side, chosen_by
from mwviz_app.state import Opened

NATS = ("A", "B", "B - A", "|B - A|", "largest")
RUN = "Choose *Run on a model* above; checkpoints of the Train lab are models too."
FAILED = "Its run ended early: the top of this page says why."
MOST_ROWS = 12
"""Rows shown before a table scrolls."""
SECOND = "replay"
"""The view of B at first, where both are scored with one model."""
VIEW = 170
"""Pixels of the picker of a view; names of models are longer."""
PICKED = "contrast"
"""Start of the keys of the pickers."""


def show(opened: Opened, analysis: Analysis, against: str) -> None:
    """Asks for A and B; tells where they part, how far, and where most."""
    led = _follow_link(opened, against)
    if _awaits_models(opened, against):
        return
    found = state.scored(opened)
    if not found:
        widgets.empty(
            "No view of this rollout is scored, so there is nothing to subtract.",
            RUN,
        )
        return
    chosen = _picked(opened, found, against, led=led)
    if chosen is None:
        return
    if chosen.a == chosen.b:
        widgets.empty("A and B are the same.", "Choose another view or another model for one.")
        return
    told = numbers.between(opened, chosen, against)
    assert told is not None
    if asked.compare(opened, chosen):
        st.rerun()  # the workbench, which stands above, has the numbers of the choice before
    _summary(analysis, told, numbers.about(opened, chosen, told))
    _tables(analysis, chosen, told)


def _follow_link(opened: Opened, against: str) -> bool:
    """Sets the pickers to what an address asked for, once it is here; says so until then.

    True in the run that sets them.
    """
    told = asked.wanted(opened)
    if told is None:
        return False
    wanted = chosen_by(told, state.scored(opened))
    digest = state.digest(opened)
    if wanted is None and state.is_new("sides-of-link", (opened, digest, told)):
        state.recall(opened, digest)
        wanted = chosen_by(told, state.scored(opened))
    if wanted is None or numbers.between(opened, wanted, against) is None:
        widgets.empty("The link compares two scorings that are not both here.", RUN)
        return False
    asked.settle()
    _pick(wanted)
    return True


def _pick(wanted: Chosen) -> None:
    for name, side in zip("AB", (wanted.a, wanted.b), strict=True):
        st.session_state[f"{PICKED}-{name}-model"] = side.setup
        st.session_state[f"{PICKED}-{name}-view"] = side.view
    st.session_state[f"{PICKED}-quantity"] = wanted.quantity


def _awaits_models(opened: Opened, against: str) -> bool:
    """Sets the pickers to two models that are to be compared once both are scored; says until when.

    True while they are not: another comparison in their place would be taken for theirs.
    """
    sides = asked.awaited(opened)
    if sides is None:
        return False
    if any(job.live for job in state.jobs_of(opened)):
        # Scores from before a checkpoint was trained on carry the same name: they are not shown.
        widgets.empty("Both models still read the rollout.", "The comparison comes by itself.")
        return True
    a, b = (_as_run_last(opened, name, sides.view) for name in (sides.a, sides.b))
    wanted = Chosen(a, b, "log p") if a is not None and b is not None else None
    if wanted is not None and numbers.between(opened, wanted, against) is not None:
        asked.arrived()
        _pick(wanted)
        asked.compare(opened, wanted)
        asked.show("beside")
        st.rerun()  # the workbench, which stands above, colours by the difference
    widgets.empty("One of the two models has no scores of this rollout.", FAILED)
    st.button("Compare something else", on_click=asked.arrived)
    return True


def _as_run_last(opened: Opened, name: str, view: str) -> Side | None:
    """What the last run of a model scored; None if that did not end well, whatever came before."""
    try:
        model = checkpoints.named(name, state.models(opened))
    except ModelError:
        return None
    key = runs.left_by(opened, view, model)
    if key is None:
        return None
    setup = Setup(key.model, key.dtype, key.device)
    return Side(setup, view) if setup in state.scored(opened) else None


def _picked(opened: Opened, found: Scored, against: str, *, led: bool) -> Chosen | None:
    """What the pickers say; `led` where a link has set them in this run."""
    sides: list[Side] = []
    offered = list(found)
    for column, name, index in zip(widgets.beside("sides"), "AB", (0, 1), strict=True):
        model, of = f"{PICKED}-{name}-model", f"{PICKED}-{name}-view"
        with column.container(horizontal=True, vertical_alignment="bottom"):
            setup = st.selectbox(
                f"{name}: model",
                offered,
                0 if led else _place(model, offered, min(index, len(offered) - 1)),
                format_func=lambda setup: setups.told(setup, found),
                key=model,
            )
            views = list(state.comparisons(opened, setup, against))
            if not views:
                widgets.empty(f"The model of {name} has no view beside an exact one.", RUN)
                return None
            other = next((i for i, view in enumerate(views) if view == SECOND), len(views) - 1)
            view = st.selectbox(
                f"{name}: view",
                views,
                0 if led else _place(of, views, other if index and len(offered) == 1 else 0),
                key=of,
                width=VIEW,
            )
            sides.append(Side(setup, view))
    quantity = st.segmented_control(
        "What is subtracted",
        list(QUANTITIES),
        default="log p",
        required=True,
        key=f"{PICKED}-quantity",
        help="; ".join(f"{name}: {words}" for name, words in QUANTITIES.items()),
    )
    return Chosen(sides[0], sides[1], quantity)


def _place(key: str, offered: Sequence[object], first: int) -> int:
    """The place of what was chosen, else `first`.

    Said again in every run: a page that runs twice at once is drawn from the second run alone.
    """
    chosen = st.session_state.get(key)
    return offered.index(chosen) if chosen in offered else first


def _summary(analysis: Analysis, told: Contrast, about: str) -> None:
    """Coverage, floors, token set, first divergence: everything the numbers depend on."""
    st.text(about)
    tree, first = analysis.tree, told.first
    with st.container(horizontal=True, vertical_alignment="center"):
        if first is None:
            st.text("Nowhere do they differ by more than the floor.")
        else:
            word = analysis.decoder.text(tree.ids[tree.token[first : first + 1]])
            place = f"call {int(tree.call[first]):,}, token {int(tree.offset[first]):,}"
            size = float(told.change[first])
            st.text(f"First divergence: {place}, {visible(word, keep='')!r}: {size:+.3g} nats.")
            st.button(
                "Go to it",
                icon=":material/search:",
                on_click=workbench.lead_to,
                args=(cards.of_target(analysis, first),),
            )
        st.button(
            "Colour text and strip by B - A",
            icon=":material/palette:",
            on_click=asked.show,
            args=("beside",),
        )


def _tables(analysis: Analysis, chosen: Chosen, told: Contrast) -> None:
    _table(told.by_set(), "B - A by token set", "sets")
    st.caption(
        "diverging: the context differs from the true one in A or in B; control: in neither. Means "
        "in nats; largest is the largest |B - A|; above floor counts tokens."
    )
    left, right = widgets.beside("changes-and-calls")
    with left:
        st.text("By change of context")
        junctions = told.by_junction(analysis.junction_list, analysis.tree.lineage)
        if len(junctions):
            _table(junctions, "B - A by change of context", "junctions")
            st.caption("The tokens from a change of context to the next one of the same agent.")
        else:
            st.caption("The context never changed: there is no junction to tell by.")
    with right:
        st.text("By call")
        calls = told.by_call()
        apart = f"{analysis.digest}-{chosen.id}"  # a row of another table picks nothing in this one
        picked = _table(calls, "B - A by call", f"calls-{apart}", select=True)
        st.caption("Select a row to go to the token of that call that differs most.")
        place = None if picked is None else (chosen, picked)
        if state.is_new("contrast-call", place) and picked is not None:
            _go(analysis, told, int(calls["call"].iloc[picked]))
    st.download_button(
        "Download every token as CSV",
        lambda: _csv(analysis, told),
        "b-minus-a.csv",
        "text/csv",
        icon=":material/download:",
    )


def _table(table: pd.DataFrame, alt: str, name: str, *, select: bool = False) -> int | None:
    """Shows the table; the row that was picked, if it lets one be picked."""
    signed = dict.fromkeys(NATS, "{:+.3g}")
    shown = table.style.format({**signed, "|B - A|": "{:.3g}", "largest": "{:.3g}"}, na_rep="-")
    height: Literal["content"] | int = "content" if len(table) <= MOST_ROWS else 400
    key = f"contrast-{name}"
    if not select:
        st.dataframe(shown, hide_index=True, height=height, alt=alt, key=key, placeholder="-")
        return None
    picked = st.dataframe(
        shown,
        hide_index=True,
        height=height,
        alt=alt,
        key=key,
        placeholder="-",
        on_select="rerun",
        selection_mode="single-row",
    )
    rows = picked["selection"]["rows"]
    return int(rows[0]) if rows else None


def _go(analysis: Analysis, told: Contrast, call: int) -> None:
    """Selects the token of a call that differs most."""
    own = pd.Series(abs(told.change))[told.call == call]
    workbench.command(cards.of_target(analysis, int(own.idxmax())))
    st.rerun()


def _csv(analysis: Analysis, told: Contrast) -> bytes:
    """One row a target: where it stands, both sides, the difference; nats."""
    tree = analysis.tree
    table = pd.DataFrame(
        {
            "call": tree.call,
            "offset": tree.offset,
            "id": tree.ids[tree.token],
            "a": told.a,
            "b": told.b,
            "b_minus_a": told.change,
            "above_floor": abs(told.change) > told.threshold,
            "diverging": told.diverging,
        }
    )
    return table.to_csv(index=False).encode()
