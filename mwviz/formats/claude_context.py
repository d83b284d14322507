"""Rows of a Claude Code session to the context before each call.

The parent chain alone is not the context: it passes one of several parallel tool calls only, ends
at a compaction, and what a compaction preserved stands before it in the file. It does not know
what a call sampled or used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mwviz.formats.chat import Pool
from mwviz.formats.claude_chains import Chains
from mwviz.formats.claude_rows import Row
from mwviz.formats.fields import Json, Object
from mwviz.rollout import Message, Part

REMEMBERED = 16
"""Calls whose contexts are kept for those that continue them: one for each agent at work."""
PLACEHOLDER = "[Old tool result content cleared]"
"""What a cleared tool result is taken to read; the file never holds it."""


class Entry(NamedTuple):
    """One message of a context and the rows it was made of."""

    rows: tuple[Row, ...]
    message: Message


class _Known(NamedTuple):
    """The context of a call, kept for the calls that continue it."""

    entries: list[Entry]
    cleared: dict[str, int]
    last: int
    """Last line of its rows, with those left out because they were written after the call began."""


class _Path(NamedTuple):
    """Rows from the top down, and the call they follow on."""

    rows: list[Row]
    base: Row | None


class Session:
    """All rows of one session file, and the contexts they stand for."""

    def __init__(self, rows: Iterable[Row], *, link: bool = False) -> None:
        self.rows = {row.uuid: row for row in rows}
        self._below: dict[str, list[Row]] = defaultdict(list)
        self._groups: dict[str, list[Row]] = defaultdict(list)
        self._answers: dict[str, list[Row]] = defaultdict(list)
        self._messages: dict[tuple[Row, ...], Message] = {}
        self._pool = Pool()
        for row in self.rows.values():
            if row.parent:
                self._below[row.parent].append(row)
            if row.reply:
                self._groups[row.reply.group].append(row)
            for key in {*row.results, row.source} - {None}:
                self._answers[str(key)].append(row)
        self.used: set[str] = set()
        """Uuids of all rows that are in some context so far."""
        self.chains = Chains(self.rows, link=link)
        self._known: dict[str, _Known] = {}
        self._kept: dict[str, list[Entry]] = {}
        for row in self.rows.values():
            if row.kind == "boundary" and row.details:
                self._kept[row.uuid] = self._preserved(row, row.details)

    @property
    def groups(self) -> dict[str, list[Row]]:
        """Assistant rows of each call by its message id, in file order."""
        return self._groups

    def context(self, row: Row) -> list[Entry]:
        """The messages that stood before `row`, in the order the model read them.

        A call that continues one of the latest calls only adds to that call's context.
        """
        found = self._continued(row)
        if found is None:
            path = self._path(row, whole=True).rows
            cleared, dropped = _cleared(path)
            rows = [r for r in self._with_siblings(path, row) if r.uuid not in dropped]
            entries = self._entries(rows, row, cleared)
            found = _Known(self._with_kept(entries, row), cleared, _last(rows))
        if row.reply:
            self._known[row.reply.group] = found
            if len(self._known) > REMEMBERED:
                del self._known[next(iter(self._known))]
        return found.entries

    def _continued(self, row: Row) -> _Known | None:
        """The context from that of an earlier call, None if it has to be made anew."""
        path, base = self._path(row)
        known = self._known.get(base.reply.group) if base and base.reply else None
        if base is None or known is None or any(r.kind == "micro" for r in path):
            return None
        rows = self._with_siblings([base, *path], row)
        if rows and rows[0].line <= known.last:
            return None
        entries = self._entries(rows, row, known.cleared)
        return _Known([*known.entries, *entries], known.cleared, _last(rows))

    def _entries(self, rows: list[Row], until: Row, cleared: dict[str, int]) -> list[Entry]:
        present = [row for row in rows if row.line < until.line or row.reply]
        self.used.update(row.uuid for row in present)
        return [self._entry(group, cleared) for group in _grouped(present)]

    def _path(self, row: Row, *, whole: bool = False) -> _Path:
        """The rows above `row`, unless `whole` only down from a call whose context is known."""
        found: list[Row] = []
        walked = {row.uuid}
        at = self.chains.above(row)
        while at and at.uuid not in walked:
            if not whole and self._is_known(at):
                return _Path(found[::-1], at)
            walked.add(at.uuid)
            found.append(at)
            at = self.chains.above(at)
        return _Path(found[::-1], None)

    def _is_known(self, row: Row) -> bool:
        return bool(
            row.reply and row.reply.group in self._known and self._groups[row.reply.group][0] is row
        )

    def _with_kept(self, entries: list[Entry], row: Row) -> list[Entry]:
        root = self.chains.of(row).root
        kept = self._kept.get(root.uuid) if root else None
        if root and root.details and kept:
            return _with_preserved(entries, kept, _anchor(root.details))
        return entries

    def preserves(self, boundary: Row) -> bool:
        """Whether the compaction kept messages behind its summary."""
        return bool(self._kept.get(boundary.uuid))

    def merged(self, group: Iterable[Row]) -> Message:
        """One message of all rows of a call, or of the one row of another message."""
        rows = tuple(row for row in group if row.message)
        if rows not in self._messages:
            first = rows[0].message
            assert first is not None
            parts = tuple(part for row in rows if row.message for part in row.message.parts)
            whole = Message(first.role, parts, id=first.id, mark=first.mark, line=first.line)
            self._messages[rows] = whole if len(rows) > 1 else first
        return self._messages[rows]

    def _with_siblings(self, chain: list[Row], until: Row) -> list[Row]:
        """The chain with all records of its calls, all their results and what hangs on these."""
        found = {row.uuid: row for row in chain}
        for row in chain:
            if row.reply:
                members = self._groups[row.reply.group]
                found.update((member.uuid, member) for member in members)
                for key in _keys(members):
                    for answer in self._answers.get(key, ()):
                        found.update((hung.uuid, hung) for hung in self._hanging(answer))
        group = until.reply.group if until.reply else None
        ordered = sorted(found.values(), key=lambda member: member.line)
        return [
            row
            for row in ordered
            if row.message
            and row.side == until.side
            and not (row.reply and row.reply.group == group)
        ]

    def _hanging(self, top: Row) -> Iterator[Row]:
        """The row and the attachments and meta rows below it."""
        pending = [top]
        while pending:
            row = pending.pop()
            yield row
            pending.extend(below for below in self._below[row.uuid] if below.hangs)

    def _entry(self, group: tuple[Row, ...], cleared: dict[str, int]) -> Entry:
        message = self.merged(group)
        gone = {key for key, line in cleared.items() if key and group[0].line < line}
        if not any(part.kind == "tool_result" and part.id in gone for part in message.parts):
            return Entry(group, message)
        parts = tuple(
            Part("tool_result", PLACEHOLDER, id=part.id)
            if part.kind == "tool_result" and part.id in gone
            else part
            for part in message.parts
        )
        stub = Message(
            message.role,
            parts,
            id=f"{message.id}#cleared",
            mark="placeholder",
            line=message.line,
        )
        return Entry(group, self._pool(stub))

    def _preserved(self, boundary: Row, details: Object) -> list[Entry]:
        """What a compaction kept, in its original order; it may have been kept once before."""
        listed = details.get("preservedMessages")
        if isinstance(listed, dict):
            rows = [self.rows[key] for key in texts(listed, "uuids") if key in self.rows]
            rows = sorted((r for r in rows if r.message), key=lambda row: row.line)
            return [self._entry(group, {}) for group in _grouped(rows)]
        segment = details.get("preservedSegment")
        if not isinstance(segment, dict):
            return []
        tail = self.rows.get(str(segment.get("tailUuid")))
        if tail is None or tail.line > boundary.line:
            return []
        entries = [*self.context(tail), *self._own(tail)]
        for at, entry in enumerate(entries):
            if segment.get("headUuid") in {row.uuid for row in entry.rows}:
                return entries[at:]
        return []

    def _own(self, row: Row) -> list[Entry]:
        members = self._groups[row.reply.group] if row.reply else [row]
        group = tuple(member for member in members if member.message)
        return [self._entry(group, {})] if group else []


def _last(rows: list[Row]) -> int:
    return max((row.line for row in rows), default=0)


def texts(record: Object, key: str) -> list[str]:
    """The strings of a list field; nothing if it is absent or no list."""
    value: Json = record.get(key)
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _cleared(chain: list[Row]) -> tuple[dict[str, int], set[str]]:
    """Tool-call ids whose results were cleared, by the line that says so, and dropped rows."""
    cleared: dict[str, int] = {}
    dropped: set[str] = set()
    for row in chain:
        if row.kind == "micro" and row.details:
            cleared.update((key, row.line) for key in texts(row.details, "compactedToolIds"))
            dropped.update(texts(row.details, "clearedAttachmentUUIDs"))
    return cleared, dropped


def _with_preserved(entries: list[Entry], kept: list[Entry], anchor: str | None) -> list[Entry]:
    """The entries with what a compaction kept moved behind its summary."""
    present = {row.uuid for entry in kept for row in entry.rows}
    others = [entry for entry in entries if entry.rows[0].uuid not in present]
    behind = [
        at + 1
        for at, entry in enumerate(others)
        if anchor in {row.uuid for row in entry.rows} or entry.message.mark == "summary"
    ]
    at = behind[0] if behind else 0
    return [*others[:at], *kept, *others[at:]]


def _anchor(details: Object) -> str | None:
    for key in ("preservedMessages", "preservedSegment"):
        if isinstance(found := details.get(key), dict) and isinstance(
            anchor := found.get("anchorUuid"), str
        ):
            return anchor
    return None


def _keys(members: list[Row]) -> Iterator[str]:
    """What results name as their call: its tool-call ids, or the uuid of its record."""
    for member in members:
        yield member.uuid
        yield from member.reply.calls if member.reply else ()


def _grouped(rows: list[Row]) -> Iterator[tuple[Row, ...]]:
    """Rows of one call together, at the place of the first; every other row alone."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.reply.group if row.reply else f"row {row.uuid}", []).append(row)
    return (tuple(group) for group in groups.values())
