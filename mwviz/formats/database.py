"""An SQLite database of sessions or of a gateway's traces to the records of its rows, read-only.

Of OpenCode the tables `session`, `message` and `part` are read, of rLLM's model gateway `traces`
with the sessions that `trace_sessions` names. Each is a plain table with JSON in its column `data`;
nothing in the database is run.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from mwviz.errors import TraceError
from mwviz.formats.fields import Object, shown
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
"""OpenCode's tables and the columns that are read of each."""
TRACES, SESSIONS = "traces", "trace_sessions"
"""The gateway's tables."""


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
                for row in _all_rows(connection):
                    position += 1
                    record = self._record(position, row)
                    if record is not None:
                        yield record
        except sqlite3.Error as error:
            if not position:
                raise TraceError(f"{self.name}: {error}, expected a readable database") from error
            self.damage.append(Damage(0, 0, f"the database: {error}", "the rows before"))
        if not position:
            raise TraceError(
                f"{self.name}: no sessions in the database, expected those of OpenCode or of "
                "rLLM's gateway"
            )

    def _record(self, position: int, row: dict[str, object]) -> Record | None:
        text = row.pop("data", "{}")
        raw = text.encode() if isinstance(text, str) else text if isinstance(text, bytes) else b""
        value = whole(raw)
        if not isinstance(value, dict):
            name = row.get("id", row.get("trace_id"))
            what = f"row {shown(name)} holds no JSON object"
            self.damage.append(Damage(position, 0, what, "nothing"))
            return None
        held: Object = {key: v for key, v in row.items() if isinstance(v, str)}
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


def _all_rows(connection: sqlite3.Connection) -> Iterator[dict[str, object]]:
    """The rows by column, of whichever tables are there."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    tables = {name for (name,) in found}
    for table in TABLES:
        if table in tables:
            names = ", ".join(TABLES[table])
            for row in _named(connection.execute(f"SELECT {names} FROM {table} ORDER BY id")):
                yield {KEYS.get(key, key): value for key, value in row.items()}
    if TRACES in tables:
        yield from _traces(connection, linked=SESSIONS in tables)


def _traces(connection: sqlite3.Connection, *, linked: bool) -> Iterator[dict[str, object]]:
    """The gateway's traces in the order in which they were stored, once for each session."""
    sessions: dict[object, list[dict[str, object]]] = {}
    for row in _named(connection.execute(f"SELECT * FROM {SESSIONS}")) if linked else ():
        named = {key: row[key] for key in ("session_id", "run_id") if row.get(key)}
        sessions.setdefault(row.get("trace_id"), []).append(named)
    ordered = f"SELECT trace_id, data FROM {TRACES} ORDER BY created_at, rowid"
    for row in _named(connection.execute(ordered)):
        for named in sessions.get(row["trace_id"], [{}]):
            yield row | named


def _named(cursor: sqlite3.Cursor) -> Iterator[dict[str, object]]:
    columns = [name for name, *_ in cursor.description]
    yield from (dict(zip(columns, row, strict=True)) for row in cursor)
