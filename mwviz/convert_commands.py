"""The commands that write a trace anew, `convert` and `simulate`, and `formats`: what they read."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mwviz.console import open_trace, output_file, reader_named
from mwviz.display import visible
from mwviz.errors import MwvizError, TraceError
from mwviz.exports.kinds import KINDS
from mwviz.options import Commands, add_command, add_map
from mwviz.wording import counted

if TYPE_CHECKING:
    from mwviz.formats.qwen_truncation import Truncation
    from mwviz.rollout import Rollout


def add_formats(added: Commands) -> None:
    """Options of `formats`."""
    about = "list the trace formats, with what each can and cannot tell"
    add_command(added, "formats", formats, about=about, example="mwviz formats")


def add_convert(added: Commands) -> None:
    """Options of `convert`."""
    about = "write any trace as mwviz/1, in another format or as training data"
    example = "mwviz convert session.jsonl out.jsonl"
    command = add_command(added, "convert", convert, about=about, example=example)
    command.add_argument("input", metavar="IN", help="a trace; - reads standard input")
    command.add_argument("output", metavar="OUT", help="the file to write")
    command.add_argument(
        "--as",
        dest="kind",
        choices=tuple(KINDS),
        metavar="KIND",
        default="mwviz/1",
        help="mwviz/1; calls: a record a call; verifiers: a message graph; atif: trajectory files; "
        "packed: one exact row as safetensors; branches: exact samples, also as verl, trl or "
        "prime-rl names them",
    )
    command.add_argument(
        "--truncation",
        type=int,
        metavar="N",
        help="work out what Qwen-Agent cut from a list at its limit of N tokens",
    )
    command.add_argument("--tokenizer", help="counts those tokens: a tokenizer.json of Qwen")
    command.add_argument(
        "--link",
        action="store_true",
        help="Claude Code: records whose parent is missing go on from the one before, as a guess",
    )
    command.add_argument(
        "--semantics",
        action="append",
        default=[],
        metavar="WORD[:CALL,...]",
        help="how the cache was treated at junctions, where the log does not say or is wrong: "
        "re_prefill, kv_orig or kv_reindex, for all or before some calls (from 0)",
    )
    about_model = "training data in the tokens that it reads: messages in its own chat template"
    command.add_argument("--model", metavar="M", help=about_model)
    add_map(command)


def add_simulate(added: Commands) -> None:
    """Options of `simulate`."""
    about = "replay a trace as another harness would have run it; needs no model"
    example = "mwviz simulate claude-code-full run.jsonl -o out.jsonl --set window=32000"
    command = add_command(added, "simulate", simulate, about=about, example=example)
    command.add_argument("preset", nargs="?", metavar="PRESET", help="see --list")
    command.add_argument("file", nargs="?", metavar="FILE", help="a trace; - reads standard input")
    command.add_argument("-o", "--out", metavar="OUT", help="where to write the call log (mwviz/1)")
    command.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="option of the preset"
    )
    command.add_argument("--tokenizer", help="counts tokens (default: the one used for structure)")
    command.add_argument("--list", action="store_true", help="print the presets and their options")


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

    output = output_file(options.output)
    cut = _truncation(options.truncation, options.tokenizer)
    trace = open_trace(options.input, options.map, cut, link=options.link)
    if options.semantics:
        trace = trace.with_semantics(options.semantics)
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
    out = output_file(options.out)
    preset = preset_named(options.preset)
    settings = preset.parsed(options.set)
    made = [
        replayed(rollout, preset.name, tokenizer=options.tokenizer, **settings)
        for rollout in open_trace(options.file).rollouts
    ]
    _write(made, out)
    for rollout in made:
        for warning in rollout.warnings:
            print(visible(f"{rollout.id}: {warning}"), file=sys.stderr)
    print(f"{counted(len(made), 'rollout')} written to {options.out}", file=sys.stderr)
    return 0


def _write(rollouts: Sequence[Rollout], path: Path) -> None:
    from mwviz.formats import write

    try:
        write(rollouts, path)
    except OSError as error:
        raise TraceError(f"{path}: cannot be written: {error.strerror}") from error
