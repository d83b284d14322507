"""The command that runs a model on training views and prints what it says: `score`."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np

from mwviz.account import Advantages, account, pooled, residuals_of
from mwviz.analysis import Analysis
from mwviz.compare import Comparison
from mwviz.console import open_trace, output_file, print_json, watched
from mwviz.details import details, pooled_lines
from mwviz.display import visible
from mwviz.errors import TraceError, ViewError
from mwviz.gap import Weights
from mwviz.options import Commands, add_command, add_file, add_model
from mwviz.wording import counted, percent

if TYPE_CHECKING:
    from mwviz.engine.cost import Prediction
    from mwviz.engine.model import Model
    from mwviz.sdcc import Residuals


def add_score(added: Commands) -> None:
    """Options of `score`."""
    about = "run training views on a model and compare them with the true contexts"
    example = "mwviz score run.jsonl --method rightmost,packed_mask"
    command = add_command(added, "score", score, about=about, example=example)
    add_file(command)
    command.add_argument("--method", metavar="NAME,...|all", help="also exact")
    command.add_argument("--own", metavar="BATCH", help="a trainer's batch to score as a view")
    about_details = "also parts of the gap, distances and bounds, clipped share, cost"
    command.add_argument("--details", action="store_true", help=about_details)
    command.add_argument(
        "--weights",
        choices=get_args(Weights),
        default="unknown",
        help="whose weights the model has: splits the gap's floor from its staleness",
    )
    command.add_argument("--adapter", metavar="DIR", help="PEFT adapter in safetensors")
    command.add_argument("--kernel", default="auto", help="attention kernel (default: auto)")
    command.add_argument("--json", action="store_true", help="print one JSON document")
    command.add_argument("--out", metavar="F.parquet", help="write one row a target and method")
    add_model(command)


def score(options: argparse.Namespace) -> int:
    """Drift, gap and coverage of training views on a model."""
    if options.method is None and options.own is None:
        raise ViewError("score needs --method NAME,... or exact or all, or --own BATCH")
    out = None if options.out is None else _table_file(options.out)

    from mwviz.engine.kernels import check_kernel
    from mwviz.engine.model import load_model
    from mwviz.scoring import report, wanted_methods

    check_kernel(options.kernel)
    methods = () if options.method is None else wanted_methods(options.method)
    trace = open_trace(options.file, options.map)
    model = load_model(options.model, device=options.device, adapter=options.adapter)
    rollouts, tables, parts = [], [], _Parts({}, {})
    for index, analysis in enumerate(trace.analyses):
        fitting = analysis.for_model(model)
        own = () if options.own is None else (fitting.add_batch(options.own).view.method,)
        results, costs = _scored(fitting, model, (*methods, *own), options)
        reports = {name: report(result) for name, result in results.items()}
        found = {name: each for name, each in results.items() if isinstance(each, Comparison)}
        for name, result in found.items() if options.details else ():
            worth = _Worth(trace.analyses, index)
            told = _account(fitting, result, model, options.weights, worth)
            reports[name]["details"] = told | _cost(costs.get(name), result)
            parts.add(name, residuals_of(fitting, result), told)
        rollouts.append(
            {
                "id": analysis.rollout.id,
                "methods": reports,
                "rendering": fitting.encoding.rendering,
                "warnings": list(fitting.encoding.warnings),
            }
        )
        tables += [
            result.table.assign(rollout=analysis.rollout.id, method=name)
            for name, result in found.items()
        ]
    if out:
        _write_table(tables, out)
    about = {"name": model.name, "revision": model.revision, "dtype": model.precision}
    about["device"] = model.device.type
    whole = {"details": parts.pooled()} if options.details else {}
    if options.json:
        print_json({"rollouts": rollouts, "model": about, **whole})
    else:
        for rollout in rollouts:
            _print_scores(rollout, about)
        _print_pooled(parts.pooled(), len(rollouts))
    return 0


class _Parts(NamedTuple):
    """What each method's rollouts add to the numbers of the whole file."""

    residuals: dict[str, list[Residuals]]
    reports: dict[str, list[dict[str, Any]]]

    def add(self, name: str, residual: Residuals, told: dict[str, Any]) -> None:
        self.residuals.setdefault(name, []).append(residual)
        self.reports.setdefault(name, []).append(told)

    def pooled(self) -> dict[str, dict[str, Any]]:
        """By method."""
        return {name: pooled(held, self.reports[name]) for name, held in self.residuals.items()}


