"""The commands that judge a trace without changing it: `inspect` and `check`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mwviz.console import loaded, open_trace, print_json, reader_named, watched
from mwviz.display import visible
from mwviz.engine.embedded import EMBEDDED
from mwviz.errors import TraceError, ViewError
from mwviz.evidence import told
from mwviz.options import (
    Commands,
    add_command,
    add_file,
    add_model,
    add_reader,
    add_view,
    amount,
    count,
    share,
)
from mwviz.wording import counted, percent

if TYPE_CHECKING:
    from mwviz.analysis import Analysis
    from mwviz.engine.model import Model
    from mwviz.limits import Finding
    from mwviz.trace import Trace


def add_inspect(added: Commands) -> None:
    """Options of `inspect`."""
    about = "show calls, junctions, token budgets and who sees what in each view"
    example = "mwviz inspect run.jsonl --json"
    command = add_command(added, "inspect", inspect, about=about, example=example)
    add_file(command)
    command.add_argument("--json", action="store_true", help="print one JSON document")
    command.add_argument("--own", metavar="BATCH", help="a trainer's batch to judge as a view")
    add_reader(command)


def add_check(added: Commands) -> None:
    """Options of `check`."""
    about = "exit 1 if a training view breaks a limit; without limits: --max-future 0"
    example = "mwviz check run.jsonl --view rightmost --min-coverage 0.9"
    command = add_command(added, "check", check, about=about, example=example)
    add_file(command)
    add_view(command)
    command.add_argument("--max-future", type=count, metavar="N", help="pairs that look ahead")
    command.add_argument("--max-stale", type=count, metavar="N", help="pairs that see evicted text")
    command.add_argument("--min-coverage", type=share, metavar="X", help="trained share, 0 to 1")
    command.add_argument("--max-drift", type=amount, metavar="X", help="mean |drift| in nats")
    command.add_argument(
        "--min-fidelity",
        choices=("exact", "rebuilt", "partial"),
        help="how sure every context must be, whatever the view",
    )
    command.add_argument("--format", choices=("text", "json", "junit"), default="text")
    about_model = f"its tokens count, and it drifts (default for --max-drift: {EMBEDDED})"
    add_model(command, default=None, about=about_model)


def inspect(options: argparse.Namespace) -> int:
    """Calls, junctions, token budgets and pair counts of every rollout."""
    from mwviz.summary import summarise

    trace = open_trace(options.file, options.map)
    reader = reader_named(options.model)
    for analysis in () if options.own is None else trace.read_by(reader):
        analysis.add_batch(options.own)
    summary = summarise(trace, reader)
    if options.json:
        print_json(summary)
        return 0
    for rollout in summary["rollouts"]:
        _print_rollout(rollout)
    for damage in summary["damage"]:
        print(visible(f"damaged: line {damage['line']}: {damage['what']}; kept {damage['kept']}"))
    return 0


def _cache(semantics: str) -> str:
    """How a junction's cache was treated, where the log says."""
    return "" if semantics == "unknown" else f"  {semantics}"


def _print_junctions(junctions: list[dict[str, Any]]) -> None:
    for junction in junctions:
        depth = "?" if junction["depth"] is None else f"{junction['depth']:,}"
        print(
            f"  call {junction['call']:>4}  {junction['kind']:<14} depth {depth:>8}  "
            f"-{junction['evicted']:,} +{junction['inserted']:,} "
            f"kept {junction['retained']:,}  ({junction['evidence']})"
            f"{_cache(junction['semantics'])}"
        )
    if junctions:
        print(
            "  call: the first that sees the change; depth: tokens in front that stayed; then "
            "those that left, came, were kept behind"
        )


