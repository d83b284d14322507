"""What all commands share: a trace file opened, a progress line, a JSON document printed.

Progress and damage go to stderr.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from mwviz.display import visible
from mwviz.errors import TraceError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from mwviz.engine.model import Model
    from mwviz.engine.steps import Step
    from mwviz.formats.qwen_truncation import Truncation
    from mwviz.readers import TokenizerOnly
    from mwviz.trace import Trace

PAUSE = 0.2
"""Seconds between two updates of the progress line."""


@contextmanager
def output() -> Iterator[None]:
    """Standard output for one command: every locale can show it, and it is written to the end.

    What is printed once nobody reads it (`| head`) is dropped, and the work goes on to its own end.

    Raises:
        TraceError: The place takes no more, as a full disk.
    """
    with redirect_stdout(_lasting(sys.stdout, counts=True)):
        try:
            yield
        finally:
            if sys.stdout is not None:  # None where the shell closed it
                sys.stdout.flush()


@contextmanager
def asides() -> Iterator[None]:
    """Standard error for one command: that nobody can read it changes neither work nor status."""
    # None where the shell closed it: `print` would take standard output instead.
    with redirect_stderr(_lasting(sys.stderr or io.StringIO(), counts=False)):
        try:
            yield
        finally:
            sys.stderr.flush()


def _lasting(stream: TextIO, *, counts: bool) -> TextIO:
    """The same place through `_Lasting`; a stream that is no file's is taken as it is."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.flush()
    raw: Any = getattr(stream.buffer, "raw", stream.buffer)
    return io.TextIOWrapper(
        io.BufferedWriter(_Lasting(raw, counts=counts)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering or stream.write_through,
    )


class _Lasting(io.RawIOBase):
    """Passes bytes on until their place takes no more; from then on they go nowhere.

    It stands below all buffers, so that none holds bytes which Python would try again to write
    when it ends; the descriptor itself stays as it was.
    """

    def __init__(self, place: BinaryIO, *, counts: bool) -> None:
        self._place, self._counts, self._takes = place, counts, True

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._place.isatty()

    def fileno(self) -> int:
        return self._place.fileno()

    def write(self, data: ReadableBuffer, /) -> int | None:
        if self._takes:
            try:
                return self._place.write(data)
            except OSError as error:
                self._takes = False
                if self._counts and not isinstance(error, BrokenPipeError):
                    raise TraceError(f"output cannot be written: {error.strerror}") from error
        return memoryview(data).nbytes


def open_trace(
    path: str,
    mapping: str | None = None,
    truncation: Truncation | None = None,
    *,
    link: bool = False,
) -> Trace:
    """The rollouts of a file, or of standard input for `-`; tells what was damaged."""
    from mwviz.formats import read
    from mwviz.formats.mapped import parse_mapping
    from mwviz.trace import Trace

    names = None if mapping is None else parse_mapping(mapping)
    trace = Trace(path, read(path, mapping=names, truncation=truncation, link=link))
    for damage in trace.damage:
        print(
            visible(f"mwviz: {path}:{damage.line}: {damage.what}; kept {damage.kept}"),
            file=sys.stderr,
        )
    return trace


def reader_named(model: str | None) -> TokenizerOnly | None:
    """The tokenizer of a model that the user named; None if none was named."""
    if model is None:
        return None
    from mwviz.engine.model import load_reader

    return load_reader(model)


def loaded(options: argparse.Namespace) -> Model:
    """The model that the user named, on the device they named; the embedded one if they named none.

    Raises:
        ModelError: It cannot be loaded.
        SetupError: It is not installed.
    """
    from mwviz.engine.embedded import EMBEDDED
    from mwviz.engine.model import load_model

    name = EMBEDDED if options.model is None else options.model
    return load_model(name, device=options.device)


def watched(steps: Iterator[Step[Any]], what: str) -> Any:
    """The result of long work, with its progress and time to go on stderr."""
    shown, live = 0.0, sys.stderr.isatty()
    result = None
    for step in steps:
        result = step.result
        now = time.monotonic()
        if live and (now - shown > PAUSE or result is not None):
            shown = now
            share = step.done / max(step.total, 1)
            line = f"\r{what[:40]} {share:>4.0%}, {step.eta:.0f} s to go\033[K"
            print(visible(line, keep="\r\033"), end="", file=sys.stderr, flush=True)
    if live:
        print(file=sys.stderr)
    return result


def output_file(path: str) -> Path:
    """Where a file will be written, looked at before the work that it is to hold.

    Raises:
        TraceError: It is `-`, a folder, is there and cannot be written, or cannot be made in its
            folder.
    """
    if path == "-":
        raise TraceError("-: is no name of a file to write; expected one (./- if it is this)")
    wanted = Path(path)
    with place(path):
        if not path or wanted.is_dir():
            raise TraceError(f"{path or repr(path)}: is no file, expected one to write")
        # Its folder says nothing of a file that is there: /dev/null can be written, /dev cannot.
        if not wanted.exists():
            _check_folder(wanted, wanted.parent)
        elif not os.access(wanted, os.W_OK):
            raise TraceError(f"{path}: cannot be written: it is read-only for you")
    return wanted


def output_folder(path: str) -> Path:
    """Where a folder will be made or filled, looked at before the work that it is to hold.

    Raises:
        TraceError: A file has that name, or what is there cannot be written.
    """
    if not path:
        raise TraceError("'': is no folder, expected one to write")
    wanted = Path(path)
    with place(path):
        _check_folder(wanted, next(at for at in (wanted, *wanted.parents) if at.exists()))
    return wanted


@contextmanager
def place(path: str) -> Iterator[None]:
    """Says of what is looked at or written there that it cannot be, and why.

    Raises:
        TraceError: The system refuses it.
    """
    try:
        yield
    except OSError as error:
        raise TraceError(f"{path}: cannot be written: {error.strerror}") from error


def _check_folder(path: Path, folder: Path) -> None:
    """Refuses a folder that cannot take what will lie there."""
    if not folder.is_dir():
        place = "it" if folder == path else folder
        what = "is a file, not a folder" if folder.exists() else "is no such folder"
        raise TraceError(f"{path}: cannot be written: {place} {what}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise TraceError(f"{path}: cannot be written: {folder} is read-only for you")


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    print(json.dumps(plain(value), indent=1, ensure_ascii=True, allow_nan=False))


def plain(value: Any) -> Any:
    """What JSON can say: a number that is not known, or is beyond all, is null."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
