"""What each command does: the only place that prints. Progress and damage go to stderr.

Every function takes the parsed options and returns the exit status.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mwviz.console import counted, loaded, open_trace, print_json, reader_named, watched
from mwviz.display import visible
from mwviz.errors import MwvizError, TraceError, ViewError
from mwviz.evidence import told

if TYPE_CHECKING:
    from mwviz.analysis import Analysis
    from mwviz.engine.model import Model
    from mwviz.formats.qwen_truncation import Truncation
    from mwviz.rollout import Rollout


def inspect(options: argparse.Namespace) -> int:
    """Calls, junctions, token budgets and pair counts of every rollout."""
    from mwviz.summary import summarise

    trace = open_trace(options.file, options.map)
    reader = reader_named(options.model)
    for analysis in trace.read_by(reader) if options.own else ():
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


def _print_rollout(rollout: dict[str, Any]) -> None:
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
    for junction in rollout["junctions"]:
        depth = "?" if junction["depth"] is None else f"{junction['depth']:,}"
        print(
            f"  call {junction['call']:>4}  {junction['kind']:<14} depth {depth:>8}  "
            f"-{junction['evicted']:,} +{junction['inserted']:,} "
            f"kept {junction['retained']:,}  ({junction['evidence']})"
            f"{_cache(junction['semantics'])}"
        )
    columns = ("future", "erased", "stale", "foreign", "lost", "shifted")
    head = f"  {'view':<14}{'coverage':>9}{'diverging':>11}"
    print(head + "".join(f"{column:>15}" for column in columns) + "  claim")
    for name, view in rollout["views"].items():
        if "refused" in view:
            print(visible(f"  {name:<14}refused: {view['refused']}"))
            continue
        counts = "".join(f"{view['pairs'][column]:>15,}" for column in columns)
        row = f"  {name:<14}{view['coverage']:>9.1%}{view['diverging']:>11,}{counts}"
        print(visible(f"{row}  {view['badge']['label']}"))
        if "alignment" in view:
            print(f"    {view['alignment']}")
            if view["badge"]["why"]:
                print(f"    {view['badge']['why']}")
    print("  diverging: sampled tokens; then pairs of a sampled token and a token it looks at")
    for warning in rollout["warnings"]:
        print(visible(f"  ! {warning}"))


def _is_batch(view: str) -> bool:
    """Whether a view is a trainer's batch: a file; names of methods have no dot."""
    path = Path(view)
    if path.suffix and not path.is_file():
        raise TraceError(f"--view {view}: no such file; expected a batch or a method")
    return path.is_file()


def check(options: argparse.Namespace) -> int:
    """1 if a rollout breaks a limit, else 0."""
    from mwviz.limits import Limits, findings, junit
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
    if options.format == "json":
        print_json({"ok": not found, "findings": [finding.to_json() for finding in found]})
    elif options.format == "junit":
        print(junit(found, len(trace.analyses)))
    else:
        for finding in found:
            value, limit = (
                side if isinstance(side, str) else f"{side:g}"
                for side in (finding.value, finding.limit)
            )
            text = f"{finding.rollout}: {finding.rule} {value} against {limit} ({finding.where})"
            print(visible(text))
        checked = counted(len(trace.analyses), "rollout")
        print(f"{checked} checked, {counted(len(found), 'finding')}")
    return 1 if found else 0


def _drift(analysis: Analysis, view: str, model: Model) -> float:
    from mwviz.scoring import score_methods

    steps = score_methods(analysis, model, (view,), kernel="auto")
    result = watched(steps, analysis.rollout.id)[view]
    if isinstance(result, str):
        raise TraceError(f"{analysis.rollout.id}: {result}")
    return float(result.drift().values.get("mean_abs", 0.0))


def formats(_options: argparse.Namespace) -> int:
    """The trace formats, with what each can and cannot tell."""
    from mwviz.formats import FORMATS

    for known in FORMATS:
        print(f"{known.name:<18}{known.title}")
        print(f"{'':<18}fidelity: {known.fidelity}")
        print(f"{'':<18}unknowable: {known.unknowable}")
    return 0


