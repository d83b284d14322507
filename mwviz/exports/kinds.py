"""What a trace can be written as: one line a kind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from mwviz.errors import TraceError
from mwviz.exports.files import write_calls, write_graphs, write_trajectory
from mwviz.exports.shapes import SHAPES
from mwviz.exports.told import lost, recomputed, rendered, unrecorded
from mwviz.exports.training import write_branches, write_packed
from mwviz.formats import read
from mwviz.formats.mwviz1_writer import write
from mwviz.readers import Reader
from mwviz.trace import Trace

OWN = "mwviz/1"
PACKED = "packed"
BINARY = ".safetensors"
READABLE = ("calls", "verifiers", "atif")
"""Kinds that open again as a trace, which is how their losses are found."""


def export(trace: Trace, path: Path, kind: str, reader: Reader | None = None) -> list[str]:
    """Writes a trace's rollouts as one of `KINDS`; sentences on what the file does not say.

    Args:
        trace: what was read.
        path: the file.
        kind: one of `KINDS`.
        reader: the model whose tokens training data has; None takes the trace's own.

    Raises:
        ModelError: The model cannot read one of them.
        TraceError: The kind cannot hold them, has another ending, the file cannot be written, or it
            is the one that the trace was read from.
    """
    if path.exists() and Path(trace.path).exists() and path.samefile(trace.path):
        raise TraceError(f"{path}: is what is converted, and would be lost; choose a new name")
    if (path.suffix == BINARY) != (kind == PACKED):
        raise TraceError(
            f"{path}: --as {kind} does not write such a file; expected a name ending in "
            f"{BINARY if kind == PACKED else '.jsonl'}"
        )
    if reader is not None and kind in (OWN, *READABLE):
        raise TraceError(f"--as {kind} writes what was recorded: --model is for training data")
    try:
        KINDS[kind](trace, reader, path)
    except OSError as error:
        raise TraceError(f"{path}: cannot be written: {error.strerror}") from error
    if kind == OWN:
        return []
    if kind in READABLE:
        return list(lost(trace.rollouts, read(path).rollouts))
    told = (rendered, unrecorded, recomputed)
    return [sentence for tell in told for sentence in tell(trace.read_by(reader))]


def _packed(trace: Trace, reader: Reader | None, path: Path) -> None:
    if len(trace.rollouts) != 1:
        raise TraceError(
            f"{path}: {len(trace.rollouts)} rollouts, expected one: a packed file holds one tree"
        )
    write_packed(trace.read_by(reader)[0], path)


def _trajectory(trace: Trace, _reader: Reader | None, path: Path) -> None:
    source = Path(trace.path)
    write_trajectory(trace.rollouts, path, source=source if source.exists() else None)


def _branches(trace: Trace, reader: Reader | None, path: Path, *, shape: str | None = None) -> None:
    write_branches(trace.read_by(reader), path, shape=shape)


KINDS: dict[str, Callable[[Trace, Reader | None, Path], object]] = {
    OWN: lambda trace, _, path: write(trace.rollouts, path),
    "calls": lambda trace, _, path: write_calls(trace.rollouts, path),
    "verifiers": lambda trace, _, path: write_graphs(trace.rollouts, path),
    "atif": _trajectory,
    PACKED: _packed,
    "branches": _branches,
    **{shape: partial(_branches, shape=shape) for shape in SHAPES},
}
