"""What the commands' options have in common: a command itself, and options that several take."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from typing import Any

from mwviz.engine.embedded import EMBEDDED

DEVICES = ("auto", "cpu", "cuda", "mps")
MAX_PORT = 65_535
MAX_SEED = 2**63 - 1
SMALLEST, LARGEST = math.ulp(0.0), sys.float_info.max
"""Bounds of the finite numbers above 0."""

Commands = Any
"""What `add_subparsers` gives; argparse keeps its type private."""
Run = Callable[[argparse.Namespace], int]
"""Takes the parsed options, gives the exit status."""


def add_command(
    added: Commands, name: str, run: Run, *, about: str, example: str
) -> argparse.ArgumentParser:
    """A command with what it does, an example at the end of its help."""
    command: argparse.ArgumentParser = added.add_parser(
        name, help=about, description=about, epilog=f"example: {example}"
    )
    command.set_defaults(run=run)
    return command


def add_place(command: argparse.ArgumentParser, *, call: str, required: bool = True) -> None:
    """A trace, a call in it and how to print what is found."""
    add_file(command)
    about = f"the call {call}, counted from 0"
    command.add_argument("--call", type=int, required=required, metavar="N", help=about)
    command.add_argument("--rollout", metavar="ID", help="which one (default: the file's first)")
    command.add_argument("--json", action="store_true", help="print one JSON document")


def add_view(command: argparse.ArgumentParser) -> None:
    """The layout that is asked about."""
    about = "a method, or the file of a trainer's batch (default: rightmost)"
    command.add_argument("--view", default="rightmost", help=about)


def add_file(command: argparse.ArgumentParser) -> None:
    """The trace."""
    command.add_argument("file", metavar="FILE", help="a trace; - reads standard input")
    add_map(command)


def add_map(command: argparse.ArgumentParser) -> None:
    """The names of a per-call log's fields."""
    command.add_argument(
        "--map", metavar="FIELD=PATH,...", help="names of a per-call log, as prompt_ids=step.ids"
    )


def add_model(
    command: argparse.ArgumentParser,
    *,
    default: str | None = EMBEDDED,
    about: str = f"folder or name (default: {EMBEDDED})",
) -> None:
    """The model that runs, and where."""
    command.add_argument("--model", default=default, help=about)
    command.add_argument("--device", choices=DEVICES, default="auto")


def add_reader(command: argparse.ArgumentParser) -> None:
    """The model whose tokens are counted; it does not run."""
    about = "count in the tokens that this model reads: messages in its own chat template"
    command.add_argument("--model", metavar="M", help=about)


def share(text: str) -> float:
    """A number from 0 to 1."""
    return _number(text, 0.0, 1.0, "no share, expected 0 to 1")


def amount(text: str) -> float:
    """A finite number of at least 0."""
    return _number(text, 0.0, LARGEST, "no limit, expected a number from 0 on")


def factor(text: str) -> float:
    """A finite number above 0."""
    return _number(text, SMALLEST, LARGEST, "out of range, expected a number above 0")


def some(text: str) -> int:
    """A whole number of at least 1."""
    return _whole(text, 1, math.inf, "no count, expected a whole number from 1 on")


def count(text: str) -> int:
    """A whole number of at least 0."""
    return _whole(text, 0, math.inf, "no count, expected a whole number from 0 on")


def seed(text: str) -> int:
    """A whole number that every random generator takes."""
    return _whole(text, 0, MAX_SEED, f"no seed, expected 0 to {MAX_SEED}")


def port(text: str) -> int:
    """A TCP port."""
    return _whole(text, 1, MAX_PORT, f"no port, expected 1 to {MAX_PORT}")


def port_or_any(text: str) -> int:
    """A TCP port to listen on; 0 takes a free one."""
    return _whole(text, 0, MAX_PORT, f"no port, expected 0 to {MAX_PORT}")


def _number(text: str, low: float, high: float, otherwise: str) -> float:
    """A number within bounds, both included; `otherwise` is what any other text is."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"{text} is {otherwise}")
    return value


def _whole(text: str, low: int, high: float, otherwise: str) -> int:
    """A whole number in plain digits within bounds, both included; else as `_number`."""
    if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
        raise argparse.ArgumentTypeError(f"{text} is {otherwise}")
    return int(text)


def pair(text: str) -> tuple[float, float]:
    """Two numbers, `LOW,HIGH`."""
    low, _, high = text.partition(",")
    try:
        return float(low), float(high)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no pair, expected LOW,HIGH") from None


def span(text: str) -> tuple[int, int]:
    """Two whole numbers, `A:B`."""
    start, _, stop = text.partition(":")
    try:
        return int(start), int(stop)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no span, expected A:B") from None