def convert(options: argparse.Namespace) -> int:
    """Any trace as `mwviz/1`, or its exact views as training data."""
    from mwviz.exports.kinds import export

    cut = _truncation(options.truncation, options.tokenizer)
    trace = open_trace(options.input, options.map, cut, link=options.link)
    if options.semantics:
        trace = trace.with_semantics(options.semantics)
    output = Path(options.output)
    for sentence in export(trace, output, options.kind, reader_named(options.model)):
        print(visible(f"mwviz: {output}: {sentence}"), file=sys.stderr)
    print(f"{counted(len(trace.rollouts), 'rollout')} written to {output}", file=sys.stderr)
    return 0


def _truncation(limit: int | None, tokenizer: str | None) -> Truncation | None:
    """A harness's limit with what counts its tokens, if both were given."""
    from mwviz.formats.qwen_truncation import Truncation
    from mwviz.tokenizer import tokenizer_for

    if limit is None and tokenizer is None:
        return None
    if limit is None:
        raise TraceError("--tokenizer counts for --truncation N, expected both or neither")
    tokens = tokenizer_for(tokenizer) if tokenizer else None
    if tokens is None or limit < 1:
        raise TraceError(
            f"--truncation {limit}: expected a limit of at least 1 token, and with --tokenizer the "
            "tokenizer.json of Qwen that the harness counts with"
        )
    return Truncation(limit, tokens)


def simulate(options: argparse.Namespace) -> int:
    """A trace replayed under a harness preset, written as `mwviz/1`."""
    from mwviz.simulate import preset_named
    from mwviz.simulate import simulate as replayed
    from mwviz.simulate.listing import listed

    if options.list:
        print(listed())
        return 0
    if not (options.preset and options.file and options.out):
        raise MwvizError("simulate needs PRESET FILE -o OUT; --list prints the presets")
    preset = preset_named(options.preset)
    settings = preset.parsed(options.set)
    made = [
        replayed(rollout, preset.name, tokenizer=options.tokenizer, **settings)
        for rollout in open_trace(options.file).rollouts
    ]
    _write(made, Path(options.out))
    for rollout in made:
        for warning in rollout.warnings:
            print(visible(f"{rollout.id}: {warning}"), file=sys.stderr)
    print(f"{counted(len(made), 'rollout')} written to {options.out}", file=sys.stderr)
    return 0


def bench(options: argparse.Namespace) -> int:
    """Times, memory and distances of every exact method that this machine can run."""
    from mwviz.engine.bench import line
    from mwviz.engine.model import choose_device
    from mwviz.engine.trials import run

    shapes = tuple(options.shape or ("tiny",))
    device = choose_device(options.device)
    told = 0
    for document in run(Path(options.workloads), device, shapes=shapes, scale=options.scale):
        for row in document["timings"][told:]:
            print(visible(line(row)), flush=True)
        told = len(document["timings"])
        if options.out:  # each time, so that a run that is cut short leaves its numbers
            Path(options.out).write_text(json.dumps(document, indent=1) + "\n")
    return 0


def doctor(options: argparse.Namespace) -> int:
    """What is installed, and what to do about the rest."""
    from mwviz.doctor import examine, template_traps
    from mwviz.engine import embedded

    if options.install_model:
        embedded.install(lambda message: print(message, file=sys.stderr))
    broken = 0
    found = template_traps(options.model) if options.model else examine()
    for finding in found:
        print(f"{finding.name:<24}{finding.state}")
        if finding.remedy:
            broken += 1
            print(f"{'':<24}-> {finding.remedy}")
    if not options.model:
        print("everything is there" if not broken else f"{broken} things to do")
    return 0


def app(options: argparse.Namespace) -> int:
    """Runs the browser app until it is stopped."""
    from mwviz.serve import serve

    device = None if options.device == "auto" else options.device
    return serve(options.paths, options.port, models=options.model or (), device=device)


def _write(rollouts: Sequence[Rollout], path: Path) -> None:
    from mwviz.formats import write

    try:
        write(rollouts, path)
    except OSError as error:
        raise TraceError(f"{path}: cannot be written: {error.strerror}") from error
