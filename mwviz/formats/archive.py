"""Zip archives of JSON documents to lines: one an entry, `{"zip_entry": name, "value": document}`.

An archive that holds one file of JSON Lines instead gives these lines. Reads stored, deflated and
Zstandard entries, within the limits of `unpack`; every other file is passed through it.
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from mwviz.errors import TraceError
from mwviz.formats.opening import opened
from mwviz.formats.ordering import natural
from mwviz.formats.unpack import CHUNK, MAX_RATIO, MAX_UNPACKED, RATIO_FROM, CutError, unpacked

MAGIC = b"PK\x03\x04"
ZIP_ZSTANDARD = 93
"""Method number that zipfile of this Python does not know."""
LOCAL_HEADER = struct.Struct("<26xHH")
"""Header in front of an entry's data; its last two fields are the lengths of name and extra."""
PICKLE = "/data.pkl"
"""Entry of the archives that torch.save writes."""
HOW = (
    'if you trust it, write its samples as JSON: python -c "import json, torch; [print(json.dumps('
    "s, default=str)) for s in torch.load('F.pt', weights_only=False)['samples']]\" > F.jsonl"
)
LINES = ".jsonl"
FIRST = "header.json"
"""Entry that tells what the archive is; read before the others."""
SAMPLES = "samples/"
"""Where a log's entries stand."""


def is_folder(source: str | Path | bytes) -> bool:
    """Whether the file is a zip archive of JSON files that are no log by themselves."""
    with opened(source) as file:
        found = _archive(file)
        if found is None:
            return False
        names = [entry.filename for entry in found.infolist()]
        several = len(_json(found)) > 1 or any(_is_json(e) for e in found.infolist())
    known = any(name == FIRST or name.startswith(SAMPLES) for name in names)
    return several and not known and not any(name.endswith(PICKLE) for name in names)


def members(source: str | Path | bytes, name: str) -> Iterator[Member]:
    """The JSON files of a zip archive in the natural order of their names."""
    with opened(source) as file:
        found = _archive(file)
        if found is not None:
            for entry in sorted(_json(found), key=lambda e: natural(e.filename)):
                yield Member(file, found, entry, name)


class Member:
    """One file of a zip archive; it is read while the archive is open."""

    def __init__(self, file: BinaryIO, archive: ZipFile, entry: ZipInfo, name: str) -> None:
        self.name, self.size = entry.filename, entry.file_size
        self._read = partial(_unpacked, file, archive, entry, name)

    def chunks(self) -> Iterator[bytes]:
        """Its bytes, within the limits."""
        return _limited(self._read(), self.name)


def _json(archive: ZipFile) -> list[ZipInfo]:
    return [e for e in archive.infolist() if _is_json(e) or _is_json(e, LINES)]


def plain(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Chunks of the file's plain bytes, an archive's entries as lines.

    Raises:
        TraceError: It unpacks to more than the limits, an entry is packed in an unknown way, or
            the archive is a PyTorch file.
        SetupError: It is packed with Zstandard and the package for it is missing.
        CutError: The packed data end early or are damaged.
    """
    archive = _archive(file)
    if archive is not None and any(e.filename.endswith(PICKLE) for e in archive.infolist()):
        raise TraceError(
            f"{name}: is a PyTorch file, which holds pickles and is never opened; {HOW}"
        )
    entries = [] if archive is None else [e for e in archive.infolist() if _is_json(e)]
    logs = [] if archive is None else [e for e in archive.infolist() if _is_json(e, LINES)]
    if archive is not None and entries:
        yield from _limited(_documents(file, archive, entries, name), name)
    elif archive is not None and len(logs) == 1:
        yield from _limited(_unpacked(file, archive, logs[0], name), name)
    else:
        if file.seekable():
            file.seek(0)
        yield from unpacked(file, name)


def _documents(
    file: BinaryIO, archive: ZipFile, entries: list[ZipInfo], name: str
) -> Iterator[bytes]:
    for entry in sorted(entries, key=lambda e: e.filename != FIRST):
        yield b'{"zip_entry":' + json.dumps(entry.filename).encode() + b',"value":'
        yield from _entry(file, archive, entry, name)
        yield b"}\n"


def _limited(pieces: Iterator[bytes], name: str) -> Iterator[bytes]:
    given = 0
    for piece in pieces:
        given += len(piece)
        if given > MAX_UNPACKED:
            raise TraceError(f"{name}: unpacks to more than {MAX_UNPACKED:,} bytes")
        yield piece


def _archive(file: BinaryIO) -> ZipFile | None:
    if not file.seekable():
        return None
    start = file.read(len(MAGIC))
    file.seek(0)
    if start != MAGIC:
        return None
    try:
        return ZipFile(file)
    except (BadZipFile, ValueError, NotImplementedError):
        return None


def _is_json(entry: ZipInfo, ending: str = ".json") -> bool:
    return entry.filename.endswith(ending) and not entry.flag_bits & 1


def _entry(file: BinaryIO, archive: ZipFile, entry: ZipInfo, name: str) -> Iterator[bytes]:
    """The entry on one line; a damaged one breaks off, its line is then no record."""
    try:
        for piece in _unpacked(file, archive, entry, name):
            yield piece.replace(b"\n", b" ")
    except CutError as error:
        yield f" ({error})".encode()


def _unpacked(file: BinaryIO, archive: ZipFile, entry: ZipInfo, name: str) -> Iterator[bytes]:
    if entry.compress_type == ZIP_ZSTANDARD:
        yield from unpacked(io.BytesIO(_packed(file, entry)), f"{name}: {entry.filename}")
        return
    if entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise TraceError(
            f"{name}: {entry.filename} is packed by method {entry.compress_type}, expected "
            "stored, deflate or Zstandard"
        )
    if entry.file_size > RATIO_FROM and entry.file_size > MAX_RATIO * entry.compress_size:
        raise TraceError(
            f"{name}: {entry.filename} unpacks to more than {MAX_RATIO} bytes for each packed one"
        )
    try:
        with archive.open(entry) as packed:
            while piece := packed.read(CHUNK):
                yield piece
    except (BadZipFile, zlib.error, EOFError, ValueError) as error:
        raise CutError(f"{entry.filename} is damaged ({error})") from error


def _packed(file: BinaryIO, entry: ZipInfo) -> bytes:
    """The entry's bytes as they stand in the archive."""
    file.seek(max(entry.header_offset, 0))
    header = file.read(LOCAL_HEADER.size)
    if len(header) < LOCAL_HEADER.size or not header.startswith(MAGIC):
        raise CutError(f"{entry.filename} is not where the archive says")
    lengths: tuple[int, int] = LOCAL_HEADER.unpack(header)
    file.seek(sum(lengths), io.SEEK_CUR)
    return file.read(entry.compress_size)
