"""What is computed once for all sessions: traces, payloads, comparisons, rows of the triage.

Keys are files as they are now and names, never arrays.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import streamlit as st

from mwviz import demos, formats, store, token_store
from mwviz.analysis import Analysis, analyse
from mwviz.compare import Comparison
from mwviz.engine.scores import Scores
from mwviz.errors import MwvizError, TraceError
from mwviz.payload import pack
from mwviz.serve import Launch
from mwviz.token_store import TokenKey, words
from mwviz.tokens import without_ids
from mwviz.trace import Trace, load
from mwviz.training.advantage import reward_advantages
from mwviz.verdict import Verdict, refusal
from mwviz.verdict import judge as judge_view
from mwviz.views import METHODS
from mwviz_app import sources, triage
from mwviz_app.scored import Judged, Tokens
from mwviz_app.shared import shared
from mwviz_app.sources import Named, Version


class Held(NamedTuple):
    """What a file holds."""

    ids: tuple[str, ...]
    """Of its rollouts, in file order."""
    error: str
    """Why it cannot be read; "" if it can."""

    @property
    def rollouts(self) -> int:
        """How many there are."""
        return len(self.ids)


@st.cache_resource(max_entries=2, show_spinner=False)
def _named(second: int) -> dict[Launch, Named]:  # noqa: ARG001  # names the entry
    """No time to live: an entry that ends while it is read raises a KeyError in Streamlit."""
    return {}


def named(launch: Launch) -> Named:
    """The traces named at the start; their folders are looked through once a second at most."""
    found = _named(int(time.monotonic()))
    if launch not in found:
        found[launch] = sources.named(launch)
    return found[launch]


@shared(4, "Reading the trace")
def trace(version: Version) -> Trace:
    """The trace in a file."""
    return load(version.path)


@shared(5_000)
def recognised(version: Version) -> bool:
    """Whether a file begins as a trace does."""
    return formats.recognised(version.path)


@shared(5_000)
def held(version: Version) -> Held:
    """Which rollouts a file holds: known without reading it again."""
    try:
        return Held(tuple(rollout.id for rollout in trace(version).rollouts), "")
    except MwvizError as error:
        return Held((), str(error))


@shared(16)
def advantages(version: Version) -> tuple[float, ...]:
    """The advantage of each rollout of a file by their rewards.

    Raises:
        TraceError: The rewards do not tell one.
    """
    return reward_advantages(trace(version).rollouts)


@shared(16)
def ungraded(places: tuple[tuple[Version, int], ...]) -> str:
    """Why the rewards of some rollouts give a policy gradient nothing to learn; "" if they do.

    Of a file that has shrunk meanwhile it is the last rollout.
    """
    try:
        found = [(trace(version).rollouts, index) for version, index in places]
        reward_advantages([rollouts[min(index, len(rollouts) - 1)] for rollouts, index in found])
    except TraceError as error:
        return str(error)
    return ""


@shared(20_000)
def triaged(version: Version, rollout: int) -> triage.Row:
    """One rollout judged by structure; what was built for it is not kept."""
    return triage.row(analyse(trace(version).rollouts[rollout]))


class Shown(NamedTuple):
    """A rollout as it is shown."""

    version: Version
    rollout: int
    tokens: Tokens | None
    """None for those that its trace gives."""


def analysis(shown: Shown) -> Analysis:
    """The analysis of a rollout; the last one of its file if that has shrunk.

    Raises:
        TraceError: Its tokens are not kept: `is_kept` tells.
    """
    found = trace(shown.version).analyses
    at = min(shown.rollout, len(found) - 1)
    return found[at] if shown.tokens is None else _read_by(shown._replace(rollout=at))


def is_kept(shown: Shown) -> bool:
    """Whether the rollout can be shown so, as its file is now."""
    try:
        analysis(shown)
    except TraceError:
        return False
    return True


@shared(4, "Reading the tokens of the model")
def _read_by(shown: Shown) -> Analysis:
    assert shown.tokens is not None
    rollout = trace(shown.version).rollouts[shown.rollout]
    model, digest = shown.tokens
    found = token_store.load(TokenKey(words(rollout), model, digest))
    if found is None:
        raise TraceError(f"the tokens that {model} reads rollout {rollout.id!r} in are not kept")
    return Analysis(without_ids(rollout), encoding=found)


def payload(shown: Shown, judged: tuple[Judged, ...]) -> bytes:
    """What the workbench draws of a rollout."""
    return _payload(shown, _there(judged))


@shared(8, "Rebuilding every context")
def _payload(shown: Shown, judged: tuple[Judged, ...]) -> bytes:
    found, comparing = analysis(shown), _comparisons(shown, judged)
    able = [method.name for method in METHODS if not refusal(found, method.name)]
    return pack(found, able, comparing)


def comparisons(shown: Shown, judged: tuple[Judged, ...]) -> dict[str, Comparison]:
    """Every scored view of a rollout beside its judge, by method; students have their own rows'."""
    return _comparisons(shown, _there(judged))


@shared(16, "Comparing views with the true contexts")
def _comparisons(shown: Shown, judged: tuple[Judged, ...]) -> dict[str, Comparison]:
    whole = analysis(shown)
    found: dict[str, Comparison] = {}
    for key, judge in judged:
        view, truth = _scores(key), _scores(judge)
        found[key.method] = whole.compared(view, truth)
        for name in (m.name for m in METHODS if m.student == key.method):
            found[name] = whole.compared(replace(view, method=name), truth)
    return found


def verdict(shown: Shown, judged: tuple[Judged, ...], view: str) -> Verdict:
    """The verdict on one view of a rollout, with its drift where it is scored."""
    return _verdict(shown, _there(judged), view)


@shared(64)
def _verdict(shown: Shown, judged: tuple[Judged, ...], view: str) -> Verdict:
    return judge_view(analysis(shown), view, _comparisons(shown, judged).get(view))


def scores(key: store.Key) -> Scores | None:
    """Scores that ship with a demo or lie in the score cache; None while they are gone."""
    try:
        return _scores(key)
    except GoneError:
        return None


def _there(judged: tuple[Judged, ...]) -> tuple[Judged, ...]:
    """Those whose scores are not gone now: what is made of them is kept by them alone."""
    return tuple(each for each in judged if all(scores(key) is not None for key in each))


class GoneError(MwvizError):
    """Scores are gone from the score cache; they may come back."""


@shared(64)
def _scores(key: store.Key) -> Scores:
    found = _kept_with_demos(key) or store.load(key)
    if found.scores is None:
        raise GoneError(found.reason)
    return found.scores


def _kept_with_demos(key: store.Key) -> store.Found | None:
    for demo in demos.DEMOS:
        if key in demos.kept_keys(demo):
            return store.read(demos.FOLDER / f"{demo.name}.{key.method}.npz", key)
    return None


@st.cache_resource
def upload_folder() -> Path:
    """Where uploads lie while the app runs."""
    folder = Path(tempfile.mkdtemp(prefix="mwviz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
