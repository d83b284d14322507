"""All session state and caches of the app, behind typed functions.

Nothing here holds an array as a key, and no tensor ever enters the session.
"""

from __future__ import annotations

import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import streamlit as st

from mwviz import demos, store
from mwviz.analysis import EXACT, Analysis, Trace, load
from mwviz.compare import Comparison
from mwviz.engine.scores import Scores
from mwviz.payload import pack
from mwviz.scoring import REFERENCE
from mwviz.serve import Launch
from mwviz.verdict import refusal
from mwviz.views import METHODS, method_named
from mwviz.worker import Job
from mwviz_app import sources
from mwviz_app.jobs import JobState, Worker
from mwviz_app.scored import Judged, Scored, Setup, by_setup, judged
from mwviz_app.sources import Source, Version, version_of

MOST_RECENT = 5


class Opened(NamedTuple):
    """The rollout that the session looks at."""

    trace: str
    """Id of the trace file, as `traces` gives it."""
    rollout: int
    """Index of the rollout in it."""


class Selection(NamedTuple):
    """What all views of a rollout have chosen together."""

    call: int
    segment: int
    target: int | None = None
    """The sampled token; None if a whole segment is chosen."""


class Order(NamedTuple):
    """A selection that the browser is to show, although nobody clicked there."""

    serial: int
    """Grows with each: the same selection may be ordered again."""
    selection: Selection


VIEW = "view"
"""Key of the widget that picks the training view."""


def launch() -> Launch:
    """What the user named on the command line of `mwviz app`."""
    return Launch.from_arguments(sys.argv)


def traces() -> dict[str, Source]:
    """The traces of this session by id; the browser only ever names the id."""
    uploads: dict[str, Source] = st.session_state.get("uploads", {})
    return {**sources.named(launch()), **uploads, **sources.built_in()}


def add_upload(name: str, content: bytes) -> str:
    """Keeps an uploaded trace while the app runs; its id."""
    trace_id = sources.digest(content)
    path = _upload_folder() / trace_id
    if not path.exists():
        path.write_bytes(content)
    uploads = st.session_state.setdefault("uploads", {})
    uploads[trace_id] = Source(name, path, "upload")
    return trace_id


def trace(trace_id: str) -> Trace:
    """The trace of an id, read once for each version of its file.

    Raises:
        TraceError: The file cannot be read as a trace.
    """
    return _trace(version_of(traces()[trace_id].path))


def analysis(opened: Opened) -> Analysis:
    """The analysis of a rollout, shared by all sessions."""
    return trace(opened.trace).analyses[opened.rollout]


def payload(opened: Opened, setup: Setup | None, against: str) -> bytes:
    """What the workbench draws of a rollout: every view, and the drift of those that are scored."""
    version = version_of(traces()[opened.trace].path)
    return _payload(version, opened.rollout, _judged(opened, setup, against))


def comparisons(opened: Opened, setup: Setup | None, against: str) -> dict[str, Comparison]:
    """Every scored view beside an exact method: `against`, or another if it cannot judge it."""
    version = version_of(traces()[opened.trace].path)
    return _comparisons(version, opened.rollout, _judged(opened, setup, against))


def opened() -> Opened | None:
    """The rollout of this session: its choice, else the first named at the start, else a demo.

    None if what was named at the start holds no trace.
    """
    chosen: Opened | None = st.session_state.get("opened")
    known = traces()
    if chosen is not None and chosen.trace in known:
        return chosen
    wanted = "start" if launch().paths else "demo"
    first = next((key for key, source in known.items() if source.origin == wanted), None)
    return Opened(first, 0) if first else None


def open_rollout(chosen: Opened) -> None:
    """Makes `chosen` the rollout of this session."""
    st.session_state["opened"] = chosen
    earlier = [kept for kept in recent() if kept != chosen]
    st.session_state["recent"] = [chosen, *earlier][:MOST_RECENT]
    select(None)


def is_new(widget: str, value: object) -> bool:
    """True once for every value a widget takes after another; remembers it."""
    seen = st.session_state.setdefault("seen", {})
    fresh = value is not None and seen.get(widget) != value
    seen[widget] = value
    return fresh


def recent() -> list[Opened]:
    """Rollouts this session has opened, the latest first."""
    kept: list[Opened] = st.session_state.get("recent", [])
    return [chosen for chosen in kept if chosen.trace in traces()]


def view() -> str:
    """The training view of this session."""
    chosen: str = st.session_state.setdefault(VIEW, METHODS[0].name)
    return chosen


def set_view(method: str) -> None:
    """Chooses the training view, as its picker does."""
    st.session_state[VIEW] = method


def selection() -> Selection | None:
    """The selection of this session; None before the first one."""
    chosen: Selection | None = st.session_state.get("selection")
    return chosen


