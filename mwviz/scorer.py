"""The scores of one method on one rollout: from the store, or by running the model.

Every function takes the analysis whose tokens the model reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from mwviz import store
from mwviz.engine.scores import Floor, Scores
from mwviz.engine.steps import Step
from mwviz.errors import ModelError, ViewError
from mwviz.extras import needed
from mwviz.semantics import NOTES, RECOMPUTE
from mwviz.temperature import needs_tempering
from mwviz.views import METHODS, exact_methods, method_named

if TYPE_CHECKING:
    from mwviz.analysis import Analysis
    from mwviz.engine.model import Model

STUDENTS = {method.name: method.student for method in METHODS if method.student}
"""Methods whose scores are those of another one, and which."""
EXACT = "exact"
"""Name that takes the cheapest exact method a model can run on a tree."""
_RECOMPUTING = exact_methods("re_prefill")


def loaded(model: Model | str | None) -> Model:
    """A model, or the one of a name; None is the embedded one. The last one named is kept."""
    return _load_once(model) if model is None or isinstance(model, str) else model


@lru_cache(maxsize=1)
def _load_once(name: str | None) -> Model:
    from mwviz.engine.embedded import EMBEDDED

    with needed():
        from mwviz.engine.model import load_model

    return load_model(name or EMBEDDED)


def scoring(
    analysis: Analysis, model: Model, method: str, *, kernel: str
) -> Iterator[Step[Scores]]:
    """Steps of scoring one method; the last one's scores also stand in `analysis.scores`."""
    from mwviz.engine.kernels import choose_kernel
    from mwviz.engine.score import score

    name = analysis.resolve(model, method)
    student = STUDENTS.get(name)
    if student is not None:
        for step in scoring(analysis, model, student, kernel=kernel):
            yield step if step.result is None else _as_student(analysis, step, name)
        return
    view = analysis.view(name)
    packed = any(row.mask != "causal" for row in view.rows)
    chosen = choose_kernel(model, packed=packed, kernel=kernel)
    batch = analysis.batches.get(name)
    stored = name if batch is None else batch.digest
    key = store.Key(
        analysis.digest, model.label, stored, model.precision, chosen, model.device.type
    )
    found = store.load(key).scores
    if found is not None:
        analysis.scores[name] = _noted(analysis, found)
        yield Step(1, 1, 0.0, analysis.scores[name])
        return
    floor = _floor(analysis, model, kernel)
    warm = analysis.temperature if needs_tempering(analysis.temperature) else None
    for step in score(analysis.tree, view, model, kernel=kernel, floor=floor, temperature=warm):
        if step.result is None:
            yield step
            continue
        store.save(key, step.result)
        analysis.scores[name] = _noted(analysis, step.result)
        yield step._replace(result=analysis.scores[name])


def resolve(analysis: Analysis, model: Model, method: str) -> str:
    """The method that a name stands for on this tree and model.

    Raises:
        ViewError: no method has this name, or no row can express how the cache was treated.
    """
    cache = analysis.tree.semantics
    if cache == "kv_reindex":
        raise ViewError(f"rollout {analysis.rollout.id!r} cannot be scored: {NOTES[cache]}")
    if method in analysis.batches:
        return method
    if method != EXACT:
        return method_named(method).name
    able = exact_methods(cache)
    if len(able) == 1:
        return able[0]
    from mwviz.engine.choice import choose_exact

    return choose_exact(analysis.tree, model).method


def _noted(analysis: Analysis, scores: Scores) -> Scores:
    """Scores that say so if they encode anew what the cache had kept."""
    recomputed = analysis.tree.keeps_entries and scores.method in _RECOMPUTING
    return replace(scores, notes=(*scores.notes, RECOMPUTE)) if recomputed else scores


def _as_student(analysis: Analysis, step: Step[Scores], name: str) -> Step[Scores]:
    """The last step of a student's scoring, for the method that trains its rows."""
    assert step.result is not None
    analysis.scores[name] = replace(step.result, method=name)
    return step._replace(result=analysis.scores[name])


def _floor(analysis: Analysis, model: Model, kernel: str) -> Floor | None:
    """Drift between packed_mask and logit_tree on the rollouts scored so far with this kernel.

    None if it cannot be packed so: then the self-check's floor counts.
    """
    from mwviz.engine.feed import MAX_DENSE
    from mwviz.engine.floors import pool_floor
    from mwviz.engine.kernels import choose_kernel

    tree = analysis.tree
    if model.capability.refusals or tree.size > MAX_DENSE or not len(tree.token):
        return None
    try:
        chosen = choose_kernel(model, packed=True, kernel=kernel)
    except ModelError:
        return None
    packed, separate = analysis.view("packed_mask"), analysis.view("logit_tree")
    return pool_floor(tree, model, packed, separate, kernel=chosen, name=analysis.digest)
