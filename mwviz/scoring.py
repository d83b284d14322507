"""Scores of several methods on one rollout as the numbers that `mwviz score --json` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from mwviz.analysis import Analysis
from mwviz.compare import Comparison
from mwviz.engine.steps import Step
from mwviz.errors import ModelError, ViewError
from mwviz.scorer import EXACT
from mwviz.views import METHODS, exact_methods, method_named, names_in
from mwviz.views import REFERENCE as REFERENCE

if TYPE_CHECKING:
    from mwviz.engine.cost import Prediction
    from mwviz.engine.model import Model

Report = dict[str, Any]


def wanted_methods(names: str) -> tuple[str, ...]:
    """The methods that a user's words mean: names with commas between, also `exact`; or `all`.

    Raises:
        ViewError: no method has such a name.
    """
    if names == "all":
        return tuple(method.name for method in METHODS)
    wanted = names_in(names)
    for name in wanted:
        if name != EXACT:
            method_named(name)
    return wanted


def score_methods(
    analysis: Analysis, model: Model, methods: tuple[str, ...], *, kernel: str
) -> Iterator[Step[dict[str, Comparison | str]]]:
    """Steps of scoring methods and their references; the last has comparisons or refusals.

    Args:
        analysis: must share the model's tokenizer.
        model: scores everything.
        methods: names, or `exact`.
        kernel: attention kernel, `auto` to choose.
    """
    plan = [(name, _reference(analysis, model, name)) for name in methods]
    runs = list(dict.fromkeys([name for pair in plan for name in pair]))
    refused: dict[str, str] = {}
    for index, name in enumerate(runs):
        try:
            for step in analysis.scoring(model, name, kernel=kernel):
                part = step.done / max(step.total, 1)
                done = int(1000 * (index + part))
                left = step.eta * (len(runs) - index)
                yield Step(min(done, 1000 * len(runs) - 1), 1000 * len(runs), left)
        except (ModelError, ViewError) as error:
            refused[name] = str(error)
    results: dict[str, Comparison | str] = {}
    for name, against in plan:
        if name in refused or against in refused:
            results[name] = refused.get(name) or refused[against]
        else:
            view, reference = (analysis.resolve(model, which) for which in (name, against))
            results[name] = analysis.compared(analysis.scores[view], analysis.scores[reference])
    yield Step(1000 * len(runs), 1000 * len(runs), 0.0, results)


def predictions(
    analysis: Analysis, model: Model, methods: tuple[str, ...], *, kernel: str
) -> dict[str, Prediction]:
    """What scoring each method will cost; a method that is refused has none."""
    from mwviz.engine.cost import predict
    from mwviz.engine.kernels import choose_kernel

    found = {}
    for name in methods:
        try:
            rows = analysis.view(analysis.resolve(model, name)).rows
            packed = any(row.mask != "causal" for row in rows)
            chosen = choose_kernel(model, packed=packed, kernel=kernel)
            found[name] = predict(model, rows, kernel=chosen)
        except (ModelError, ViewError):
            continue
    return found


def _reference(analysis: Analysis, model: Model, name: str) -> str:
    """Naive methods are judged by the cheapest exact one, exact ones by `REFERENCE`.

    Where the cache kept entries only one method is exact, and it judges all.
    """
    able = exact_methods(analysis.tree.semantics)
    if REFERENCE not in able:
        return EXACT
    return REFERENCE if name in (EXACT, *able) else analysis.resolve(model, EXACT)


def report(result: Comparison | str) -> Report:
    """One method's numbers; drift and gap in nats over covered targets, None where not known."""
    if isinstance(result, str):
        return {"refused": result}
    drift, gap = result.drift(), result.gap()
    scores = result.view
    table = result.table
    return {
        "method": scores.method,
        "reference": result.reference.method,
        "mean_abs_drift": _rounded(drift.values.get("mean_abs")),
        "max_abs_drift": _rounded(drift.values.get("max_abs")),
        "mean_abs_gap": _rounded(gap.values.get("mean_abs")),
        "max_abs_gap": _rounded(gap.values.get("max_abs")),
        "covered": int(table["covered"].sum()),
        "coverage": None if result.coverage is None else round(result.coverage, 6),
        "diverging": int((table["diverging"] & table["covered"]).sum()),
        "drift_diverging": _rounded(result.drift("diverging").values.get("mean_abs")),
        "floor": {
            "p50": _rounded(scores.floor.p50),
            "p999": _rounded(scores.floor.p999),
            "threshold": _rounded(result.threshold),
            "targets": scores.floor.targets,
        },
        "kernel": scores.kernel,
        "dtype": scores.dtype,
        "device": scores.device,
        "seconds": round(scores.seconds, 3),
        "notes": [*scores.notes, *_student(scores.method)],
    }


def _student(method: str) -> tuple[str, ...]:
    """That a method has another one's scores, where it has."""
    students = (known.student for known in METHODS if known.name == method and known.student)
    return tuple(f"these are the scores of its student, {student}" for student in students)


def _rounded(value: float | None) -> float | None:
    """Eight significant digits; None for what is not known."""
    if value is None or np.isnan(value):
        return None
    return float(f"{value:.8g}")
