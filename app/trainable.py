"""What the train lab can train and watch: every trace of the session, read only once it is needed.

A trace that was read is offered rollout by rollout, any other one whole: by its name and size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from mwviz.errors import TraceError
from mwviz.wording import counted, stored
from mwviz_app import kept, shared, sources, state
from mwviz_app.kept import Held
from mwviz_app.sources import Source, Version, version_of
from mwviz_app.state import Opened

TRAINED, WATCHED = "summary", "tidy"
"""Demos of a first comparison: minutes on a CPU, which `bench.train_arms` measures."""


class Part(NamedTuple):
    """A trace, or one rollout of it."""

    trace: str
    """Its id, as `state.traces` gives it."""
    rollout: int | None = None
    """Index of the rollout; None for all of them."""


class Offered(NamedTuple):
    """What there is to train on and to watch."""

    parts: dict[Part, str]
    """Names of what can be trained on: those of the open trace first, the demos last."""
    traces: dict[str, str]
    """Names of the traces that can be watched, by id."""
    refused: dict[str, str]
    """Why a trace that was opened or chosen, or a demo, cannot be read; by id."""


def offered(opened: Opened | None, chosen: Container[str] = ()) -> Offered:
    """All traces of the session, the open one first; no trace is read just to be offered.

    Args:
        opened: the open rollout; None without one.
        chosen: ids of traces that were chosen before, which are read.
    """
    known = state.traces()
    names = _names(known)
    parts, traces, refused = dict[Part, str](), dict[str, str](), dict[str, str]()
    for trace in _in_order(known, opened):
        look = trace in chosen or _is_read(trace, opened)
        try:
            version = version_of(known[trace].path)
            found = kept.held(version) if look else shared.made(kept.held, version)
            if found is not None and found.error:
                raise TraceError(found.error)
        except TraceError as error:
            if look:
                refused[trace] = str(error)
            continue
        size = stored(version.bytes)
        told = size if found is None else f"{size}, {counted(found.rollouts, 'rollout')}"
        traces[trace] = f"{names[trace]} ({told})"
        parts |= _parts(trace, names[trace], size, found)
    return Offered(parts, traces, refused)


def suggested(there: Offered) -> tuple[list[Part], list[str]]:
    """What a new comparison trains on, and the traces that it is watched on.

    The first rollout of the open trace; where the user has opened none, two small demos, as the one
    that comes first is the longest by far.
    """
    first, known = list(there.parts)[:1], state.traces()
    if state.is_chosen():
        return first, []
    demos = {known[trace].path.stem: trace for trace in there.traces}
    if not {TRAINED, WATCHED} <= set(demos):
        return first, []
    return [Part(demos[TRAINED], 0)], [demos[WATCHED]]


def still(chosen: Iterable[Part], there: Offered) -> list[Part]:
    """What of an earlier choice is offered now; all of a trace may by now be its one rollout."""
    found = dict.fromkeys(
        part if part in there.parts or part.rollout is not None else Part(part.trace, 0)
        for part in chosen
    )
    return [part for part in found if part in there.parts]


class Chosen(NamedTuple):
    """What was chosen to train on, read."""

    files: tuple[str, ...]
    rollouts: tuple[str, ...]
    """Ids of those that are trained on; empty for all of the files."""
    places: tuple[tuple[Version, int], ...]
    """Each of those, by its file as it is now and its index."""


def read(chosen: Sequence[Part]) -> Chosen:
    """Reads the traces that are trained on.

    Raises:
        TraceError: one cannot be read, or two of its rollouts, one of which is trained on, have
            the same id, by which a plan knows them.
    """
    held = {part.trace: readable(part.trace) for part in chosen}
    places: dict[tuple[str, int], str] = {}
    for part in chosen:
        ids = held[part.trace].ids
        for index in range(len(ids)) if part.rollout is None else (part.rollout,):
            places[part.trace, min(index, len(ids) - 1)] = ids[index]
    files = tuple(str(state.source(trace).path) for trace in held)
    versions = {trace: version_of(state.source(trace).path) for trace in held}
    where = tuple((versions[trace], index) for trace, index in places)
    if len(places) == sum(len(one.ids) for one in held.values()):
        return Chosen(files, (), where)
    wanted = set(places.values())
    for trace, one in held.items():
        for index, name in enumerate(one.ids):
            if name in wanted and (trace, index) not in places:
                raise TraceError(
                    f"{state.source(trace).name}: another rollout {name!r} is trained on, and a "
                    "run knows rollouts by their ids; choose both, or give them ids of their own"
                )
    return Chosen(files, tuple(places.values()), where)


def readable(trace: str) -> Held:
    """What a trace holds, read once for each version of its file.

    Raises:
        TraceError: it cannot be read, or holds no rollout.
    """
    path = state.source(trace).path
    found = kept.held(version_of(path))
    if found.error or not found.ids:
        raise TraceError(found.error or f"{path}: holds no rollout")
    return found


def _in_order(known: Mapping[str, Source], opened: Opened | None) -> list[str]:
    """The open trace, then the user's own, then the demos."""
    first = [opened.trace] if opened is not None and opened.trace in known else []
    own = [trace for trace, source in known.items() if source.origin != "demo"]
    return list(dict.fromkeys((*first, *own, *known)))


def _is_read(trace: str, opened: Opened | None) -> bool:
    """Whether the session has opened a trace, so that it was read; recorded demos are small."""
    if opened is not None and trace == opened.trace:
        return True
    return state.was_opened(trace) or sources.demo_of(trace) is not None


def _names(known: Mapping[str, Source]) -> dict[str, str]:
    """What each trace is called: by its path, or its id, where others have the same name."""
    many = Counter(source.name for source in known.values())
    found = {}
    for trace, source in known.items():
        apart = trace if source.origin == "upload" else str(source.path)
        found[trace] = source.name if many[source.name] == 1 else f"{source.name} ({apart})"
    return found


def _parts(trace: str, name: str, size: str, found: Held | None) -> dict[Part, str]:
    """A trace that is known to hold one rollout is that rollout, and all of it says no more."""
    if found is None:
        return {Part(trace): f"{name} ({size})"}
    parts = {}
    for index, one in enumerate(found.ids):
        again = f" ({index + 1})" if found.ids.count(one) > 1 else ""
        parts[Part(trace, index)] = f"{name} · {one}{again}"
    if found.rollouts > 1:
        parts[Part(trace)] = f"{name} (all {counted(found.rollouts, 'rollout')})"
    return parts
