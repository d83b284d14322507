"""What the app has a process of its own do: each kind of job, and the model that they share.

A job is an iterator of steps, the last of which has the result; it ends between two steps. Nothing
large goes through it: traces and models are named, scores go to the disk cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mwviz import token_store
from mwviz.analysis import Analysis
from mwviz.attended import reading
from mwviz.causes import causes as causes_of
from mwviz.distances import measuring
from mwviz.engine.chain import ABOUT
from mwviz.engine.embedded import EMBEDDED
from mwviz.engine.steps import Step
from mwviz.errors import ModelError, TraceError
from mwviz.restored import cost
from mwviz.store import Key
from mwviz.token_store import TokenKey, words
from mwviz.trace import Trace, load

if TYPE_CHECKING:
    from mwviz.engine.model import Model

Result = dict[str, Any]
"""What a finished job tells: small, as JSON; large results go to the disk cache."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to run. Everything large is named, never sent."""

    id: str
    kind: str
    """Name in the job table: `score`, `causes`, `attention`, `undo`, `distances`, `train`, ..."""
    trace: str
    """Path of the trace file."""
    rollout: str
    """Id of the rollout in it."""
    method: str
    model: str | None = None
    """None is the embedded model."""
    device: str | None = None
    at: int | None = None
    """The target of `causes` and `attention`, the junction of `undo`; None is the whole rollout."""
    tokens: str | None = None
    """Digest of the tokens that `at` counts in, as the user sees them; None for the model's."""
    scored: str | None = None
    """Name and revision that the model must have, as its scores have it; None takes any."""
    adapter: str | None = None
    """Checkpoint that the model is changed by; None is the model itself."""
    plan: dict[str, Any] | None = None
    """What `train` does, as `Plan.to_json`; it names its own files, model and methods."""
    folder: str | None = None
    """Where `train` keeps everything: the page reads its curves there."""

    def to_json(self) -> dict[str, Any]:
        """The job as the worker's protocol writes it."""
        return asdict(self)


Run = Callable[[Job], Iterator[Step[Result]]]


def score(job: Job) -> Iterator[Step[Result]]:
    """Scores one method; the result names the entry of `mwviz.store` that holds the scores.

    Where the trace does not hold the tokens that the model reads, `mwviz.token_store` does then.
    """
    yield Step(0, 0, 0.0)
    model = _model(job.model, job.device, job.adapter)
    analysis = _fitting(job, model)
    _keep_tokens(job, model, analysis)
    for step in analysis.scoring(model, job.method):
        told: Result | None = None
        if step.result is not None:
            found = step.result
            key = (found.model, found.method, found.dtype, found.kernel, found.device)
            told = {"key": Key(analysis.digest, *key)._asdict()}
        yield Step(step.done, step.total, step.eta, told)


def causes(job: Job) -> Iterator[Step[Result]]:
    """What the model says of one target both ways, and what each source of its drift does."""
    yield Step(0, 0, 0.0)
    model = _model(job.model, job.device, job.adapter)
    found = causes_of(_fitting(job, model), job.method, job.at or 0, model)
    yield Step(1, 1, 0.0, found.to_json())


def attention(job: Job) -> Iterator[Step[Result]]:
    """Where one target looks, under a view and in its true context; one step a pass."""
    yield Step(0, 0, 0.0)
    model = _model(job.model, job.device, job.adapter)
    for step in reading(_fitting(job, model), job.method, job.at or 0, model):
        told = None if step.result is None else step.result.to_json()
        yield Step(step.done, step.total, step.eta, told)


def undo(job: Job) -> Iterator[Step[Result]]:
    """What one eviction cost the tokens behind it."""
    yield Step(0, 0, 0.0)
    model = _model(job.model, job.device, job.adapter)
    yield Step(1, 1, 0.0, cost(_fitting(job, model), job.at or 0, model).to_json())


def distances(job: Job) -> Iterator[Step[Result]]:
    """How far whole distributions are apart under one method."""
    yield Step(0, 0, 0.0)
    model = _model(job.model, job.device, job.adapter)
    for step in measuring(_fitting(job, model), job.method, model):
        told = None if step.result is None else step.result.to_json()
        yield Step(step.done, step.total, step.eta, told)


