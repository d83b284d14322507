"""The train lab's runs: plans become jobs, folders on disk become tables. No trace text here.

Every run is a folder in the user's data, so that it outlives the tab, the session and the app.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import streamlit as st

from mwviz.errors import MwvizError
from mwviz.jobs import Job
from mwviz.training.endings import can_go_on
from mwviz.training.plan import Plan
from mwviz.training.results import ArmStatus, plan_of, statuses, table, unknown_changes
from mwviz_app import state
from mwviz_app.checkpoints import folder
from mwviz_app.jobs import JobState

MOST_RUNS = 50
"""Runs offered, the latest first."""
CHOSEN = "lab-run"
"""Key of the picker of runs; its value is the name of the run's folder."""


class Run(NamedTuple):
    """One run on disk, or on its way there."""

    folder: Path
    plan: Plan
    arms: dict[str, ArmStatus]
    job: JobState | None
    """The job that works on it, if this start of the app has one."""

    @property
    def id(self) -> str:
        """What it is called in addresses."""
        return self.folder.name

    @property
    def live(self) -> bool:
        """Whether it may still change."""
        return self.job is not None and self.job.live

    @property
    def refused(self) -> bool:
        """Whether its plan was refused before anything was written: nothing can be resumed."""
        failed = self.job is not None and self.job.status == "failed" and not self.job.crashed
        return failed and not (self.folder / "config.json").exists()

    @property
    def resumable(self) -> bool:
        """Whether nothing works on it and some arm may come further."""
        return not (self.live or self.refused) and any(map(can_go_on, self.arms.values()))

    @property
    def unknown(self) -> str:
        """What of its rollouts cannot be told to have changed since it began; "" for nothing."""
        return unknown_changes(self.folder) if (self.folder / "config.json").exists() else ""


class Damaged(NamedTuple):
    """A folder of a run that cannot be read."""

    name: str
    why: str


def damaged() -> list[Damaged]:
    """The runs that `runs` leaves out because their folder is damaged, the latest first."""
    found, jobs = [], _jobs()
    for path in sorted(folder().glob("*/config.json"), reverse=True) if folder().is_dir() else ():
        try:
            statuses(path.parent)
        except MwvizError as error:
            if str(path.parent) not in jobs:
                found.append(Damaged(path.parent.name, str(error)))
    return found


def runs() -> list[Run]:
    """All runs, the latest first; those that cannot be read are left out: see `damaged`."""
    jobs = _jobs()
    folders = {Path(name) for name in jobs}
    if folder().is_dir():
        folders |= {path.parent for path in folder().glob("*/config.json")}
    found = [run for path in folders if (run := _run(path, jobs.get(str(path)))) is not None]
    return sorted(found, key=lambda run: run.folder.name, reverse=True)[:MOST_RUNS]


def find(run: str) -> Run | None:
    """A run by its id, however old; None if there is none, or it cannot be read."""
    path = folder() / run
    return _run(path, _jobs().get(str(path)))


def show(run: str) -> None:
    """Chooses a run by its id, as the picker does."""
    st.session_state[CHOSEN] = run


def offered() -> list[Run]:
    """The runs to choose from: the latest, and one chosen by its address though it is older."""
    found = runs()
    chosen = st.session_state.get(CHOSEN)
    if chosen is not None and chosen not in {run.id for run in found}:
        older = find(chosen)
        found += [older] if older is not None else []
    return found


def choose(runs: Collection[str]) -> None:
    """Chooses the first of these if none of them is chosen."""
    if st.session_state.get(CHOSEN) not in runs:
        show(next(iter(runs)))


def start(plan: Plan) -> None:
    """Queues a new run behind the prediction of what it takes, and shows it."""
    made = folder() / f"{pd.Timestamp.now():%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"
    show(made.name)  # the page may have to start again here, before anything is queued
    ask_estimate(plan)
    _submit(plan, made)


def resume(run: Run) -> None:
    """Queues what is left of a run."""
    _submit(run.plan, run.folder)


def cancel(run: Run) -> None:
    """Stops a run after its current step; what it has is kept."""
    if run.job is not None:
        state.worker().cancel(run.job.job.id)


def estimate(plan: Plan) -> JobState | None:
    """The prediction for a plan: queued once, then as far as it has come; None if not asked."""
    return state.job(_estimate_id(plan))


def ask_estimate(plan: Plan) -> None:
    """Queues the prediction for a plan, unless it was asked for before."""
    _queue(_estimate_id(plan), "estimate", plan, None)


def is_said_of_run(asked: JobState) -> bool:
    """Whether the run that is shown was refused for the reason why a prediction failed."""
    run = find(st.session_state.get(CHOSEN) or "")
    if run is None or run.job is None or not run.refused:
        return False
    return (asked.job.plan, asked.message) == (run.job.job.plan, run.job.message)


def rows(run: Run, name: str) -> pd.DataFrame:
    """One of a run's tables as it is now."""
    return table(run.folder, name)


def _jobs() -> dict[str, JobState]:
    """The last job of every run that this start of the app worked on, by its folder."""
    states = state.worker().states()
    return {job.job.folder: job for job in states if job.job.kind == "train" and job.job.folder}


def _submit(plan: Plan, path: Path) -> None:
    _queue(uuid.uuid4().hex, "train", plan, str(path))


def _queue(name: str, kind: str, plan: Plan, folder: str | None) -> None:
    arms = ", ".join(plan.methods)
    told = plan.to_json()
    job = Job(name, kind, "", "", arms, plan.model, plan.device, plan=told, folder=folder)
    state.worker().submit(job)


def _estimate_id(plan: Plan) -> str:
    text = json.dumps(plan.to_json(), sort_keys=True)
    return f"estimate-{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}"


def _run(path: Path, job: JobState | None) -> Run | None:
    try:
        return Run(path, plan_of(path), statuses(path), job)
    except MwvizError:
        # Not begun: the worker has not reached it, or refused the plan before it wrote anything.
        if job is None or job.job.plan is None:
            return None
        plan = Plan.from_json(job.job.plan)
        return Run(path, plan, dict.fromkeys(plan.methods, ArmStatus("waiting")), job)
