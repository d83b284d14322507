"""An SQLite database of coding sessions to the records that its rows stand for, read-only.

The tables `session`, `message` and `part` are read, each a plain table with JSON in its column
`data`; nothing in the database is run.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from mwviz.errors import TraceError
from mwviz.formats.fields import Object
from mwviz.formats.jsontext import whole
from mwviz.formats.records import Record, Records
from mwviz.rollout import Damage

MAGIC = b"SQLite format 3\0"
KEYS = {"session_id": "sessionID", "message_id": "messageID", "parent_id": "parentID"}
"""Columns beside `data`, and the fields they stand for."""
TABLES = {
    "session": ("id", "parent_id"),
    "message": ("id", "session_id", "data"),
    "part": ("id", "message_id", "session_id", "data"),
}
"""Tables and the columns that are read of each."""


def is_database(path: Path) -> bool:
    """Whether the file begins like an SQLite database."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


class DatabaseRecords(Records):
    """The rows of a database's session tables; a record's line is its place among them."""

    def _read(self) -> Iterator[Record]:
        assert self.path is not None
        position = 0
        try:
            with closing(_connected(self.path)) as connection:
                for table, columns in TABLES.items():
                    for row in _rows(connection, table, columns):
                        position += 1
                        record = self._record(position, dict(zip(columns, row, strict=True)))
                        if record is not None:
                            yield record
        except sqlite3.Error as error:
            if not position:
                raise TraceError(f"{self.name}: {error}, expected a readable database") from error
            self.damage.append(Damage(0, 0, f"the database: {error}", "the rows before"))
        if not position:
            raise TraceError(f"{self.name}: no sessions in the database, expected OpenCode's")

    def _record(self, position: int, row: dict[str, object]) -> Record | None:
        text = row.pop("data", "{}")
        raw = text.encode() if isinstance(text, str) else text if isinstance(text, bytes) else b""
        value = whole(raw)
        if not isinstance(value, dict):
            what = f"row {row.get('id')!r} holds no JSON object"
            self.damage.append(Damage(position, 0, what, "nothing"))
            return None
        held: Object = {KEYS.get(k, k): v for k, v in row.items() if isinstance(v, str)}
        return Record(position, len(raw), value | held)


def _connected(path: Path) -> sqlite3.Connection:
    """A connection that cannot write; the log of changes is read where it lies beside."""
    place = "file:" + quote(str(path.resolve()))
    try:
        connection = sqlite3.connect(f"{place}?mode=ro", uri=True)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection = sqlite3.connect(f"{place}?mode=ro&immutable=1", uri=True)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return connection


def _rows(
    connection: sqlite3.Connection, table: str, columns: tuple[str, ...]
) -> Iterator[tuple[object, ...]]:
    found = connection.execute(
        "SELECT type FROM sqlite_master WHERE name = ? AND type = 'table'", (table,)
    ).fetchone()
    if found is None:
        return
    names = ", ".join(columns)
    yield from connection.execute(f"SELECT {names} FROM {table} ORDER BY id")
