"""Small pieces that pages share. Trace text passes only through calls that show it as text."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Literal

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mwviz.display import visible
from mwviz.errors import MwvizError
from mwviz.figures.histogram import CLEAR
from mwviz.figures.palette import LIGHT, THEMES, Theme
from mwviz.wording import duration
from mwviz_app import checkpoints, state
from mwviz_app.jobs import JobState
from mwviz_app.state import Opened

LINE_END = "\u21b5"
POLL = 0.5
"""Seconds between two looks at running jobs; nothing is asked once they have ended."""
FEW = 3
"""Jobs that wait: as many have one line; fewer have a bar each."""
STYLE = """<style>
[data-testid="stMainBlockContainer"] {padding: 3.6rem 1.5rem 2rem}
[data-testid="stMainBlockContainer"] > div > [data-testid="stVerticalBlock"] {gap: .7rem}
.st-key-verdict {
  border-left: 4px solid light-dark(#C1440E, #FF7A3D); padding: .15rem 0 .15rem .9rem;
}
.st-key-verdict-clean {
  border-left: 4px solid light-dark(#1F6FB4, #5AA9F0); padding: .15rem 0 .15rem .9rem;
}
[class*="st-key-verdict"], [class*="st-key-verdict"] [data-testid="stVerticalBlock"] {gap: .1rem}
[class*="st-key-verdict"] [data-testid="stElementContainer"]:first-child [data-testid="stText"] {
  font-size: 1.25rem; font-weight: 650; line-height: 1.35;
}
@media (max-width: 760px) {
  .st-key-judged [data-testid="stColumn"] {min-width: calc(100% - 1.5rem)}
  .st-key-judged [data-testid="stHorizontalBlock"], .st-key-judged [data-testid="stVerticalBlock"] {
    gap: .5rem; justify-content: flex-start;
  }
  .st-key-judged [data-testid="stButton"] button {padding: .25rem .6rem}
}
@media (max-width: 640px) {
  [class*="st-key-verdict"] [data-testid="stText"] {font-size: .9rem; line-height: 1.4}
  [class*="st-key-verdict"] [data-testid="stElementContainer"]:first-child [data-testid="stText"] {
    font-size: 1.05rem;
  }
}
@media (max-width: 1100px) {
  [class*="st-key-beside-"] [data-testid="stColumn"] {min-width: 100%}
  [data-testid="stButtonGroup"] button[data-variant="segmented_control"]:not([data-selected]) {
    border-left-color: light-dark(#d5d8de, #41444e) !important;
  }
}
@media (max-width: 1000px) {.st-key-lesson [data-testid="stColumn"] {min-width: 100%}}
.st-key-curves [data-testid="stHorizontalBlock"] {
  display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(max(min(22rem, 100%), (100% - 2rem) / 3), 1fr));
}
.st-key-curves [data-testid="stColumn"] {width: auto; min-width: 0}
[data-testid="stTable"] td [data-testid="stMarkdownContainer"] {max-width: none}
.st-key-code, .st-key-numbers, .st-key-words {display: none}
[data-testid="stLayoutWrapper"]:has(> * > .st-key-numbers:only-child) {display: none}
[data-testid="stLayoutWrapper"]:has(> .st-key-status) {position: sticky; bottom: 0; z-index: 2}
.st-key-status {
  padding: .2rem 0;
  background: light-dark(#ffffff, #171614); border-top: 1px solid light-dark(#d5d8de, #41444e);
}
.st-key-status [data-testid="stText"] {
  font-size: .75rem; line-height: 1.3; opacity: .8; white-space: normal;
}
@media (max-width: 1100px) {
  [data-testid="stLayoutWrapper"]:has(> .st-key-status) {position: static}
}
.st-key-room {min-height: 15.7rem}
.st-key-room-seen {min-height: 11.8rem}
.st-key-room > div, .st-key-room-seen > div {width: 70%}
@media (max-width: 1100px) {.st-key-room, .st-key-room-seen {min-height: 19rem}}
@media (max-width: 640px) {.st-key-room, .st-key-room-seen {min-height: 38rem}}
.st-key-bar, .st-key-bar-judged {gap: .3rem .6rem}
.st-key-bar-judged {margin-top: -.5rem}
.st-key-bar-judged [data-testid="stSelectbox"] div {font-size: .85rem}
.st-key-bar-judged [data-testid="stText"] {font-size: .8rem; white-space: normal}
.st-key-bar [data-testid="stButtonGroup"] button {padding: 0 .5rem; font-size: .8rem}
[class*="st-key-bar"] [data-testid="stPopover"] button {font-size: .85rem; padding: .25rem .6rem}
[class*="st-key-badge-"] button {font-weight: 600}
.st-key-badge-naive button {color: light-dark(#C1440E, #FF7A3D)}
.st-key-badge-partly button {color: light-dark(#8A6A00, #FFD24A)}
.st-key-badge-exact button {color: light-dark(#1F6FB4, #5AA9F0)}
.st-key-coach {
  background: rgba(31, 111, 180, .09); border-radius: .5rem; padding: .2rem .4rem .2rem .9rem;
}
.st-key-coach [data-testid="stElementContainer"]:first-child {flex: 1 1 20rem}
.st-key-junction-title [data-testid="stVerticalBlock"], .st-key-junction-title {gap: 0}
.st-key-junction-title [data-testid="stElementContainer"]:first-child [data-testid="stText"] {
  font-size: 1.1rem; font-weight: 650;
}
.st-key-junction-facts {gap: 0 2rem}
.st-key-histograms [data-testid="stHorizontalBlock"] {flex-wrap: nowrap; overflow-x: auto}
@media (max-width: 640px) {
  .st-key-matrix {overflow-x: auto}
  .st-key-matrix > [data-testid="stElementContainer"] {min-width: 34rem}
}
.st-key-histograms [data-testid="stColumn"] {min-width: 11rem}
[data-testid="stTopNavLink"]:focus-visible, [data-testid="stSidebarNavLink"]:focus-visible,
[data-testid="stElementToolbarButton"] button:focus-visible {
  outline: 2px solid light-dark(#1F6FB4, #5AA9F0); outline-offset: -1px;
}
[data-testid="stHeading"] h2 {padding: .2rem 0 .3rem; font-size: 1.7rem}
[data-testid="stHeading"] h3 {padding: .5rem 0 .1rem; font-size: 1.1rem}
[data-testid="stMetricValue"] {font-size: 1.25rem}
div[data-testid="stCaptionContainer"] {opacity: .75}
button[data-testid="stBaseButton-primary"], [data-testid="stMultiSelect"] span[data-tag] {
  color: hsl(from currentcolor h 0 clamp(0, (50 - l) * 100, 100));
}
</style>"""
"""Our own static CSS; nothing of a trace ever enters it."""


def style() -> None:
    """Less empty space than Streamlit's own, and the look of the verdict."""
    st.html(STYLE)


def theme() -> Theme:
    """Colours that fit the reader's light or dark page, on its own ground."""
    found = THEMES.get(st.context.theme.type or LIGHT.name, LIGHT)
    text = st.get_option(f"theme.{found.name}.textColor") or st.get_option("theme.textColor")
    classes = {**found.classes, "none": CLEAR}
    return replace(found, background=CLEAR, text=text or found.text, classes=classes)


def beside(
    name: str, *, gap: Literal["medium", "large"] = "medium"
) -> tuple[DeltaGenerator, DeltaGenerator]:
    """Two columns that stand below one another where a window is too narrow for what they hold.

    Args:
        name: no other columns of the page have it.
        gap: between them.
    """
    left, right = st.container(key=f"beside-{name}").columns(2, gap=gap)
    return left, right


def show_error(error: MwvizError, what: str = "mwviz cannot show this.") -> None:
    """Says what went wrong; the message may quote a trace, so it is never read as markdown.

    Args:
        error: why.
        what: did not happen, in our words.
    """
    st.error(what, icon=":material/error:")
    st.text(visible(state.in_own_names(str(error))))


def empty(why: str, what_to_do: str) -> None:
    """An empty place: why it is empty, and what fills it. Both are our words, never a trace's."""
    st.info(f"{why} {what_to_do}", icon=":material/info:")


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """The table with every text cell made safe to show."""
    texts = table.select_dtypes(include=["object", "string"])
    safe = texts.map(lambda cell: visible(cell, keep="") if isinstance(cell, str) else cell)
    return table.assign(**safe)


def token_text(text: str) -> str:
    """A token's text in one line, safe to show; the end of a line is the sign of the text pane."""
    return visible(text.replace("\n", LINE_END), keep="")


def picked(table: pd.DataFrame, **look: Any) -> int | None:
    """Shows a table of which one row can be picked; gives that row's place.

    Args:
        table: what is shown.
        look: as `st.dataframe` takes it.
    """
    found = st.dataframe(
        table, hide_index=True, on_select="rerun", selection_mode="single-row", **look
    )
    rows = found["selection"]["rows"]
    return int(rows[0]) if rows else None


def show_jobs(jobs: list[JobState]) -> None:
    """Progress of the jobs that live, and why those that ended without a result did.

    They can be cancelled; when one ends the page runs once more.
    """
    live = tuple(job.job.id for job in jobs if job.live)
    if live:
        _watch(live)
    for job in jobs:
        if job.status == "failed":
            st.error("The job failed.", icon=":material/error:")
            st.text(f"{title(job)}: {visible(job.message)}")
            if job.log:
                with st.expander("The last lines of its log"):
                    st.code(visible("\n".join(job.log)), language=None, wrap_lines=True)
        elif job.status == "cancelled":
            st.info("The job was cancelled.", icon=":material/info:")


@st.fragment(run_every=POLL)
def _watch(live: tuple[str, ...]) -> None:
    jobs = [job for job_id in live if (job := state.job(job_id)) is not None]
    several = len({job.job.model for job in jobs}) > 1
    if not all(job.live for job in jobs):
        st.rerun()
    behind = [job for job in jobs if job.status == "waiting"]
    if len(behind) == len(jobs):
        behind = behind[1:]  # none runs yet: the first is shown as the one that will

    def named(job: JobState) -> str:
        return f"{title(job)} with {_plain(job.job.model)}" if several else title(job)

    if len(behind) < FEW:
        behind = []
    for job in (job for job in jobs if job not in behind):
        with st.container(horizontal=True, vertical_alignment="center"):
            share = job.done / job.total if job.total else 0.0
            st.progress(share, text=f"{named(job)}: {progress(job)}")
            st.button(
                "Cancel",
                key=f"cancel-{job.job.id}",
                disabled=job.stopping,
                on_click=state.cancel,
                args=([job],),
            )
    if behind:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.text(f"Then {', '.join(map(named, behind))}.")
            st.button("Cancel these", key="cancel-behind", on_click=state.cancel, args=(behind,))


def _plain(model: str | None) -> str:
    """A model's name without what the caption of a bar would read as markup."""
    return re.sub(r"[^\w.+· /-]", " ", checkpoints.shown(model))


TITLES = {
    "causes": "why a token drifts under {method}",
    "attention": "where a token looks under {method}",
    "undo": "what an eviction cost",
    "distances": "how far {method} is off",
    "estimate": "what training {method} will take",
    "train": "training {method}",
}
"""What a job of each kind does; others are named by their method."""


def title(job: JobState) -> str:
    """What a job does, in our words."""
    return TITLES.get(job.job.kind, "{method}").format(method=job.job.method)


def progress(job: JobState, *, of: str = "") -> str:
    """How far a job is, in words; `of` says whose steps are counted."""
    if job.status == "waiting":
        return "waiting for the jobs before it"
    if job.stopping:
        return "stops after its current step"
    if not job.total or job.eta is None:
        return "loading the model"
    if not job.done:
        return f"begun, 0 of {job.total:,}{of} so far"
    told = f"{job.done:,} of {job.total:,}{of}"
    return f"{told}, {duration(job.eta)} left" if job.eta else told  # not known yet, or the end


def model_picker(place: str, opened: Opened | None) -> str | None:
    """Asks for a model; another one than the first stays when checkpoints join the list.

    Args:
        place: Where it is asked; each place keeps its own choice.
        opened: the rollout it is for, which decides what is offered first.

    Returns:
        Its name; None is the embedded model.
    """
    offered = state.models(opened)
    kept = f"{place}-model"
    before = st.session_state.get(kept, offered[0])
    at = offered.index(before) if before in offered else 0
    chosen = st.selectbox("Model", offered, at, format_func=checkpoints.shown)
    if chosen == offered[0]:
        st.session_state.pop(kept, None)  # what fits another rollout best may be another one
    else:
        st.session_state[kept] = chosen
    return chosen