def estimate(job: Job) -> Iterator[Step[Result]]:
    """What a plan is predicted to take."""
    from mwviz.training.estimate import estimate as predicted
    from mwviz.training.plan import Plan, material

    yield Step(0, 0, 0.0)
    plan = Plan.from_json(job.plan or {})
    model = _model(plan.model, plan.device, plan.adapter)
    held = material(plan)
    found = predicted(plan, held, model)
    told = {"told": str(found), "note": held.note, "fits": found.fits, "seconds": found.seconds}
    told["tokens"] = list(found.tokens)
    yield Step(1, 1, 0.0, told)


def train(job: Job) -> Iterator[Step[Result]]:
    """Trains every arm of a plan, counted in steps; goes on with what the folder holds."""
    from mwviz.training.plan import Plan, material
    from mwviz.training.runs import run

    yield Step(0, 0, 0.0)
    plan = Plan.from_json(job.plan or {})
    model = _model(plan.model, plan.device, plan.adapter)
    failed: dict[str, str] = {}
    done, total = 0, len(plan.methods) * plan.recipe.steps
    yield Step(0, total, 0.0)
    with closing(run(plan, Path(job.folder or ""), material(plan), model=model)) as events:
        for event in events:
            done, total = event.done, event.total
            if event.failure:
                failed[event.arm] = event.failure
            yield Step(done, total, event.eta)
    yield Step(total, total, 0.0, {"folder": job.folder, "failed": failed})


JOBS: dict[str, Run] = {
    run.__name__: run for run in (score, causes, attention, undo, distances, estimate, train)
}
"""By kind."""


class UnreadError(ModelError):
    """A job counts in other tokens than those that its model reads: run it on the rollout first."""


def _fitting(job: Job, model: Model) -> Analysis:
    """The rollout in the tokens that the model reads, which must be those that the job means."""
    if job.scored not in (None, model.label):
        raise ModelError(
            f"{model.name} has changed since it scored this rollout (then {job.scored}, now "
            f"{model.label}); run it on the rollout again, then ask"
        )
    analysis = _analysis(job).for_model(model)
    if job.tokens not in (None, analysis.digest):
        raise UnreadError(
            f"{model.name} reads rollout {job.rollout!r} in other tokens than those shown; run it "
            "on the rollout first"
        )
    return analysis


def _keep_tokens(job: Job, model: Model, analysis: Analysis) -> None:
    """Leaves the tokens for the app where they are not those that the trace itself gives."""
    given = _analysis(job)
    if analysis is not given:
        key = TokenKey(words(given.rollout), model.label, analysis.digest)
        if token_store.load(key) is None:
            token_store.save(key, analysis.encoding)


def _analysis(job: Job) -> Analysis:
    trace = _trace(job.trace, Path(job.trace).stat().st_mtime_ns)
    for analysis in trace.analyses:
        if analysis.rollout.id == job.rollout:
            return analysis
    raise TraceError(f"{job.trace}: no rollout {job.rollout!r} in it")


@lru_cache(maxsize=2)
def _trace(path: str, _changed: int) -> Trace:
    return load(path)


_LOADED: dict[tuple[str | None, str | None, str | None, tuple[int, ...]], Model] = {}
"""The last model, by what it was loaded from; one at most."""


def _model(name: str | None, device: str | None, adapter: str | None = None) -> Model:
    from mwviz.engine.model import load_model

    written = tuple(path.stat().st_mtime_ns for path in _abouts(name, adapter))
    key = (name, device, adapter, written)
    if key not in _LOADED:
        _LOADED.clear()  # before the next is loaded: two may not fit
        _LOADED[key] = load_model(name or EMBEDDED, device=device or "auto", adapter=adapter)
    return _LOADED[key]


def _abouts(*folders: str | None) -> list[Path]:
    """Files that a training writes anew with each checkpoint."""
    paths = [Path(folder) / ABOUT for folder in folders if folder]
    return [path for path in paths if path.is_file()]