def select(chosen: Selection | None) -> None:
    """Makes `chosen` the selection of this session."""
    st.session_state["selection"] = chosen


def order(chosen: Selection) -> None:
    """Makes `chosen` the selection, and has the browser show it."""
    select(chosen)
    before = ordered()
    st.session_state["order"] = Order(before.serial + 1 if before else 0, chosen)


def ordered() -> Order | None:
    """The last selection that Python made; None if the browser made all."""
    last: Order | None = st.session_state.get("order")
    return last


def sent_selection(key: str) -> Selection | None:
    """The selection that component `key` sent from the browser; None if it is not a valid one."""
    component: Any = st.session_state.get(key)
    sent = component.get("selection") if component else None
    if not isinstance(sent, dict):
        return None
    call, segment, target = sent.get("call"), sent.get("segment"), sent.get("target")
    if not _is_index(call) or not _is_index(segment):
        return None
    return Selection(call, segment, target if _is_index(target) else None)


@st.cache_resource
def worker() -> Worker:
    """The worker process of this server, shared by all sessions; it starts with the first job."""
    return Worker()


def job(job_id: str) -> JobState | None:
    """A job as it is now; None if this server does not know it."""
    return worker().state(job_id)


def jobs_of(opened: Opened) -> list[JobState]:
    """The last job of each method and model on a rollout, whichever session started it."""
    path, rollout = str(traces()[opened.trace].path), analysis(opened).rollout.id
    last: dict[tuple[str, str | None], JobState] = {}
    for found in worker().states():
        if (found.job.trace, found.job.rollout) == (path, rollout):
            last[found.job.method, found.job.model] = found
    return list(last.values())


def run(opened: Opened, methods: tuple[str, ...], model: str | None) -> None:
    """Queues methods that can lay the rollout out, and the exact ones they are judged by."""
    methods = tuple(name for name in methods if not refusal(analysis(opened), name))
    judges = (REFERENCE if method_named(name).exact else EXACT for name in methods)
    live = {(s.job.method, s.job.model) for s in jobs_of(opened) if s.live}
    path, rollout = str(traces()[opened.trace].path), analysis(opened).rollout.id
    for method in dict.fromkeys([*methods, *judges]):
        if (method, model) not in live:
            name = uuid.uuid4().hex
            job = Job(name, "score", path, rollout, method, model, launch().device)
            worker().submit(job)


def scored(opened: Opened) -> Scored:
    """Where the scores of a rollout lie; the setup used last comes first."""
    return by_setup([*_shipped(opened), *_finished(opened)], analysis(opened).digest)


def misfits(opened: Opened) -> set[str]:
    """Models whose scores belong to another tree: they have another tokenizer."""
    digest = analysis(opened).digest
    return {key.model for key in _finished(opened) if key.trace != digest}


def _judged(opened: Opened, setup: Setup | None, against: str) -> tuple[Judged, ...]:
    return judged(scored(opened).get(setup, {}), against) if setup else ()


def _shipped(opened: Opened) -> tuple[store.Key, ...]:
    demo = sources.demo_of(opened.trace)
    return demos.kept_keys(demo) if demo else ()


def _finished(opened: Opened) -> list[store.Key]:
    results = [s.result for s in jobs_of(opened) if s.status == "done" and s.result]
    return [store.Key(**result["key"]) for result in results]


def _is_index(sent: object) -> TypeGuard[int]:
    return isinstance(sent, int) and not isinstance(sent, bool) and sent >= 0


@st.cache_resource(max_entries=4, show_spinner="Reading the trace")
def _trace(version: Version) -> Trace:
    return load(version.path)


@st.cache_resource(max_entries=8, show_spinner="Rebuilding every context")
def _payload(version: Version, rollout: int, judged: tuple[Judged, ...]) -> bytes:
    analysis = _trace(version).analyses[rollout]
    found = _comparisons(version, rollout, judged)
    able = [method.name for method in METHODS if not refusal(analysis, method.name)]
    return pack(analysis, able, found)


@st.cache_resource(max_entries=16, show_spinner="Comparing views with the true contexts")
def _comparisons(
    version: Version, rollout: int, judged: tuple[Judged, ...]
) -> dict[str, Comparison]:
    analysis = _trace(version).analyses[rollout]
    found: dict[str, Comparison] = {}
    for key, judge in judged:
        scores, truth = _scores(key), _scores(judge)
        if scores is not None and truth is not None:
            found[key.method] = analysis.compared(scores, truth)
    return found


@st.cache_resource(max_entries=64, show_spinner=False)
def _scores(key: store.Key) -> Scores | None:
    for demo in demos.DEMOS:
        if key in demos.kept_keys(demo):
            return store.read(demos.FOLDER / f"{demo.name}.{key.method}.npz", key).scores
    return store.load(key).scores


@st.cache_resource
def _upload_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="mwviz-"))
