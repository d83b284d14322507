"""What a run shows: how far it is, its curves, before and after, and why an arm ended early."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, SupportsFloat

import pandas as pd
import streamlit as st

from mwviz.display import visible
from mwviz.errors import MwvizError
from mwviz.figures.curves import CURVES, GROUPS, Curve, floors, world_curves
from mwviz.figures.training import bound_figure, curve_figure, eviction_count, left_out
from mwviz.training.endings import help_for
from mwviz.training.outcome import outcome
from mwviz.training.results import before_and_after
from mwviz.wording import counted, digits, listed
from mwviz_app import lab, state, widgets
from mwviz_app.jobs import JobState
from mwviz_app.lab import Run

POLL = 1.0
"""Seconds between two looks at how far a run is; nothing is asked once it has ended."""
REDRAW = 3.0
"""Seconds between two drawings of its curves."""
HEIGHT = 280
CHART = {"displayModeBar": False}
BEFORE_AFTER = (
    "loss_true",
    "drift_diverging",
    "kl",
    "tv",
    "gap_view",
    "flips",
    "cosine",
    "error",
)
"""Columns of the table, before the first step and at the last look."""
EVICTIONS_TOLD = {
    "wrong": "Tokens are grouped by the evictions that the layout gets wrong: of a layout of the "
    "last context (rightmost, sdcc) those after the token, of one that evicts nothing (replay, "
    "sdcc_replay) those before it. At 0 are the tokens for which it gets none wrong: under an "
    "exact layout all.",
    "after": "This run is of an earlier version: its tokens are grouped by the evictions before "
    "them, whatever the layout. Of rightmost and sdcc that is the wrong count, as they get the "
    "evictions after a token wrong; train anew for the right one.",
}
"""How tokens are grouped, by the column of the table that says so."""
IDLE = {"running": "broken off", "waiting": "not finished"}
"""What the state of an arm means once nothing works on it."""
AGAIN = "Mend what is named there, and press Run above."
"""What to do where no arm of a run can come further."""
ONCE = ("coverage", "bound", "floor", "moved")
"""Columns of it at the last look only."""


def progress(run: Run) -> str:
    """How far a run that nothing works on has come, in a word or two."""
    if run.job is not None and run.job.status == "failed":
        return "failed"
    states = [IDLE.get(arm.state, arm.state) for arm in run.arms.values()]
    return next((state for state in states if state != "done"), "done")


def name(run: Run) -> str:
    """A run in a line: when and what. It never changes: pickers know their options by it."""
    recipe = run.plan.recipe
    kind = f"LoRA {recipe.lora_rank}" if recipe.lora_rank else "all weights"
    return (
        f"{run.folder.name} · {', '.join(run.plan.methods)} · {recipe.steps} steps · {kind} · "
        f"{recipe.objective}"
    )


def how_far(run: Run, job: JobState) -> tuple[float, str]:
    """The share of a live run's steps that is done, and how far it is in words.

    Until a resumed run has taken its first step, its job knows of none: its arms do.
    """
    kept = sum(arm.step for arm in run.arms.values())
    of = " steps of all arms"
    if job.status == "running" and job.total and kept and not job.done and not job.stopping:
        return min(1.0, kept / job.total), f"resumed, {kept:,} of {job.total:,}{of} so far"
    return job.done / job.total if job.total else 0.0, widgets.progress(job, of=of)


def follow(folder: Path) -> None:
    """A live run, drawn again as it goes; when it ends, the page runs once more."""
    _watch(folder)
    _draw(folder)


@st.fragment(run_every=POLL)
def _watch(folder: Path) -> None:
    run = _live(folder)
    job = run.job
    assert job is not None
    with st.container(horizontal=True, vertical_alignment="center"):
        share, told = how_far(run, job)
        st.progress(share, text=told)
        if job.status == "running" and job.total and not share and not job.stopping:
            st.caption("First it looks at the watched rollouts, which takes longer than a step.")
        icon = ":material/cancel:"
        st.button("Cancel", on_click=lab.cancel, args=(run,), icon=icon, disabled=job.stopping)


@st.fragment(run_every=REDRAW)
def _draw(folder: Path) -> None:
    show(_live(folder))


def _live(folder: Path) -> Run:
    """The run as it is now; runs the whole page again if it has ended."""
    run = lab.find(folder.name)
    if run is None or not run.live:
        st.rerun()
    return run


def show(run: Run) -> None:
    """Curves, table and failures of a run as far as it has come."""
    _failures(run)
    try:
        steps, watched = lab.rows(run, "steps"), lab.rows(run, "watch")
        lab.rows(run, "junctions")
    except MwvizError as error:
        widgets.show_error(error)
        return
    if len(watched) == 0 and len(steps) == 0:
        if not run.live:
            how = "Press Resume, or start another." if run.resumable else AGAIN
            widgets.empty("This run has taken no step.", how)
        return
    begun = {*watched.get("arm", ()), *steps.get("arm", ())}
    arms = [arm for arm in run.plan.methods if arm in begun]
    st.text("Arms: " + visible(", ".join(f"{arm} ({_how_far(run, arm)})" for arm in arms), keep=""))
    said = (*noted(watched), *notes(steps), *outcome(watched, run.plan))
    for told in said:
        st.text(visible(told, keep=""))
    beside = world_curves(watched.columns)
    groups = (*GROUPS, *dict.fromkeys(curve.group for curve in beside))
    chosen = st.segmented_control(
        "Charts",
        groups,
        default=GROUPS[0],
        required=True,
        key="lab-charts",
        label_visibility="collapsed",
        persist_state="session",
    )
    drawn = [curve for curve in (*CURVES, *beside) if curve.group == chosen]
    with st.container(key="curves"):
        for column, curve in zip(st.columns(len(drawn)), drawn, strict=True):
            with column:
                _chart(run, curve, steps if curve.table == "steps" else watched, floors(watched))
    _before_after(run, watched)


def noted(watched: pd.DataFrame) -> list[str]:
    """What looks note of the rollouts, once for all arms."""
    if "note" not in watched:
        return []
    told = dict.fromkeys(watched["note"].fillna(""))
    return [f"{one[0].upper()}{one[1:]}." for one in told if one]


def notes(steps: pd.DataFrame) -> list[str]:
    """How rows had to be run: an arm's first note, and how many of its steps had one."""
    if "note" not in steps:
        return []
    noted = steps[steps["note"].fillna("") != ""]
    told = []
    for arm, rows in noted.groupby("arm", sort=False):
        first, many = rows.iloc[0], counted(len(rows), "step")
        told.append(f"{arm}, first in step {first.step} and in {many} in all: {first.note}")
    return told


