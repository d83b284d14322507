"""Runs of a model over a rollout: what goes through it, how long that takes, and the start."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from mwviz import demos, store
from mwviz.engine.embedded import AGENT
from mwviz.jobs import Job
from mwviz.scorer import EXACT, STUDENTS
from mwviz.scoring import REFERENCE
from mwviz.verdict import refusal
from mwviz.views import method_named
from mwviz.wording import duration
from mwviz_app import kept, state
from mwviz_app.state import Opened


def start(opened: Opened, methods: Iterable[str], model: str | None) -> None:
    """Queues what `queue_of` gives, but for what is under way."""
    start_all((opened,), methods, model)


def start_all(places: Iterable[Opened], methods: Iterable[str], model: str | None) -> None:
    """Queues what `queue_of` gives of several rollouts: all of it, or nothing.

    Their files may have to be read for this, and the page may have to start again meanwhile.
    """
    wanted = tuple(methods)
    for job in [job for place in places for job in _jobs(place, wanted, model)]:
        state.worker().submit(job)


def _jobs(opened: Opened, methods: Iterable[str], model: str | None) -> list[Job]:
    live = {(s.job.method, s.job.model) for s in state.jobs_of(opened) if s.live}
    path = str(state.source(opened.trace).path)
    rollout, device = state.analysis(opened).rollout.id, state.launch().device
    return [
        Job(uuid.uuid4().hex, "score", path, rollout, method, model, device)
        for method in queue_of(opened, methods)
        if (method, model) not in live
    ]


def left_by(opened: Opened, method: str, model: str | None) -> store.Key | None:
    """Where the last run of a method left its scores; None if it has not ended well."""
    ran = state.jobs_of(opened)
    last = next((s for s in ran if (s.job.method, s.job.model) == (method, model)), None)
    if last is None or last.status != "done" or last.result is None:
        return None
    return store.Key(**last.result["key"])


def queue_of(opened: Opened, methods: Iterable[str]) -> list[str]:
    """Those of some methods that can lay the rollout out, and the exact ones they are judged by.

    The view on screen comes first, and each method's judge right behind it: its drift is known
    before the next method starts.
    """
    found = state.analysis(opened)
    rows = dict.fromkeys(method_named(name).student or name for name in methods)
    shown = STUDENTS.get(state.view(), state.view())
    anew = found.tree.semantics == "re_prefill"
    queue: dict[str, None] = {}
    for name in sorted(rows, key=lambda name: name != shown):
        if not refusal(found, name):
            judge = REFERENCE if anew and method_named(name).exact else EXACT
            queue |= dict.fromkeys((name, judge))
    return list(queue)


def tokens_of(opened: Opened, methods: Iterable[str]) -> int:
    """How many tokens go through a model for some methods and their judges, at most.

    `exact` is counted as one row a branch; it may take fewer.
    """
    found = state.analysis(opened)
    views = dict.fromkeys(
        REFERENCE if name == EXACT else name for name in queue_of(opened, methods)
    )
    return sum(row.size for name in views for row in found.view(name).rows)


def seconds_for(tokens: int, model: str | None) -> float | None:
    """How long a model takes for some tokens, by its last runs here; None if nothing tells.

    The first estimate of the embedded model, with the demos' adapter or without, is that of the
    machine that made the demos.
    """
    seconds, read = 0.0, 0
    for ran in state.worker().states():
        told = ran.result or {}
        if ran.status == "done" and ran.job.model == model and ran.total > 1 and "key" in told:
            found = kept.scores(store.Key(**told["key"]))
            if found is not None:
                seconds, read = seconds + found.seconds, read + ran.total
    if not read and model in (None, AGENT):
        for demo in demos.DEMOS:
            for key in demos.kept_keys(demo):
                found = kept.scores(key) if key.method == REFERENCE else None
                if found is not None:
                    rows = state.analysis(Opened(demo.name, 0)).view(REFERENCE).rows
                    seconds, read = found.seconds, sum(one.size for one in rows)
                    return seconds / read * tokens
    return seconds / read * tokens if read else None


def told(tokens: int, model: str | None) -> str:
    """How long a model takes for some tokens, in words."""
    seconds = seconds_for(tokens, model)
    return "how long is known once one was run" if seconds is None else duration(seconds)