def _scored(
    analysis: Analysis, model: Model, methods: tuple[str, ...], options: argparse.Namespace
) -> tuple[dict[str, Comparison | str], dict[str, Prediction]]:
    """Comparisons or refusals, and what each method was predicted to cost, said before the run."""
    from mwviz.scoring import predictions, score_methods

    costs: dict[str, Prediction] = {}
    if options.details:
        costs = predictions(analysis, model, methods, kernel=options.kernel)
    for name, cost in costs.items():
        print(visible(f"mwviz: {analysis.rollout.id}: {name}: {cost}"), file=sys.stderr)
    steps = score_methods(analysis, model, methods, kernel=options.kernel)
    return watched(steps, analysis.rollout.id), costs


class _Worth(NamedTuple):
    """Where the advantages of a rollout come from."""

    analyses: tuple[Analysis, ...]
    """All rollouts of the file: the others are the baseline."""
    place: int
    """Of the rollout among them."""

    def of(self, analysis: Analysis, view: str) -> Advantages:
        """Those of a trainer's batch, else from the rewards that the rollouts recorded."""
        from mwviz.training.advantage import recorded_advantages

        own = analysis.batches.get(view)
        if own is not None and not np.isnan(own.advantage).all():
            return Advantages(own.advantage, "batch")
        try:
            value = recorded_advantages(self.analyses)[self.place]
        except TraceError as error:
            raise ViewError(str(error)) from error
        return Advantages(np.full(len(analysis.tree.token), value), "rewards")


def _account(
    analysis: Analysis, result: Comparison, model: Model, weights: Weights, worth: _Worth
) -> dict[str, Any]:
    from mwviz.engine.divergence import diverge
    from mwviz.engine.steps import finish

    view = result.view.method
    found = finish(diverge(result.reference, result.view, model))
    return account(
        analysis, result, found, weights=weights, advantages=lambda: worth.of(analysis, view)
    )


def _cost(predicted: Prediction | None, result: Comparison) -> dict[str, Any]:
    """What the run was predicted to cost, beside what it took."""
    if predicted is None:
        return {}
    told = {
        "predicted_seconds": predicted.seconds,
        "predicted_bytes": predicted.bytes,
        "operations": predicted.operations,
        "seconds": result.view.seconds,
        "told": predicted.against(result.view.seconds),
    }
    return {"cost": told}


def _print_scores(rollout: dict[str, Any], model: dict[str, str]) -> None:
    print(visible(f"\nrollout {rollout['id']} scored by {model['name']} ({model['dtype']})"))
    print(visible(f"  tokens: {rollout['rendering']}"))
    for warning in rollout["warnings"]:
        print(visible(f"  ! {warning}"))
    print(
        f"  {'method':<14}{'coverage':>9}{'mean |d|':>12}{'diverging':>12}{'max |d|':>12}"
        f"{'mean |gap|':>12}{'floor':>11}{'seconds':>9}"
    )
    print(
        "  (drift d and gap in nats, over covered tokens; diverging: mean |d| over those of them "
        "whose context differs; floor: |d| up to it is rounding)"
    )
    for name, numbers in rollout["methods"].items():
        if "refused" in numbers:
            print(visible(f"  {name:<14}refused: {numbers['refused']}"))
            continue
        columns = ("mean_abs_drift", "drift_diverging", "max_abs_drift", "mean_abs_gap")
        cells = "".join(f"{_number(numbers[column]):>12}" for column in columns)
        label = name if name == numbers["method"] else f"{name} = {numbers['method']}"
        coverage = percent(numbers["coverage"], 1, gap="")
        print(
            f"  {label:<14}{coverage:>9}{cells}"
            f"{_number(numbers['floor']['threshold']):>11}{numbers['seconds']:>9.1f}"
        )
        for note in numbers["notes"]:
            print(visible(f"    ! {note}"))
        for line in details(numbers["details"]) if "details" in numbers else ():
            print(visible(f"    {line}"))


def _print_pooled(told: dict[str, dict[str, Any]], rollouts: int) -> None:
    for name, numbers in told.items():
        print(visible(f"\n{name} over {counted(rollouts, 'rollout')}"))
        for line in pooled_lines(numbers):
            print(f"  {line}")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _table_file(path: str) -> Path:
    """Where the table will be written, and that it can be, before the work that it is to hold."""
    if not path.endswith(".parquet"):
        raise TraceError(f"--out {path}: expected a name that ends in .parquet")
    found = output_file(path)
    import_module("pyarrow")
    return found


def _write_table(tables: list[Any], path: Path) -> None:
    import pandas as pd

    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
    try:
        table.to_parquet(path)
    except OSError as error:
        raise TraceError(f"{path}: cannot be written: {error}") from error
