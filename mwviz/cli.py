"""The command line: which commands there are, with their options, and their exit status.

0 fine, 1 `check` found something, 2 bad input or usage.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, get_args

from mwviz import (
    __version__,
    commands,
    model_commands,
    record_command,
    token_commands,
    train_command,
)
from mwviz.display import visible
from mwviz.engine.embedded import EMBEDDED
from mwviz.errors import MwvizError
from mwviz.exports.kinds import KINDS
from mwviz.gap import Weights
from mwviz.recorder.server import TOKENS

DEVICES = ("auto", "cpu", "cuda", "mps")

Commands = Any
"""What `add_subparsers` gives; argparse keeps its type private."""
Run = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; its exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except MwvizError as error:
        print(f"mwviz: {visible(str(error))}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt:
        print("mwviz: stopped; finished scores are kept", file=sys.stderr)
        return 130
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mwviz", description="Debug agents trained under context compression."
    )
    parser.add_argument("--version", action="version", version=f"mwviz {__version__}")
    added = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for add in (
        _app,
        _inspect,
        _check,
        _score,
        _why,
        _leaks,
        _undo,
        _train,
        _formats,
        _convert,
        _simulate,
        _record,
        _bench,
        _doctor,
    ):
        add(added)
    return parser


def _command(
    added: Commands, name: str, run: Run, *, about: str, example: str
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = added.add_parser(
        name, help=about, description=about, epilog=f"example: {example}"
    )
    command.set_defaults(run=run)
    return command


def _app(added: Commands) -> None:
    about = "open the browser app; without a file, its built-in demo"
    app = _command(added, "app", commands.app, about=about, example="mwviz app run.jsonl")
    app.add_argument("paths", nargs="*", metavar="FILE|DIR", help="traces to offer")
    app.add_argument("--port", type=int, help="on 127.0.0.1; default: first free one from 8501")
    app.add_argument("--model", action="append", help="model to offer besides the embedded one")
    app.add_argument("--device", choices=DEVICES, default="auto")


def _inspect(added: Commands) -> None:
    about = "show calls, junctions, token budgets and who sees what in each view"
    example = "mwviz inspect run.jsonl --json"
    command = _command(added, "inspect", commands.inspect, about=about, example=example)
    _add_file(command)
    command.add_argument("--json", action="store_true", help="print one JSON document")
    command.add_argument("--own", metavar="BATCH", help="a trainer's batch to judge as a view")
    _add_reader(command)


def _check(added: Commands) -> None:
    about = "exit 1 if a training view breaks a limit; without limits: --max-future 0"
    example = "mwviz check run.jsonl --view rightmost --min-coverage 0.9"
    command = _command(added, "check", commands.check, about=about, example=example)
    _add_file(command)
    _add_view(command)
    command.add_argument("--max-future", type=int, metavar="N", help="pairs that look ahead")
    command.add_argument("--max-stale", type=int, metavar="N", help="pairs that see evicted text")
    command.add_argument("--min-coverage", type=_share, metavar="X", help="trained share, 0 to 1")
    command.add_argument("--max-drift", type=float, metavar="X", help="mean |drift| in nats")
    command.add_argument(
        "--min-fidelity",
        choices=("exact", "rebuilt", "partial"),
        help="how sure every context must be, whatever the view",
    )
    command.add_argument("--format", choices=("text", "json", "junit"), default="text")
    about_model = f"its tokens count, and it drifts (default for --max-drift: {EMBEDDED})"
    _add_model(command, default=None, about=about_model)


def _score(added: Commands) -> None:
    about = "run training views on a model and compare them with the true contexts"
    example = "mwviz score run.jsonl --method all"
    command = _command(added, "score", model_commands.score, about=about, example=example)
    _add_file(command)
    command.add_argument("--method", metavar="NAME|exact|all")
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
    _add_model(command)


def _train(added: Commands) -> None:
    about = "fine-tune copies of a model with each method, and watch what that does"
    example = "mwviz train run.jsonl --method rightmost,packed_mask --lora 8 --out runs/1"
    command = _command(added, "train", train_command.train, about=about, example=example)
    command.add_argument("files", nargs="*", metavar="FILE", help="traces to train on")
    command.add_argument(
        "--method", default="all", metavar="NAME,...|all", help="also exact, own:BATCH"
    )
    command.add_argument("--steps", type=int, default=30, help="optimiser steps (default: 30)")
    command.add_argument("--lr", type=float, default=1e-4, help="learning rate (default: 1e-4)")
    command.add_argument(
        "--batch-tokens", type=int, default=4096, help="tree tokens a step (default: 4096)"
    )
    command.add_argument("--seed", type=int, default=0, help="of the order, the same for all")
    command.add_argument("--lora", type=int, metavar="R", help="train an adapter of this rank")
    command.add_argument("--objective", choices=("nll", "policy"), default="nll")
    command.add_argument(
        "--clip", type=_pair, default=(0.8, 1.28), metavar="LOW,HIGH", help="of importance ratios"
    )
    command.add_argument("--most", type=float, metavar="R", help="cut importance ratios here")
    command.add_argument("--strength", type=float, default=0.1, help="of SDCC's KL (default: 0.1)")
    command.add_argument("--rise", type=float, default=0.2, help="share of steps it rises over")
    command.add_argument("--weight-decay", type=float, default=0.0)
    command.add_argument("--grad-clip", type=float, default=1.0, help="0 does not cut (default: 1)")
    command.add_argument("--warmup", type=int, default=0, metavar="N", help="steps the rate rises")
    command.add_argument(
        "--rollout", action="append", default=[], metavar="ID", help="train on this one only"
    )
    command.add_argument(
        "--held-out", action="append", default=[], metavar="FILE", help="traces to watch"
    )
    command.add_argument(
        "--watch", type=int, default=10, metavar="N", help="steps between looks (default: 10)"
    )
    command.add_argument("--adapter", metavar="DIR", help="checkpoint or adapter to start from")
    command.add_argument("--out", default="mwviz-run", metavar="DIR", help="folder of the results")
    command.add_argument("--resume", metavar="DIR", help="go on with the run in this folder")
    command.add_argument("--json", action="store_true", help="one JSON line a step, then a summary")
    _add_model(command)


def _why(added: Commands) -> None:
    about = "tell what one sampled token sees and misses in a view, and what each text does to it"
    example = "mwviz why run.jsonl --call 9 --token 3 --view rightmost"
    command = _command(added, "why", token_commands.why, about=about, example=example)
    _add_place(command, call="that sampled the token")
    command.add_argument("--token", type=int, required=True, metavar="T", help="from 0")
    _add_view(command)
    about_none = "only what is seen and missed, in the tokens of --model if it is named"
    command.add_argument("--no-model", action="store_true", help=about_none)
    about_model = f"folder or name (default: {EMBEDDED})"
    _add_model(command, default=None, about=about_model)


def _leaks(added: Commands) -> None:
    about = "list the sampled tokens that a piece of text leaks into, or is missing from"
    example = "mwviz leaks run.jsonl --call 3 --span 34:76 --view replay"
    command = _command(added, "leaks", token_commands.leaks, about=about, example=example)
    _add_place(command, call="whose text is meant")
    about_span = "tokens of its prompt + completion, from 0, B excluded (default: its completion)"
    command.add_argument("--span", type=_span, metavar="A:B", help=about_span)
    _add_view(command)
    _add_reader(command)


def _undo(added: Commands) -> None:
    about = "put back what evictions removed, score the calls behind them again: what was lost"
    example = "mwviz undo run.jsonl --call 3"
    command = _command(added, "undo", token_commands.undo, about=about, example=example)
    _add_place(command, call="behind the junction (default: all junctions)", required=False)
    _add_model(command)


def _formats(added: Commands) -> None:
    about = "list the trace formats, with what each can and cannot tell"
    _command(added, "formats", commands.formats, about=about, example="mwviz formats")


def _convert(added: Commands) -> None:
    about = "write any trace as mwviz/1, in another format or as training data"
    example = "mwviz convert session.jsonl out.jsonl"
    command = _command(added, "convert", commands.convert, about=about, example=example)
    command.add_argument("input", metavar="IN")
    command.add_argument("output", metavar="OUT")
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
    _add_map(command)


def _simulate(added: Commands) -> None:
    about = "replay a trace as another harness would have run it; needs no model"
    example = "mwviz simulate claude-code-full run.jsonl -o out.jsonl --set window=32000"
    command = _command(added, "simulate", commands.simulate, about=about, example=example)
    command.add_argument("preset", nargs="?", metavar="PRESET", help="see --list")
    command.add_argument("file", nargs="?", metavar="FILE", help="a trace; - reads standard input")
    command.add_argument("-o", "--out", metavar="OUT", help="where to write the call log (mwviz/1)")
    command.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="option of the preset"
    )
    command.add_argument("--tokenizer", help="counts tokens (default: the one used for structure)")
    command.add_argument("--list", action="store_true", help="print the presets and their options")


def _record(added: Commands) -> None:
    about = "record an agent: a proxy between its harness and its provider"
    example = "mwviz record --upstream https://api.example.com -o run.jsonl"
    command = _command(added, "record", record_command.record, about=about, example=example)
    command.add_argument("--upstream", required=True, metavar="URL", help="the provider or engine")
    command.add_argument("-o", "--out", required=True, metavar="OUT", help="mwviz/1 file to grow")
    command.add_argument("--port", type=int, default=8787, help="to listen on (default: 8787)")
    command.add_argument("--host", default="127.0.0.1", help="to listen on (default: this machine)")
    command.add_argument(
        "--tokens",
        choices=TOKENS,
        default="auto",
        help="engine to ask for token ids and logprobs; auto asks the upstream what it is",
    )
    command.add_argument("--mask", action="store_true", help="replace credentials in the text")
    command.add_argument(
        "--mask-pattern", action="append", default=[], metavar="REGEX", help="mask this too"
    )
    command.add_argument("--raw", metavar="F.jsonl.gz", help="also keep the bodies as they were")


def _bench(added: Commands) -> None:
    about = "measure exact methods and kernels on this machine, on random-weight models"
    example = "mwviz bench --shape 0.6B -o bench.json"
    command = _command(added, "bench", commands.bench, about=about, example=example)
    command.add_argument("--shape", action="append", help="0.6B, 1.7B or tiny (default: tiny)")
    command.add_argument(
        "--workloads", default="bench/workloads", metavar="DIR", help="trees to run"
    )
    command.add_argument("--scale", type=float, default=1.0, help="factor of every span's tokens")
    command.add_argument("-o", "--out", metavar="OUT", help="write all numbers as JSON")
    command.add_argument("--device", choices=DEVICES, default="auto")


def _doctor(added: Commands) -> None:
    about = "report what is installed and what to do about the rest"
    example = "mwviz doctor --install-model"
    command = _command(added, "doctor", commands.doctor, about=about, example=example)
    command.add_argument("--install-model", action="store_true", help="install the embedded model")
    command.add_argument("--model", metavar="M", help="name the traps of a model's chat template")


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is no share, expected 0 to 1")
    return value


def _pair(text: str) -> tuple[float, float]:
    low, _, high = text.partition(",")
    try:
        return float(low), float(high)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no pair, expected LOW,HIGH") from None


def _span(text: str) -> tuple[int, int]:
    start, _, stop = text.partition(":")
    try:
        return int(start), int(stop)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no span, expected A:B") from None


def _add_place(command: argparse.ArgumentParser, *, call: str, required: bool = True) -> None:
    _add_file(command)
    about = f"the call {call}, counted from 0"
    command.add_argument("--call", type=int, required=required, metavar="N", help=about)
    command.add_argument("--rollout", metavar="ID", help="which one (default: the file's first)")
    command.add_argument("--json", action="store_true", help="print one JSON document")


def _add_view(command: argparse.ArgumentParser) -> None:
    about = "a method, or the file of a trainer's batch (default: rightmost)"
    command.add_argument("--view", default="rightmost", help=about)


def _add_file(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", metavar="FILE", help="a trace; - reads standard input")
    _add_map(command)


def _add_map(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--map", metavar="FIELD=PATH,...", help="names of a per-call log, as prompt_ids=step.ids"
    )


def _add_model(
    command: argparse.ArgumentParser,
    *,
    default: str | None = EMBEDDED,
    about: str = f"folder or name (default: {EMBEDDED})",
) -> None:
    command.add_argument("--model", default=default, help=about)
    command.add_argument("--device", choices=DEVICES, default="auto")


def _add_reader(command: argparse.ArgumentParser) -> None:
    about = "count in the tokens that this model reads: messages in its own chat template"
    command.add_argument("--model", metavar="M", help=about)


if __name__ == "__main__":
    sys.exit(main())
