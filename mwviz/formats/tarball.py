"""Tar archives, plain or packed, read in one pass from start to end; nothing is written to disk.

Only plain files are looked at, and their names are labels, never places.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from mwviz.errors import TraceError
from mwviz.formats.opening import opened
from mwviz.formats.unpack import CHUNK, CutError, unpacked

MAX_HEADER = 1 << 20
"""Bytes of a name or of attributes in front of a file; longer ones are damage."""
MOST = 100_000
"""Entries of one archive; more are refused."""
LONG = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
"""Entries that tarfile reads as a whole."""


class _Info(tarfile.TarInfo):
    """A header that cannot make the reader hold more than a little.

    tarfile takes a broken header behind the first one for the end; here it is damage.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        if len(buf) < tarfile.BLOCKSIZE:
            raise CutError("the archive breaks off")
        try:
            found = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if not any(buf):
                raise  # tarfile's own word for the end
            raise CutError(f"the archive is damaged ({error})") from error
        if found.type in LONG and found.size > MAX_HEADER:
            raise CutError(f"the archive is damaged (a header of {found.size:,} bytes)")
        return found


class _Stream(io.RawIOBase):
    """Chunks as a file that is read forward."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._held = chunks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._held:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._held = chunk
        size = min(len(buffer), len(self._held))
        buffer[:size] = self._held[:size]
        self._held = self._held[size:]
        return size


class Member:
    """One plain file of an archive; its content has to be read before the next one."""

    def __init__(self, archive: tarfile.TarFile, info: tarfile.TarInfo) -> None:
        self.name, self.size = info.name, info.size
        self._archive, self._info = archive, info

    def chunks(self) -> Iterator[bytes]:
        """Its bytes.

        Raises:
            CutError: The archive ends within it.
        """
        try:
            file = self._archive.extractfile(self._info)
            left = self.size
            while file is not None and left and (piece := file.read(min(left, CHUNK))):
                left -= len(piece)
                yield piece
        except (tarfile.TarError, EOFError, ValueError) as error:
            raise CutError(f"the archive is damaged ({error})") from error
        if left:
            raise CutError("the archive ends within this file")


def is_tar(source: str | Path | bytes) -> bool:
    """Whether the file is a tar archive, once it is unpacked."""
    start = b""
    try:
        with opened(source) as file:
            for chunk in unpacked(file, ""):
                start += chunk
                if len(start) >= tarfile.BLOCKSIZE:
                    break
        _Info.frombuf(start[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except (TraceError, tarfile.HeaderError, CutError):
        return False
    return True


def members(source: str | Path | bytes, name: str) -> Iterator[Member]:
    """The plain files of an archive in its order.

    Raises:
        TraceError: It unpacks to more than the limits, or has too many entries.
        CutError: It ends early or is damaged; everything before was handed out.
    """
    with _archive(source, name) as archive:
        try:
            for at, info in enumerate(archive):
                if at >= MOST:
                    raise TraceError(f"{name}: more than {MOST:,} entries in the archive")
                if info.isreg() and not info.issparse():
                    yield Member(archive, info)
        except (tarfile.TarError, EOFError, ValueError) as error:
            raise CutError(f"the archive is damaged ({error})") from error


@contextmanager
def _archive(source: str | Path | bytes, name: str) -> Iterator[tarfile.TarFile]:
    with opened(source) as file:
        stream = io.BufferedReader(_Stream(unpacked(file, name)), CHUNK)
        try:
            archive = tarfile.TarFile.open(fileobj=stream, mode="r|", tarinfo=_Info)
        except (tarfile.TarError, EOFError, ValueError) as error:
            raise CutError(f"the archive is damaged ({error})") from error
        with archive:
            yield archive
