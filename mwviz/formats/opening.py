"""Where a trace's bytes come from, and which of them are no JSON at all."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

from mwviz.errors import TraceError, refused

BINARY = {
    b"PK\x03\x04": "a zip archive, damaged or without JSON in it",
    b"PAR1": "Parquet",
    b"SQLite format 3": "an SQLite database",
    b"%PDF": "a PDF",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"\x80\x02": "a pickle (never opened)",
    b"\x80\x04": "a pickle (never opened)",
    b"\x80\x05": "a pickle (never opened)",
}


TAR, TAR_AT = b"ustar", 257
"""What a tar archive's first header holds, and where."""


def refuse_binary(start: bytes, name: str) -> None:
    """Says what a file is that is told by its first bytes to be something else than JSON.

    Raises:
        TraceError: It is.
    """
    if start[TAR_AT : TAR_AT + len(TAR)] == TAR:
        raise TraceError(f"{name}: is a tar archive, expected to be named as a file, not piped in")
    for magic, what in BINARY.items():
        if start.startswith(magic):
            raise TraceError(f"{name}: is {what}, expected JSON Lines or a JSON document")


def called(source: str | Path | bytes) -> str:
    """What messages call a source."""
    if isinstance(source, bytes):
        return "<bytes>"
    return "<stdin>" if source == "-" else str(source)


def readable(name: str) -> AbstractContextManager[None]:
    """Says of what is looked at or read there that it cannot be, and why: as a TraceError."""
    return refused(TraceError, name, "a readable file")


@contextmanager
def opened(source: str | Path | bytes) -> Iterator[BinaryIO]:
    """The bytes of a path, of standard input (`-`) or of memory.

    Raises:
        TraceError: It is a folder or cannot be read.
    """
    name = called(source)
    if isinstance(source, bytes):
        yield io.BytesIO(source)
        return
    with readable(name):
        if source == "-":
            if sys.stdin is None:  # the shell closed it
                raise TraceError(f"{name}: is closed, expected a trace")
            yield sys.stdin.buffer
            return
        if Path(source).is_dir():
            raise TraceError(f"{name}: is a directory, expected a trace file")
        try:
            file = Path(source).open("rb")  # noqa: SIM115 - closed below
        except ValueError as error:
            raise TraceError(f"{name}: {error}, expected a readable file") from error
        with file:
            yield file
