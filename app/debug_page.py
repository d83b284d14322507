"""Debug: one rollout under one training view; one selection is shared by all that is shown."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from mwviz import verdict
from mwviz.display import visible
from mwviz.errors import TraceError
from mwviz.rendering import RECORDED
from mwviz.serve import notes
from mwviz.views import METHODS
from mwviz_app import (
    asked,
    bar,
    cards,
    changes,
    charts,
    coach,
    context,
    contrasts,
    fetched,
    follow,
    frame,
    frontend,
    inspector,
    links,
    looks,
    parts,
    pointed,
    state,
    studies,
    tables,
    waiting,
    whatif,
    whose,
    widgets,
    workbench,
)
from mwviz_app.scored import id_of
from mwviz_app.sources import version_of

frontend.load()
chosen = state.opened()
if chosen is None:
    widgets.empty("No rollout is open.", "Choose one on the Open page.")
    for note in notes(state.launch().paths):
        st.text(visible(note, keep=""))
    st.page_link("open_page.py", label="Open a trace or a demo", icon=":material/folder_open:")
    st.page_link("learn_page.py", label="Learn what goes wrong", icon=":material/school:")
    frame.end()
opened = shown = whose.shown(chosen)
version = version_of(state.source(opened.trace).path)
analysis = state.analysis(opened)
before = state.selection()
follow.resume(opened, analysis)
waiting.resume(opened, analysis)
pointed.resume(opened, before)


def draw(choice: bar.Choice, *, awaited: bool = False) -> None:
    workbench.workbench(
        state.payload(shown, choice.setup, choice.against),
        key=f"workbench-{id_of(repr(shown))}",  # short: every selection sends it
        view=None if awaited and choice.view == METHODS[0].name else choice.view,
        awaited=awaited,
        address=None if awaited else links.told(choice.setup, choice.against),
    )


def shown_now(choice: bar.Choice) -> fetched.Shown:
    setup, against = choice.setup, choice.against
    comparing = state.comparisons(opened, setup, against)
    sent = state.payload(shown, setup, against)
    return fetched.Shown(opened, analysis, setup, against, choice.view, comparing, sent)


def asked_of_model() -> None:
    widgets.show_jobs(studies.news(opened))
    waiting.offer_run(opened, analysis)
    waiting.tell(opened, choice.setup)


if state.begins() and not verdict.refusal(analysis, state.view()):
    # Everything else takes the browser longer to draw: it comes once the workbench is there.
    expected = bar.first(opened)
    told = state.verdict(opened, expected.setup, expected.against, expected.view)
    bar.room(told)
    if fetched.comes_later(numbers := shown_now(expected)):
        fetched.answer(numbers)
    draw(expected, awaited=True)
    st.stop()
with st.container(key="top"):
    said = st.container()
    choice = bar.pick(opened, version)
    widgets.show_jobs(state.jobs_of(opened))
    for model in whose.lost(opened):
        widgets.empty("A model has scored other tokens than those of this rollout.", bar.LOST)
        st.text(model)
comparisons = state.comparisons(opened, choice.setup, choice.against)
comparison = comparisons.get(choice.view)
with said:
    pointed.tell(opened)
refused = verdict.refusal(analysis, choice.view)
if refused:
    with said:
        bar.refused(choice.view, refused)
    asked_of_model()
    tables.views(verdict.overview(analysis, comparisons))
    frame.end()
judged = state.verdict(opened, choice.setup, choice.against, choice.view)
with said:
    bar.verdict(judged, analysis)
    coach.show()
    fetched.answer(shown_now(choice))
draw(choice)
st.subheader("What the selected token was sampled from")
inspector.words()
if analysis.encoding.rendering != RECORDED:
    st.text(visible(whose.told(analysis), keep=""))


@st.fragment(key=workbench.INSPECTOR)
def inspect() -> None:
    try:
        follow.note(shown, analysis)
        pointed_at = cards.target_of(analysis, state.selection())
        found = studies.causes(shown, choice.view, choice.setup, pointed_at)
        undone = whatif.answer(shown, analysis, choice.setup, pointed_at)
    except TraceError as error:  # runs alone: nothing else says that the file is gone
        widgets.show_error(error)
        return
    inspector.show(analysis, choice.view, comparison, causes=found, undone=undone)


inspect()
target = cards.target_of(analysis, state.selection())
needed = f" {waiting.NEEDED}" if waiting.is_needed(analysis, choice.setup) else ""
with st.container(horizontal=True, key="actions"):
    st.button(
        "What causes this?",
        icon=":material/science:",
        help=f"Runs the model on this token both ways, with each source hidden in turn.{needed}",
        on_click=waiting.ask_causes,
        args=(opened, analysis, choice.view, choice.setup),
    )
    st.button(
        "What if nothing had been evicted?",
        icon=":material/history:",
        help="Puts the text back that left last before this token and scores it again with a model."
        + needed,
        on_click=waiting.ask_undo,
        args=(opened, analysis, choice.setup),
    )
    found = studies.causes(opened, choice.view, choice.setup, target)
    inspector.in_full(analysis, choice.view, target, found)
    looks.popover(opened, analysis, choice.view, choice.setup)
    st.button(
        "Copy link",
        icon=":material/link:",
        help="The address of what you see now: ids only, no text. The key y copies it too.",
        on_click=links.ask,
        args=(choice.view, choice.setup, choice.against),
    )
copied = links.written()
if copied is not None:
    st.code(copied, language=None, wrap_lines=True)
    st.caption("The address bar shows it too. It holds ids only, no text.")

asked_of_model()
bar.status(opened, judged, comparison)

DECK: dict[str, Callable[[], None]] = {
    "Where the context changed": lambda: changes.show(shown, analysis, choice.setup),
    "All views": lambda: tables.views(verdict.overview(analysis, comparisons)),
    "Drift in charts": lambda: charts.drift(shown, analysis, comparison, choice.setup),
    asked.TAB: lambda: contrasts.show(shown, analysis, choice.against),
    "The eviction tree": lambda: charts.tree(analysis),
    "Gap and SDCC": lambda: parts.show(analysis, choice.view, comparison),
    "Every call": lambda: tables.calls(analysis, choice.view),
    "The text of a call": lambda: context.show(analysis, choice.view, comparison),
    "Every sampled token": lambda: tables.targets(analysis, choice.view, comparison),
}
for tab, fill in zip(
    st.tabs(list(DECK), key=asked.DECK, on_change="rerun"), DECK.values(), strict=True
):
    if tab.open:
        with tab:
            fill()