def _chart(run: Run, curve: Curve, rows: pd.DataFrame, noise: Mapping[str, float]) -> None:
    if len(rows) == 0 or curve.column not in rows or rows[curve.column].isna().all():
        st.text(f"{visible(curve.title, keep='')}: nothing known yet. {curve.help}")
        return
    figure = curve_figure(rows, curve, floor=noise.get(curve.floor), theme=widgets.theme())
    key = f"{run.id}-{curve.table}-{curve.column}"
    st.plotly_chart(figure, theme=None, height=HEIGHT, config=CHART, key=key)
    st.caption(f"{curve.help} {curve.noise(noise)}".rstrip())


def _before_after(run: Run, watched: pd.DataFrame) -> None:
    if len(watched) == 0:
        return
    if run.plan.held_out:
        st.subheader("Before and after, on held-out rollouts")
    else:
        st.subheader("Before and after, on the rollouts trained on")
        st.caption("Nothing was held out.")
    table = before_and_after(watched, BEFORE_AFTER)
    last = watched.sort_values("step").groupby("arm", sort=False).last()
    for column in ONCE:
        table[column] = table["arm"].map(last[column])
    numbers: dict[Any, str | Callable[[object], str] | None] = dict.fromkeys(
        table.columns[2:], _told
    )
    st.dataframe(
        widgets.shown(table).style.format(numbers, na_rep="-"),
        hide_index=True,
        height="content",
        placeholder="-",
        alt="Each arm before the first step and at the last look",
    )
    st.caption(
        "loss_true: nats a token in the contexts that tokens were sampled from. drift_diverging: "
        "mean |d| over tokens whose context differs. kl, tv: true context against the view, bound: "
        "what that KL allows tv to be. gap_view: against the recorded log-probabilities. cosine, "
        "error: gradient against the exact one. moved: distance from the start weights. floor: "
        "drift that noise explains."
    )
    st.download_button(
        "Download as CSV",
        lambda: table.to_csv(index=False).encode(),
        f"{run.folder.name}.csv",
        "text/csv",
        icon=":material/download:",
        key=f"csv-{run.folder.name}",
    )
    junctions = lab.rows(run, "junctions")
    if len(junctions):
        latest = junctions[junctions["step"] == junctions.groupby("arm")["step"].transform("max")]
        noise, count = floors(watched), eviction_count(latest)
        figure = bound_figure(latest, floor=noise.get("floor_tv"), theme=widgets.theme())
        key = f"{run.folder.name}-bound"
        st.plotly_chart(figure, theme=None, height=HEIGHT, config=CHART, key=key)
        st.caption(
            "At the last look: strong lines are measured; the faint dotted one of the same colour "
            f"is what the KL allows (Pinsker), the flat one the floor. {EVICTIONS_TOLD[count]}"
        )
        if missing := left_out(latest):
            are = "is" if len(missing) == 1 else "are"
            told = f"{listed(missing)} {are} left out: {'its' if are == 'is' else 'their'} last"
            st.text(visible(f"{told} look is of an earlier version, which counted otherwise."))


def _told(number: object) -> str:
    """A number of the table; it holds no text in these columns."""
    assert isinstance(number, SupportsFloat)
    return digits(float(number), 3)


def _failures(run: Run) -> None:
    job = run.job
    if job is not None and job.status == "failed":
        was = "was refused; nothing was written" if run.refused else "failed; what it has is kept"
        st.error(f"The run {was}.", icon=":material/error:")
        st.text(visible(state.in_own_names(job.message)))
    failed = {arm: status for arm, status in run.arms.items() if status.state == "failed"}
    if failed:
        st.error(_ended([status.step for status in failed.values()]), icon=":material/error:")
    helps = dict[str, list[str]]()
    for arm, status in failed.items():
        why = state.in_own_names(status.message)
        st.text(visible(f"{arm} ({_how_far(run, arm)}): {why}"))
        helps.setdefault(help_for(status.message), []).append(arm)
    for what, arms in helps.items():
        if what:
            same = f"Going on would end {listed(arms)} the same way"
            st.text(visible(f"{same}: {what} above, and press Run."))
    if not run.live and any(status.state == "cancelled" for status in run.arms.values()):
        st.info("The run was cancelled; what it has is kept.", icon=":material/info:")


def _ended(steps: Sequence[int]) -> str:
    """That arms ended early, and what is kept, by the steps that each has taken."""
    one = len(steps) == 1
    told = "An arm ended early" if one else f"{len(steps)} arms ended early"
    if not any(steps):
        return f"{told}, before the first step."
    return f"{told}; {'its' if one else 'their'} last good weights are kept."


def _how_far(run: Run, arm: str) -> str:
    return f"{run.arms[arm].step} of {run.plan.recipe.steps} steps"