def _print_rollout(rollout: dict[str, Any]) -> None:
    from mwviz.verdict import DOUBTS

    tokens = rollout["tokens"]
    print(visible(f"\nrollout {rollout['id']}"))
    print(
        f"  {counted(rollout['calls'], 'call')} · {counted(rollout['lineages'], 'lineage')} · "
        f"{counted(rollout['evictions'], 'eviction')} · "
        f"{counted(rollout['leaves'], 'leaf', 'leaves')} · "
        f"content {rollout['fidelity']} · tokens {rollout['tokenizer']} ({rollout['rendering']})"
    )
    print("  tokens: " + " · ".join(f"{name} {count:,}" for name, count in tokens.items()))
    for line in told(rollout["evidence"]):
        print(f"  {line}")
    _print_junctions(rollout["junctions"])
    columns = ("future", "erased", "stale", "foreign", "lost", "shifted")
    width = max(14, *(len(name) + 2 for name in rollout["views"]))
    head = f"  {'view':<{width}}{'coverage':>9}{'diverging':>11}"
    print(head + "".join(f"{column:>15}" for column in columns) + "  claim")
    for name, view in rollout["views"].items():
        if "refused" in view:
            print(visible(f"  {name:<{width}}refused: {view['refused']}"))
            continue
        counts = "".join(f"{view['pairs'][column]:>15,}" for column in columns)
        coverage = percent(view["coverage"], 1, gap="")
        row = f"  {name:<{width}}{coverage:>9}{view['diverging']:>11,}{counts}"
        print(visible(f"{row}  {view['badge']['label']}"))
        if "alignment" in view:
            print(f"    {view['alignment']}")
            if view["badge"]["why"]:
                print(f"    {view['badge']['why']}")
    print("  diverging: sampled tokens; then pairs of a sampled token and a token it looks at")
    if rollout["fidelity"] != "exact":
        print(f"  claims: of what the log tells. {DOUBTS[rollout['fidelity']]}")
    for warning in rollout["warnings"]:
        print(visible(f"  ! {warning}"))


def check(options: argparse.Namespace) -> int:
    """1 if a rollout breaks a limit, else 0; damage is told and changes no status."""
    from mwviz.limits import Limits, findings
    from mwviz.summary import alignment, warnings

    given = (
        options.max_future,
        options.max_stale,
        options.min_coverage,
        options.max_drift,
        options.min_fidelity,
    )
    own = _is_batch(options.view)
    limits = Limits(
        view=Path(options.view).name if own else options.view,
        max_future=0 if all(limit is None for limit in given) else options.max_future,
        max_stale=options.max_stale,
        min_coverage=options.min_coverage,
        max_drift=options.max_drift,
        min_fidelity=options.min_fidelity,
    )
    trace = open_trace(options.file, options.map)
    model = None if limits.max_drift is None else loaded(options)
    found = []
    for analysis in trace.read_by(model or reader_named(options.model)):
        if own:
            batch = analysis.add_batch(options.view)
            told = alignment(batch)
            print(visible(f"mwviz: {analysis.rollout.id}: {told}"), file=sys.stderr)
        for warning in warnings(analysis):
            print(visible(f"mwviz: {analysis.rollout.id}: {warning}"), file=sys.stderr)
        drift = None if model is None else _drift(analysis, limits.view, model)
        try:
            found += findings(analysis, limits, drift)
        except ViewError as error:
            raise ViewError(f"rollout {analysis.rollout.id!r}: {error}") from error
    _print_findings(found, trace, options.format)
    return 1 if found else 0


def _print_findings(found: list[Finding], trace: Trace, form: str) -> None:
    from mwviz.limits import junit
    from mwviz.summary import damage

    checked = len(trace.analyses)
    if form == "json":
        told = [finding.to_json() for finding in found]
        print_json({"ok": not found, "findings": told, "damage": damage(trace)})
    elif form == "junit":
        print(junit(found, checked))
    else:
        for finding in found:
            value, limit = (
                side if isinstance(side, str) else f"{side:g}"
                for side in (finding.value, finding.limit)
            )
            text = f"{finding.rollout}: {finding.rule} {value} against {limit} ({finding.where})"
            print(visible(text))
        print(f"{counted(checked, 'rollout')} checked, {counted(len(found), 'finding')}")


def _is_batch(view: str) -> bool:
    """Whether a view is a trainer's batch: a file; names of methods have no dot."""
    path = Path(view)
    if path.suffix and not path.is_file():
        raise TraceError(f"--view {view}: no such file; expected a batch or a method")
    return path.is_file()


def _drift(analysis: Analysis, view: str, model: Model) -> float:
    from mwviz.scoring import score_methods

    steps = score_methods(analysis, model, (view,), kernel="auto")
    result = watched(steps, analysis.rollout.id)[view]
    if isinstance(result, str):
        raise TraceError(f"{analysis.rollout.id}: {result}")
    return float(result.drift().values.get("mean_abs", 0.0))
