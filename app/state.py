"""All session state of the app, behind typed functions; `kept` has what sessions share.

No tensor ever enters the session.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeGuard

import streamlit as st

from mwviz import demos, store
from mwviz.analysis import Analysis
from mwviz.compare import Comparison
from mwviz.engine.embedded import AGENT
from mwviz.errors import TraceError
from mwviz.serve import Launch
from mwviz.trace import Trace
from mwviz.verdict import Verdict
from mwviz.views import METHODS
from mwviz_app import checkpoints, kept, memory, serials, sought, sources
from mwviz_app.jobs import JobState, Worker
from mwviz_app.scored import Judged, Scored, Setup, Tokens, by_setup, judged
from mwviz_app.sources import Source, version_of

MOST_LOOKED_INTO = 100
"""Files of which the first that begins as a trace is sought."""
GONE = "The file of this trace is gone from where it was; open another one."
MOST_RECENT = 6
"""Rollouts offered as opened before."""


class Opened(NamedTuple):
    """The rollout that the session looks at."""

    trace: str
    """Id of the trace file, as `traces` gives it."""
    rollout: int
    """Index of the rollout in it."""
    tokens: Tokens | None = None
    """Whose tokens it is shown in; None for those of the trace. See `whose`."""

    @property
    def plain(self) -> Opened:
        """The rollout in the tokens of its trace."""
        return self._replace(tokens=None)


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
    selection: Selection | None
    """None leaves it as it is."""
    sight: Mapping[str, str]
    """What else to show, as `links` reads it."""
    leads: bool = False
    """Whether the page scrolls to where the text and the words about the selection are."""


VIEW = "view"
"""Key of the widget that picks the training view."""
_WHOLE = "drawn-whole"
_RECALLED = "recalled"


def launch() -> Launch:
    """What the user named on the command line of `mwviz app`."""
    return Launch.from_arguments(sys.argv)


def traces() -> dict[str, Source]:
    """The traces of this session by id; the browser only ever names the id."""
    uploads: dict[str, Source] = st.session_state.get("uploads", {})
    return {**kept.named(launch()).traces, **uploads, **sources.built_in(kept.upload_folder())}


def is_cut() -> bool:
    """Whether a folder named at the start holds more traces than are offered of it."""
    return kept.named(launch()).cut


def make_stress() -> None:
    """Makes the demo that no file holds, unless this server has made it before."""
    path = sources.made_path(kept.upload_folder())
    if not path.exists():
        demos.write_stress(path)


def add_upload(name: str, content: bytes) -> str:
    """Keeps an uploaded trace while the app runs; its id."""
    trace_id = sources.digest(content)
    path = kept.upload_folder() / trace_id
    if not path.exists():
        path.write_bytes(content)
    uploads = st.session_state.setdefault("uploads", {})
    uploads[trace_id] = Source(name, path, "upload")
    return trace_id


def in_own_names(message: str) -> str:
    """A message with the names that traces were dropped under instead of where they are kept."""
    for dropped in st.session_state.get("uploads", {}).values():
        message = dropped.in_own_name(message)
    return message


def source(trace_id: str) -> Source:
    """Where the trace of an id comes from.

    Raises:
        TraceError: It is not offered any more: its file is gone.
    """
    found = traces().get(trace_id)
    if found is None:
        raise TraceError(GONE)
    return found


def trace(trace_id: str) -> Trace:
    """The trace of an id, read once for each version of its file.

    Raises:
        TraceError: The file cannot be read as a trace, or is gone.
    """
    return kept.trace(version_of(source(trace_id).path))


def analysis(opened: Opened) -> Analysis:
    """The analysis of a rollout, shared by all sessions; the last one if its file has shrunk."""
    return kept.analysis(place(opened))


def digest(opened: Opened) -> str:
    """`Analysis.digest` of a rollout in its tokens, which those of a model are known by."""
    return opened.tokens.trace if opened.tokens else analysis(opened).digest


def place(opened: Opened) -> kept.Shown:
    """The rollout by its file as it is now.

    Raises:
        TraceError: The file is gone.
    """
    return kept.Shown(version_of(source(opened.trace).path), opened.rollout, opened.tokens)


def only_demos() -> bool:
    """Whether nothing was named at the start and nothing was uploaded."""
    return all(source.origin == "demo" for source in traces().values())


def payload(opened: Opened, setup: Setup | None, against: str) -> bytes:
    """What the workbench draws of a rollout: every view, and the drift of those that are scored."""
    return kept.payload(place(opened), _judged(opened, setup, against))


def comparisons(opened: Opened, setup: Setup | None, against: str) -> dict[str, Comparison]:
    """Every scored view beside an exact method: `against`, or another if it cannot judge it."""
    return kept.comparisons(place(opened), _judged(opened, setup, against))


def verdict(opened: Opened, setup: Setup | None, against: str, view: str) -> Verdict:
    """The verdict on a view, judged as `comparisons` judges it."""
    return kept.verdict(place(opened), _judged(opened, setup, against), view)


def opened() -> Opened | None:
    """The rollout of this session: its choice, else the first named at the start, else a demo.

    Of several that were named it is the first that begins as a trace does: a folder may hold other
    files too. None if what was named at the start holds no trace.
    """
    chosen: Opened | None = st.session_state.get("opened")
    known = traces()
    if chosen is not None and chosen.trace in known:
        return chosen
    wanted = "start" if launch().paths else "demo"
    offered = [key for key, source in known.items() if source.origin == wanted]
    if wanted == "start" and len(offered) > 1:
        several = offered[:MOST_LOOKED_INTO]
        begins = (key for key in several if _recognised(known[key]))
        return Opened(next(begins, offered[0]), 0)
    return Opened(offered[0], 0) if offered else None


def is_chosen() -> bool:
    """Whether the rollout of this session was chosen or named, not only offered for a start."""
    return "opened" in st.session_state or bool(launch().paths)


def open_rollout(chosen: Opened) -> None:
    """Makes `chosen` the rollout of this session, unless its file is gone: says so then."""
    source = traces().get(chosen.trace)
    if source is None:
        st.toast(GONE)
        return
    st.session_state["opened"] = chosen
    earlier = [other for other in recent() if other != chosen]
    st.session_state["recent"] = [chosen, *earlier][:MOST_RECENT]
    if source.origin != "upload":
        memory.remember(memory.Place(str(source.path), chosen.rollout))
    select(None)
    sought.pick_junction(None)


def was_opened(trace_id: str) -> bool:
    """Whether this session has opened a rollout of a trace lately."""
    return any(one.trace == trace_id for one in st.session_state.get("recent", []))


def forget_gone() -> None:
    """Drops what was opened if its file is gone, and says so: another one is then shown."""
    chosen: Opened | None = st.session_state.get("opened")
    if chosen is not None and chosen.trace not in traces():
        del st.session_state["opened"]
        select(None)
        sought.pick_junction(None)
        st.toast(GONE)


def is_new(widget: str, value: object) -> bool:
    """True once for every value a widget takes after another; remembers it."""
    seen = st.session_state.setdefault("seen", {})
    fresh = value is not None and seen.get(widget) != value
    seen[widget] = value
    return fresh


@contextmanager
def once(widget: str, value: object) -> Iterator[bool]:
    """As `is_new`; the value is new once more if the page starts again within the body.

    The body must not have the page run again itself: it would for ever.
    """
    seen = st.session_state.setdefault("seen", {})
    try:
        yield value is not None and seen.get(widget) != value
    except Exception:  # not what starts the page again
        seen[widget] = value
        raise
    seen[widget] = value


@contextmanager
def drawing() -> Iterator[None]:
    """Around all that a page draws, for `is_whole`."""
    st.session_state[_WHOLE] = None
    yield
    st.session_state[_WHOLE] = _drawn_for()


def is_whole() -> bool:
    """Whether the page was drawn to its end, for the view and the order that hold now."""
    return _WHOLE not in st.session_state or st.session_state[_WHOLE] == _drawn_for()


def _drawn_for() -> tuple[str, Order | None]:
    return view(), ordered()


def begins() -> bool:
    """True in the first run of a session that asks: its page then shows what matters most."""
    return is_new("session", "begun")


def recent() -> list[Opened]:
    """Rollouts that were opened, the latest first: by this session, then by earlier ones.

    Of earlier ones only those whose file was named at this start, or is a demo.
    """
    known = traces()
    listed: list[Opened] = list(st.session_state.get("recent", []))
    by_path = {str(source.path): trace_id for trace_id, source in known.items()}
    for place in memory.recent():
        if place.path in by_path:
            listed.append(Opened(by_path[place.path], place.rollout))
    return [chosen for chosen in dict.fromkeys(listed) if chosen.trace in known][:MOST_RECENT]


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


def order(
    chosen: Selection | None, sight: Mapping[str, str] | None = None, *, leads: bool = False
) -> None:
    """Makes `chosen` the selection, and has the browser show it and what is to be in sight."""
    if chosen is not None:
        select(chosen)
    before = ordered()
    serial = serials.after(before and before.serial)
    st.session_state["order"] = Order(serial, chosen, sight or {}, leads)


def ordered() -> Order | None:
    """The last selection that Python made; None if the browser made all."""
    last: Order | None = st.session_state.get("order")
    return last


class Sent(NamedTuple):
    """A selection from the browser."""

    followed: int
    """The serial of the last `Order` that the browser has followed, 0 for none."""
    selection: Selection

    @property
    def overtakes(self) -> bool:
        """Whether it was made before the browser had followed the last order to select."""
        last = ordered()
        return last is not None and last.selection is not None and self.followed < last.serial


def sent_selection(key: str) -> Sent | None:
    """The selection that component `key` sent from the browser; None if it is not a valid one.

    It comes as [serial, call, segment] or [serial, call, segment, target]: with the serial, what
    is selected again after an order differs from what was sent before it.
    """
    component: Any = st.session_state.get(key)
    sent = component.get("selection") if component else None
    if not isinstance(sent, list) or len(sent) not in (3, 4) or not all(map(_is_index, sent)):
        return None
    return Sent(sent[0], Selection(*sent[1:]))


def sent_view(key: str) -> str | None:
    """The training view that component `key` sent from the browser; None if it is not one."""
    component: Any = st.session_state.get(key)
    sent = component.get("view") if component else None
    return next((method.name for method in METHODS if method.name == sent), None)


@st.cache_resource
def worker() -> Worker:
    """The worker process of this server, shared by all sessions; it starts with the first job."""
    return Worker()


def job(job_id: str) -> JobState | None:
    """A job as it is now; None if this server does not know it."""
    return worker().state(job_id)


def jobs_of(opened: Opened) -> list[JobState]:
    """The last scoring of each method and model on a rollout, whichever session started it."""
    return list({(s.job.method, s.job.model): s for s in _scorings(opened)}.values())


def recall(opened: Opened, digest: str) -> None:
    """Takes up what earlier starts of the app have scored of a rollout in certain tokens.

    Args:
        opened: the rollout.
        digest: `Analysis.digest` of the tokens.
    """
    recalled = st.session_state.setdefault(_RECALLED, {})
    before: tuple[store.Key, ...] = recalled.get(opened.plain, ())
    recalled[opened.plain] = tuple(dict.fromkeys((*before, *store.held(digest))))


def results(opened: Opened) -> list[store.Key]:
    """Where scorings of a rollout left their scores: recalled ones, then those that have ended."""
    recalled = st.session_state.get(_RECALLED, {}).get(opened.plain, ())
    done = [s.result for s in _scorings(opened) if s.status == "done" and s.result]
    return [*recalled, *(store.Key(**result["key"]) for result in done)]


def _scorings(opened: Opened) -> list[JobState]:
    path = str(source(opened.trace).path)
    wanted = ("score", path, analysis(opened.plain).rollout.id)
    return [s for s in worker().states() if (s.job.kind, s.job.trace, s.job.rollout) == wanted]


def models(opened: Opened | None = None) -> list[str | None]:
    """What models are offered; None is the embedded one. The first is the one that fits best.

    Checkpoints of the train lab are models too, so that two of them are compared as models are.

    Args:
        opened: a rollout; the demos were recorded by their agent.
    """
    recorded = opened is not None and sources.demo_of(opened.trace) is not None
    builtin = [AGENT, None] if recorded else [None, AGENT]
    return [*builtin, *launch().models, *checkpoints.found()]


def cancel(jobs: Iterable[JobState]) -> None:
    """Stops jobs, the newest first, so that none of them starts when one before it ends."""
    for found in reversed(list(jobs)):
        worker().cancel(found.job.id)


def place_of(job: JobState) -> Opened | None:
    """Where the rollout of a job is opened; None if its trace is not here or no longer has it."""
    for trace_id, source in traces().items():
        if str(source.path) == job.job.trace:
            try:
                ids = [rollout.id for rollout in trace(trace_id).rollouts]
            except TraceError:
                return None
            if job.job.rollout in ids:
                return Opened(trace_id, ids.index(job.job.rollout))
    return None


def scored(opened: Opened) -> Scored:
    """Where the scores of a rollout in its tokens lie; the setup used last comes first."""
    return by_setup([*_shipped(opened), *results(opened)], digest(opened))


def _judged(opened: Opened, setup: Setup | None, against: str) -> tuple[Judged, ...]:
    if setup is None:
        return ()
    return judged(scored(opened).get(setup, {}), against, analysis(opened).tree.semantics)


def _shipped(opened: Opened) -> tuple[store.Key, ...]:
    demo = sources.demo_of(opened.trace)
    return demos.kept_keys(demo) if demo else ()


def _recognised(source: Source) -> bool:
    """Whether a file begins as a trace does; one that is gone does not."""
    try:
        return kept.recognised(version_of(source.path))
    except TraceError:
        return False


def _is_index(sent: object) -> TypeGuard[int]:
    return isinstance(sent, int) and not isinstance(sent, bool) and sent >= 0
