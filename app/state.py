"""All session state and caches of the app, behind typed functions.

Nothing here holds an array as a key, and no tensor ever enters the session.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st

from mwviz.analysis import Analysis, Trace, load
from mwviz.payload import pack
from mwviz.serve import Launch
from mwviz_app.jobs import JobState, Worker

SUFFIXES = (".json", ".jsonl", ".gz", ".zst")
"""Files of a folder that may be traces."""
MOST_TRACES = 1_000
"""Files offered of one folder."""


class Opened(NamedTuple):
    """The rollout that the session looks at."""

    trace: str
    """Id of the trace file, as `traces` gives it."""
    rollout: int
    """Index of the rollout in it."""


class Version(NamedTuple):
    """A file as it is now: the key of everything that was read from it."""

    path: str
    bytes: int
    changed: int
    """Time of the last change in nanoseconds since the epoch."""


class Selection(NamedTuple):
    """What all views of a rollout have chosen together."""

    call: int
    segment: int


def launch() -> Launch:
    """What the user named on the command line of `mwviz app`."""
    return Launch.from_arguments(sys.argv)


def traces() -> dict[str, Path]:
    """The trace files of this start by id; the browser only ever names the id."""
    found: list[Path] = []
    for path in map(Path, launch().paths):
        inside = (file for file in sorted(path.rglob("*")) if file.name.endswith(SUFFIXES))
        found += [path] if path.is_file() else list(inside)[:MOST_TRACES]
    return {hashlib.blake2b(str(p).encode(), digest_size=8).hexdigest(): p for p in found}


def trace(trace_id: str) -> Trace:
    """The trace of an id, read once for each version of its file.

    Raises:
        TraceError: The file cannot be read as a trace.
    """
    return _trace(_version(traces()[trace_id]))


def analysis(opened: Opened) -> Analysis:
    """The analysis of a rollout, shared by all sessions."""
    return trace(opened.trace).analyses[opened.rollout]


def payload(opened: Opened) -> bytes:
    """What the workbench draws of a rollout."""
    return _payload(_version(traces()[opened.trace]), opened.rollout)


def opened() -> Opened | None:
    """The rollout this session looks at: its choice, else the first; None if there is none."""
    chosen: Opened | None = st.session_state.get("opened")
    if chosen is not None:
        return chosen
    first = next(iter(traces()), None)
    return Opened(first, 0) if first else None


def open_rollout(chosen: Opened) -> None:
    """Makes `chosen` the rollout of this session."""
    st.session_state["opened"] = chosen
    select(None)


def _version(path: Path) -> Version:
    status = path.stat()
    return Version(str(path), status.st_size, status.st_mtime_ns)


@st.cache_resource(max_entries=4, show_spinner="Reading the trace")
def _trace(version: Version) -> Trace:
    return load(version.path)


@st.cache_resource(max_entries=8, show_spinner="Rebuilding every context")
def _payload(version: Version, rollout: int) -> bytes:
    analysis = _trace(version).analyses[rollout]
    return pack(analysis.tree, lambda token: analysis.decoder.decode([token])[0].encode())


@st.cache_resource
def worker() -> Worker:
    """The worker process of this server, shared by all sessions; it starts with the first job."""
    return Worker()


def job(job_id: str) -> JobState | None:
    """A job as it is now; None if this server does not know it."""
    return worker().state(job_id)


def selection() -> Selection | None:
    """The selection of this session; None before the first one."""
    chosen: Selection | None = st.session_state.get("selection")
    return chosen


def select(chosen: Selection | None) -> None:
    """Makes `chosen` the selection of this session."""
    st.session_state["selection"] = chosen


def sent_selection(key: str) -> Selection | None:
    """The selection that component `key` sent from the browser; None if it is not a valid one."""
    component: Any = st.session_state.get(key)
    sent = component.get("selection") if component else None
    if not isinstance(sent, dict):
        return None
    call, segment = sent.get("call"), sent.get("segment")
    if not isinstance(call, int) or not isinstance(segment, int):
        return None
    return Selection(call, segment) if call >= 0 and segment >= 0 else None
