"""A trace of any kind to its records: a file, a folder, an archive of files, a database.

An archive is read as the folder that was packed: its JSON files in the natural order of their
names. One file alone is read as if it had not been packed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol

from mwviz.errors import TraceError
from mwviz.formats import archive, tarball
from mwviz.formats.database import DatabaseRecords, is_database
from mwviz.formats.folders import ENDINGS, FolderRecords
from mwviz.formats.opening import called
from mwviz.formats.ordering import natural
from mwviz.formats.records import Records
from mwviz.formats.unpack import CutError
from mwviz.rollout import Damage

MAX_HELD = 256 << 20
"""Bytes of a tar archive's files that are held where they do not stand in their order."""
ATTRIBUTES = "._"
"""What the names of files begin with in which a Mac packs attributes of others."""


def opened(source: str | Path | bytes) -> Records:
    """The records of a trace: a file, a folder, an archive, a database, standard input or bytes.

    Raises:
        TraceError: It is an archive without JSON files.
    """
    if source == "-":
        return Records(source)
    if source == "":
        raise TraceError("'': an empty path, expected a trace file, a folder of one or -")
    path = None if isinstance(source, bytes) else Path(source)
    if path is not None and path.is_dir():
        return FolderRecords(path)
    if path is not None and not path.is_file():
        return Records(source)
    if path is not None and is_database(path):
        return DatabaseRecords(path)
    name = called(source)
    if tarball.is_tar(source):
        return _unpacked(name, partial(tarball.members, source, name))
    zipped = partial(archive.members, source, name)
    return _unpacked(name, zipped) if archive.is_folder(source) else Records(source)


class _Packed(Protocol):
    """One file of an archive."""

    name: str
    size: int

    def chunks(self) -> Iterator[bytes]:
        """Its bytes."""


Files = Callable[[], Iterable[_Packed]]


class _Listed(NamedTuple):
    """A JSON file of an archive, and its place among all files."""

    at: int
    name: str
    size: int


class _Member(Records):
    """The records of one file of an archive."""

    def __init__(self, name: str, chunks: Callable[[], Iterator[bytes]]) -> None:
        super().__init__(b"")
        self.name, self._content = name, chunks

    def _chunks(self) -> Iterator[bytes]:
        return self._content()


class _Archive(FolderRecords):
    """The records of an archive's JSON files."""

    def __init__(self, name: str, listed: Sequence[_Listed], files: Files) -> None:
        super().__init__(name)
        self.path = None
        self.holds = f"an archive of {len(listed)} files"
        self._listed, self._files = listed, files

    def _parts(self) -> Iterator[tuple[str, Records]]:
        if all(a.at < b.at for a, b in pairwise(self._listed)):
            for packed in _chosen(self._files, self._listed):
                yield packed.name, _Member(packed.name, packed.chunks)
            return
        if sum(file.size for file in self._listed) > MAX_HELD:
            raise TraceError(
                f"{self.name}: more than {MAX_HELD:,} bytes that do not stand in the order of "
                "their names, expected a sorted archive; unpack it and name the folder"
            )
        held = {p.name: _held(p.chunks()) for p in _chosen(self._files, self._listed)}
        for file in self._listed:
            if file.name in held:
                yield file.name, _Member(file.name, held[file.name])


def _unpacked(name: str, files: Files) -> Records:
    """The records of an archive: of its one JSON file, or of all of them as of a folder."""
    found: dict[str, _Listed] = {}
    damage: list[Damage] = []
    try:
        for at, packed in enumerate(files()):
            if not _is_json(packed.name):
                continue
            if packed.name in found:
                what = f"{packed.name} stands in it again: the later one is read"
                damage.append(Damage(0, found[packed.name].size, what, "the later one"))
            found[packed.name] = _Listed(at, packed.name, packed.size)
    except CutError as error:
        damage.append(Damage(0, 0, str(error), "the files before"))
    listed = sorted(found.values(), key=lambda file: natural(file.name))
    if not listed:
        told = f" ({damage[0].what})" if damage else ""
        raise TraceError(f"{name}: an archive without JSON files{told}, expected a trace in it")
    if len(listed) == 1:
        records: Records = _Member(name, partial(_only, files, listed))
    else:
        records = _Archive(name, listed, files)
    records.damage += damage
    return records


def _is_json(name: str) -> bool:
    return name.endswith(ENDINGS) and not PurePosixPath(name).name.startswith(ATTRIBUTES)


def _chosen(files: Files, listed: Iterable[_Listed]) -> Iterator[_Packed]:
    """The listed files in the archive's order; what is damaged behind them was told before."""
    places = {file.at for file in listed}
    try:
        for at, packed in enumerate(files()):
            if at in places:
                yield packed
                places.discard(at)
            if not places:
                return
    except CutError:
        return


def _only(files: Files, listed: Sequence[_Listed]) -> Iterator[bytes]:
    for packed in _chosen(files, listed):
        yield from packed.chunks()


def _held(chunks: Iterator[bytes]) -> Callable[[], Iterator[bytes]]:
    """The chunks, to be read later: up to where they break off."""
    pieces: list[bytes] = []
    cut: CutError | None = None
    try:
        pieces.extend(chunks)
    except CutError as error:
        cut = error

    def again() -> Iterator[bytes]:
        yield from pieces
        if cut is not None:
            raise cut

    return again
