"""What is computed once for all sessions: traces, payloads, comparisons, rows of the triage.

Keys are files as they are now and names, never arrays.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import streamlit as st

from mwviz import demos, store
from mwviz.analysis import analyse
from mwviz.compare import Comparison
from mwviz.engine.scores import Scores
from mwviz.errors import MwvizError
from mwviz.payload import pack
from mwviz.trace import Trace, load
from mwviz.training.advantage import reward_advantages
from mwviz.verdict import Verdict, refusal
from mwviz.verdict import judge as judge_view
from mwviz.views import METHODS
from mwviz_app import triage
from mwviz_app.scored import Judged
from mwviz_app.sources import Version


class Held(NamedTuple):
    """What a file holds."""

    rollouts: int
    error: str
    """Why it cannot be read; "" if it can."""


@st.cache_resource(max_entries=4, show_spinner="Reading the trace")
def trace(version: Version) -> Trace:
    """The trace in a file."""
    return load(version.path)


@st.cache_resource(max_entries=5_000, show_spinner=False)
def held(version: Version) -> Held:
    """How many rollouts a file holds: known without reading it again."""
    try:
        return Held(len(trace(version).rollouts), "")
    except MwvizError as error:
        return Held(0, str(error))


@st.cache_resource(max_entries=16, show_spinner=False)
def advantages(version: Version) -> tuple[float, ...]:
    """The advantage of each rollout of a file by their rewards.

    Raises:
        TraceError: The rewards do not tell one.
    """
    return reward_advantages(trace(version).rollouts)


@st.cache_resource(max_entries=20_000, show_spinner=False)
def triaged(version: Version, rollout: int) -> triage.Row:
    """One rollout judged by structure; what was built for it is not kept."""
    return triage.row(analyse(trace(version).rollouts[rollout]))


@st.cache_resource(max_entries=8, show_spinner="Rebuilding every context")
def payload(version: Version, rollout: int, judged: tuple[Judged, ...]) -> bytes:
    """What the workbench draws of a rollout."""
    analysis = trace(version).analyses[rollout]
    found = comparisons(version, rollout, judged)
    able = [method.name for method in METHODS if not refusal(analysis, method.name)]
    return pack(analysis, able, found)


@st.cache_resource(max_entries=16, show_spinner="Comparing views with the true contexts")
def comparisons(
    version: Version, rollout: int, judged: tuple[Judged, ...]
) -> dict[str, Comparison]:
    """Every scored view of a rollout beside its judge, by method; students have their own rows'."""
    analysis = trace(version).analyses[rollout]
    found: dict[str, Comparison] = {}
    for key, judge in judged:
        view, truth = scores(key), scores(judge)
        if view is not None and truth is not None:
            found[key.method] = analysis.compared(view, truth)
            for name in (m.name for m in METHODS if m.student == key.method):
                found[name] = analysis.compared(replace(view, method=name), truth)
    return found


@st.cache_resource(max_entries=64, show_spinner=False)
def verdict(version: Version, rollout: int, judged: tuple[Judged, ...], view: str) -> Verdict:
    """The verdict on one view of a rollout, with its drift where it is scored."""
    analysis = trace(version).analyses[rollout]
    return judge_view(analysis, view, comparisons(version, rollout, judged).get(view))


@st.cache_resource(max_entries=64, show_spinner=False)
def scores(key: store.Key) -> Scores | None:
    """Scores that ship with a demo or lie in the score cache; None if they are gone."""
    for demo in demos.DEMOS:
        if key in demos.kept_keys(demo):
            return store.read(demos.FOLDER / f"{demo.name}.{key.method}.npz", key).scores
    return store.load(key).scores


@st.cache_resource
def upload_folder() -> Path:
    """Where uploads lie while the app runs."""
    folder = Path(tempfile.mkdtemp(prefix="mwviz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
