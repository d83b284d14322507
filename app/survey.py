"""All rollouts of all traces: structure, and drift where it was run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mwviz.errors import TraceError
from mwviz.scoring import REFERENCE
from mwviz_app import kept, state, whose
from mwviz_app.sources import Source, version_of
from mwviz_app.state import Opened
from mwviz_app.triage import JUDGED, Row, drift


def rollouts(limit: int) -> Iterator[tuple[Opened | None, Row]]:
    """At most `limit` rollouts of all traces judged by structure, and where each is opened.

    A file that cannot be read is a row that says why, and nowhere to go. The demos are there if
    nothing else is.
    """
    made = 0
    for trace_id, source in _sources():
        if made >= limit:
            return
        try:
            version = version_of(source.path)
        except TraceError as error:
            made += 1
            yield None, {"trace": source.name, "verdict": source.in_own_name(str(error))}
            continue
        found = kept.held(version)
        if found.error:
            made += 1
            yield None, {"trace": source.name, "verdict": source.in_own_name(found.error)}
        for index in range(min(found.rollouts, limit - made)):
            made += 1
            row = kept.triaged(version, index)
            place = Opened(trace_id, index)
            yield place, {"trace": source.name, **row, **_drift(place, source, str(row["rollout"]))}


class Left(NamedTuple):
    """What a limit leaves out."""

    rollouts: int
    """Of the last file that was read."""
    files: int
    """That were not read."""


def left_out(limit: int) -> Left:
    """What `rollouts` does not judge under a limit, asked after it: no file is read for this."""
    made = rollouts = files = 0
    for _, source in _sources():
        if made >= limit:
            files += 1
            continue
        try:
            held = max(kept.held(version_of(source.path)).rollouts, 1)
        except TraceError:
            held = 1
        rollouts += max(held - (limit - made), 0)
        made += held
    return Left(rollouts, files)


def _sources() -> Iterator[tuple[str, Source]]:
    """The traces that are judged: the demos only if there is no other."""
    demos_too = state.only_demos()
    for trace_id, source in state.traces().items():
        if demos_too or source.origin != "demo":
            yield trace_id, source


def _drift(place: Opened, source: Source, rollout: str) -> Row:
    """Drift of `rightmost`, as far as the rollout was scored: nothing is built for others."""
    path = str(source.path)
    ran = any((s.job.trace, s.job.rollout) == (path, rollout) for s in state.worker().states())
    if not ran and source.origin != "demo":
        return {}
    shown = whose.shown(place)
    setup = next(iter(state.scored(shown)), None)
    return drift(state.comparisons(shown, setup, REFERENCE).get(JUDGED[0]))
