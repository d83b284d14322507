"""What the train lab can train and watch: every trace of the session, read only once it is needed.

A trace that was read is offered rollout by rollout, any other one whole: by its name and size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mwviz.errors import TraceError
from mwviz.wording import counted, stored
from mwviz_app import kept, shared, state
from mwviz_app.kept import Held
from mwviz_app.sources import Source, Version, version_of
from mwviz_app.state import Opened

TRAINED, WATCHED = "summary", "tidy"
"""Demos of a first comparison: minutes on a CPU, which `bench.train_arms` measures."""
UNREAD, GONE = "(cannot be read)", "(gone)"


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
    """Why a trace cannot be read, as far as is known; by id. It stays offered, for its file may be
    whole again later."""
    opened: str | None
    """Id of the open trace; None without one."""
    needed: frozenset[str]
    """Ids of those that are read: the open one, those that were opened or chosen, the first two
    demos."""


def offered(
    opened: Opened | None, trained: Collection[Part] = (), watched: Collection[str] = ()
) -> Offered:
    """All traces of the session, the open one first; no trace is read just to be offered.

    A file that has two ids is offered once.

    Args:
        opened: the open rollout; None without one.
        trained: what was chosen before to train on, which is read.
        watched: ids of traces that were chosen before to be watched, which are read.
    """
    known = _each_file_once(state.traces())
    names, first = _names(known), _open_id(known, opened)
    chosen = {*(part.trace for part in trained), *watched}
    needed = frozenset(
        trace for trace in known if trace in chosen or trace == first or _is_read(trace, known)
    )
    parts, traces, refused = dict[Part, str](), dict[str, str](), dict[str, str]()
    for trace in sorted(known, key=lambda one: one != first):
        look = trace in needed
        try:
            version = version_of(known[trace].path)
            found = kept.held(version) if look else shared.made(kept.held, version)
            why = "" if found is None else _failure(found, version)
        except TraceError as error:
            if not look:
                continue
            why = str(error)
        if why:
            refused[trace] = why
            traces[trace] = f"{names[trace]} {UNREAD}"
            whole = {Part(trace): f"{names[trace]} {UNREAD}"}
            parts |= _missing(trace, names[trace], trained, UNREAD) | whole
            continue
        size = stored(version.bytes)
        told = size if found is None else f"{size}, {counted(found.rollouts, 'rollout')}"
        traces[trace] = f"{names[trace]} ({told})"
        parts |= _missing(trace, names[trace], trained, GONE)
        parts |= _parts(trace, names[trace], size, found)
    return Offered(parts, traces, refused, first, needed)


def suggested(there: Offered) -> tuple[list[Part], list[str]]:
    """What a new comparison trains on, and the traces that it is watched on.

    The first rollout of the open trace; where the user has opened none, two small demos, as the one
    that comes first is the longest by far.
    """
    known = state.traces()
    first = [part for part in there.parts if part.trace not in there.refused][:1]
    if state.is_chosen():
        return first, []
    demos = {known[trace].path.stem: trace for trace in there.traces if trace not in there.refused}
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
    versions = {part.trace: version_of(state.source(part.trace).path) for part in chosen}
    held = {trace: _readable(version) for trace, version in versions.items()}
    places: dict[tuple[str, int], str] = {}
    for part in chosen:
        ids = held[part.trace].ids
        if part.rollout is not None and part.rollout >= len(ids):
            name, now = state.source(part.trace).name, counted(len(ids), "rollout")
            raise TraceError(f"{name}: has {now} now, so rollout {part.rollout + 1} is gone")
        for index in range(len(ids)) if part.rollout is None else (part.rollout,):
            places[part.trace, index] = ids[index]
    files = tuple(version.path for version in versions.values())
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


def _readable(version: Version) -> Held:
    """What a file holds.

    Raises:
        TraceError: it cannot be read, or holds no rollout.
    """
    found = kept.held(version)
    if why := _failure(found, version):
        raise TraceError(why)
    return found


def _failure(found: Held, version: Version) -> str:
    """Why nothing of a file can be trained on or watched; "" if it can."""
    return found.error or ("" if found.ids else f"{version.path}: holds no rollout")


def _each_file_once(known: Mapping[str, Source]) -> dict[str, Source]:
    """The user's own traces, then the demos; a demo that was named at the start is an own one."""
    own = {trace: source for trace, source in known.items() if source.origin != "demo"}
    found: dict[Path, str] = {}
    for trace in {**own, **known}:
        found.setdefault(_place(known[trace]), trace)
    return {trace: known[trace] for trace in found.values()}


def _place(source: Source) -> Path:
    """What is named at the start is resolved then."""
    return source.path.resolve() if source.origin == "demo" else source.path


def _open_id(known: Mapping[str, Source], opened: Opened | None) -> str | None:
    """The id of the open trace among those that are offered."""
    if opened is None:
        return None
    if opened.trace in known:
        return opened.trace
    there = state.traces().get(opened.trace)
    return next((one for one in known if there and _place(known[one]) == _place(there)), None)


def _is_read(trace: str, known: Mapping[str, Source]) -> bool:
    """Whether the session has opened a trace, so that it was read, or begins with it."""
    source = known[trace]
    begun_with = source.origin == "demo" and source.path.stem in (TRAINED, WATCHED)
    return state.was_opened(trace) or (begun_with and not state.is_chosen())


def _names(known: Mapping[str, Source]) -> dict[str, str]:
    """What each trace is called: by its path, or its id, where others have the same name."""
    many = Counter(source.name for source in known.values())
    found = {}
    for trace, source in known.items():
        apart = trace if source.origin == "upload" else str(source.path)
        found[trace] = source.name if many[source.name] == 1 else f"{source.name} ({apart})"
    return found


def _missing(trace: str, name: str, chosen: Iterable[Part], why: str) -> dict[Part, str]:
    """Rollouts of a trace that were chosen, as they are called where the file has them no more."""
    return {
        part: f"{name} · rollout {part.rollout + 1} {why}"
        for part in chosen
        if part.trace == trace and part.rollout is not None
    }


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
