"""Bytes of a trace file as plain chunks: gzip and Zstandard by their magic bytes, within limits."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from importlib import import_module
from types import ModuleType
from typing import BinaryIO, Protocol

from mwviz.errors import TraceError
from mwviz.extras import needed

CHUNK = 1 << 16
"""Bytes read at once from a plain file."""
STEP = 64
"""Packed bytes unpacked at once: bounds what one step can blow up to."""
MAX_UNPACKED = 8 << 30
"""Bytes that a packed trace may unpack to."""
MAX_RATIO = 1000
"""Unpacked bytes for each packed byte; gzip of one repeated byte reaches 1030."""
RATIO_FROM = 64 << 20
"""Unpacked bytes below which the ratio is not looked at."""
GZIP_WINDOW = 31
"""zlib's code for a gzip header and its check sum."""
GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"


class CutError(Exception):
    """The packed data break off or are damaged; everything before was handed out."""


class Unpacker(Protocol):
    """What zlib and zstandard give for one packed stream."""

    @property
    def eof(self) -> bool:
        """Whether the stream's end was reached."""

    @property
    def unused_data(self) -> bytes:
        """What was given behind the stream's end."""

    def decompress(self, data: bytes, /) -> bytes:
        """Plain bytes that these packed ones bring out."""


def unpacked(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Chunks of the file's plain bytes.

    Raises:
        TraceError: It unpacks to more than the limits.
        SetupError: It is packed with Zstandard and the package for it is missing.
        CutError: The packed data end early or are damaged.
    """
    start = file.read(CHUNK)
    if start.startswith(GZIP):
        yield from _measured(file, start, name=name, kind="gzip")
    elif start.startswith(ZSTD):
        yield from _measured(file, start, name=name, kind="zstd")
    else:
        while start:
            yield start
            start = file.read(CHUNK)


def _measured(file: BinaryIO, start: bytes, *, name: str, kind: str) -> Iterator[bytes]:
    given = 0
    packed = _Counted(file, start)
    for piece in _pieces(packed, kind):
        given += len(piece)
        if given > MAX_UNPACKED or (given > RATIO_FROM and given > MAX_RATIO * packed.taken):
            raise TraceError(
                f"{name}: {packed.taken:,} packed bytes unpack to more than {given:,}, expected at "
                f"most {MAX_UNPACKED:,} bytes and {MAX_RATIO} for each packed byte; unpack it "
                "yourself if you trust it"
            )
        yield piece


class _Counted:
    """The packed bytes in steps; small ones, so that a step that fails takes little with it."""

    def __init__(self, file: BinaryIO, start: bytes) -> None:
        self.file, self.start, self.taken = file, start, 0

    def __iter__(self) -> Iterator[bytes]:
        chunk = self.start
        while chunk:
            for at in range(0, len(chunk), STEP):
                step = chunk[at : at + STEP]
                self.taken += len(step)
                yield step
            chunk = self.file.read(CHUNK)


def _pieces(packed: Iterable[bytes], kind: str) -> Iterator[bytes]:
    """Plain bytes of all streams of the file, which may follow one another."""
    failures = _failures(kind)
    unpacker: Unpacker | None = None
    for step in packed:
        rest = step
        while rest := rest if unpacker else rest.lstrip(b"\0"):
            unpacker = unpacker or _unpacker(kind)
            try:
                piece = unpacker.decompress(rest)
            except failures as error:
                raise CutError(f"{kind} data are damaged ({error})") from error
            rest = b""
            if unpacker.eof:
                rest, unpacker = unpacker.unused_data, None
            if piece:
                yield piece
    if unpacker:
        raise CutError(f"{kind} data end early")


def _unpacker(kind: str) -> Unpacker:
    if kind == "gzip":
        return zlib.decompressobj(GZIP_WINDOW)
    unpacker: Unpacker = _zstandard().ZstdDecompressor().decompressobj()
    return unpacker


def _failures(kind: str) -> type[Exception]:
    return zlib.error if kind == "gzip" else _zstandard().ZstdError


def _zstandard() -> ModuleType:
    with needed():
        return import_module("zstandard")
