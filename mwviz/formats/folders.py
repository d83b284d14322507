"""Traces that are not one text file: folders of JSON files, as records of one trace.

Only plain files of the given folder and a few levels below are read, never links. A record's line
is its position in the folder; what is reported of it names its file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from mwviz.errors import TraceError, refused
from mwviz.formats.ordering import natural
from mwviz.formats.records import Record, Records
from mwviz.rollout import Damage

ENDINGS = (".json", ".jsonl")
LEVELS = 4
"""Folders below the given one that are looked into."""
MOST = 1_000_000
"""Files of one folder; more are refused."""


class FolderRecords(Records):
    """The records of all JSON files of a folder, in the natural order of their names."""

    def __init__(self, source: str | Path) -> None:
        super().__init__(source)
        self.holds = "a folder of files"
        self._folder = Path(source)
        self._names: dict[int, str] = {}

    def drop(self, record: Record, what: str, kept: str = "nothing") -> None:
        """Report a record of one of the files."""
        super().drop(record, f"{self._names.get(record.line, '?')}: {what}", kept)

    def _read(self) -> Iterator[Record]:
        position = 0
        for name, part in self._parts():
            try:
                for record in part:
                    position += 1
                    self._names[position] = name
                    yield record._replace(line=position)
            except TraceError as error:
                self.damage.append(Damage(0, 0, str(error), "nothing"))
                continue
            self.damage += [replace(d, line=0, what=f"{name}: {d.what}") for d in part.damage]
        if not position:
            raise TraceError(
                f"{self.name}: {self.holds}, none with a JSON record, expected a trace in it"
            )

    def _parts(self) -> Iterator[tuple[str, Records]]:
        """The files in their order, each to be read before the next one."""
        for path in sorted(_members(self._folder, self.name), key=lambda path: natural(str(path))):
            yield str(path.relative_to(self._folder)), Records(path)


def _members(folder: Path, name: str) -> list[Path]:
    found: list[Path] = []
    waiting = [(folder, 0)]
    while waiting:
        place, level = waiting.pop()
        with refused(TraceError, str(place), "a readable folder"):
            entries = list(os.scandir(place))
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and level < LEVELS:
                waiting.append((Path(entry.path), level + 1))
            elif entry.is_file(follow_symlinks=False) and entry.name.endswith(ENDINGS):
                found.append(Path(entry.path))
        if len(found) > MOST:
            raise TraceError(f"{name}: more than {MOST:,} files, expected the folder of one trace")
    return found
