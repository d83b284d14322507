"""Two models of a training run, sent to the Debug page to be subtracted from one another."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

import streamlit as st

from mwviz.display import visible
from mwviz.engine.chain import ABOUT
from mwviz.engine.embedded import EMBEDDED
from mwviz.errors import ModelError, MwvizError
from mwviz.training.results import Results
from mwviz.verdict import refusal
from mwviz_app import asked, checkpoints, runs, state, widgets
from mwviz_app.lab import Run
from mwviz_app.state import Opened

START = "the model before training"
TRUE = ("packed_mask", "logit_tree", "union_mask", "call_by_call")
"""Views that hold true contexts; the first one that can lay a rollout out is compared."""
UNKNOWN = "The app was started without the traces of this run."
NAME_IT = "Start it with one of them, then come back:"
GONE = "The traces of this run are gone."
WIDTH, WIDER = 270, 420
"""Pixels of the pickers of a model and of a rollout: usual names are seen whole."""


class Arm(NamedTuple):
    """A model that a run has: a checkpoint, or what all arms began from."""

    told: str
    model: str | None
    """As the worker loads it; None is the embedded one."""


def offer(run: Run) -> None:
    """Asks for two models of a run and a rollout of it, and leads to their difference in Debug."""
    found = _arms(run)
    if len(found) <= 1:
        return
    st.subheader("Compare two of its models in Debug")
    rollouts = _rollouts(run)
    if not rollouts:
        _tell_how_to_name(run)
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        names = [arm.told for arm in found]
        a = st.selectbox("A", names, 0, key=f"arms-a-{run.id}", width=WIDTH)
        b = st.selectbox("B", names, 1, key=f"arms-b-{run.id}", width=WIDTH)
        opened = st.selectbox(
            "On rollout",
            list(rollouts),
            format_func=lambda one: visible(rollouts[one], keep=""),
            key=f"arms-rollout-{run.id}",
            width=WIDER,
        )
        pressed = st.button(
            "Compare in Debug",
            icon=":material/compare_arrows:",
            disabled=a == b,
            help="Runs both on the rollout's true contexts, then shows B - A for every token.",
        )
    st.caption("Log p of every sampled token in its true context: of B minus of A, in nats.")
    if pressed:
        by_name = {arm.told: arm for arm in found}
        _compare(opened, by_name[a], by_name[b])


def _arms(run: Run) -> list[Arm]:
    """The checkpoints of a run, in the order of its arms, then its start if the app offers it."""
    results = Results(run.folder, run.plan)
    found = [
        Arm(f"{arm} (after {status.step} steps)", str(results.checkpoint(arm)))
        for arm, status in run.arms.items()
        if (results.checkpoint(arm) / ABOUT).is_file()
    ]
    model = None if run.plan.model == EMBEDDED else run.plan.model
    if run.plan.adapter is None and model in state.models():
        found.append(Arm(START, model))
    return found


def _rollouts(run: Run) -> dict[Opened, str]:
    """The run's rollouts that are offered here, trained ones first, by their names."""
    plan = run.plan
    by_path = {str(source.path): trace for trace, source in state.traces().items()}
    found: dict[Opened, str] = {}
    for path in dict.fromkeys((*plan.files, *plan.held_out)):
        trace = by_path.get(str(Path(path)))
        if trace is None:
            continue
        try:
            rollouts = state.trace(trace).rollouts
        except MwvizError:
            continue  # the Open page says why the file cannot be read
        wanted = set(plan.rollouts) if path in plan.files else set()
        for index, rollout in enumerate(rollouts):
            if not wanted or rollout.id in wanted:
                found[Opened(trace, index)] = f"{state.source(trace).name} · {rollout.id}"
    return found


def _tell_how_to_name(run: Run) -> None:
    """What to do where the app was started without the traces of a run."""
    there = [path for path in (*run.plan.files, *run.plan.held_out) if Path(path).exists()]
    if not there:
        widgets.empty(GONE, "Without one of them its models cannot be compared here.")
        return
    widgets.empty(UNKNOWN, NAME_IT)
    command = shlex.join(["mwviz", "app", *dict.fromkeys(there)])
    st.code(command, language=None, wrap_lines=True)


def _compare(opened: Opened, a: Arm, b: Arm) -> None:
    analysis = state.analysis(opened)
    view = next((name for name in TRUE if not refusal(analysis, name)), None)
    if view is None:
        widgets.empty("No view holds this rollout's true contexts.", "Choose another rollout.")
        return
    try:
        names = [checkpoints.scored_as(arm.model) for arm in (a, b)]
    except ModelError as error:
        widgets.show_error(error)
        return
    state.open_rollout(opened)
    state.set_view(view)
    for arm in (a, b):
        runs.start(opened, (view,), arm.model)
    asked.await_models(opened, asked.Sides(names[0], names[1], view))
    st.switch_page("debug_page.py")
