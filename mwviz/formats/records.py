"""A trace file to its JSON records with line numbers: the only reader of trace files.

Reads JSON Lines, JSON documents and zips of them, plain, gzip or Zstandard, from a path, standard
input or bytes. What is broken is reported as `Damage`, what is whole around it is kept; nothing is
left out silently. It does not know what the records mean.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from mwviz.errors import TraceError
from mwviz.formats.archive import plain
from mwviz.formats.fields import Json, shown
from mwviz.formats.jsontext import (
    DECODER,
    MAX_DEPTH,
    cut_short,
    mended,
    spans_lines,
    too_deep,
    values,
    whole,
)
from mwviz.formats.lines import Line, joined, lines_of, peeked
from mwviz.formats.misspelt import Names
from mwviz.formats.opening import called, opened, refuse_binary
from mwviz.formats.salvage import split
from mwviz.rollout import Damage
from mwviz.wording import counted

HEAD = 200
"""Records by which a format is recognised."""
HEAD_LEAST, HEAD_BYTES = 8, 4 << 20
"""Records and bytes after which no further record is read for that."""
MAX_DOCUMENT = 1 << 30
"""Bytes of one JSON document that spans lines: it has to be held as a whole."""
GIVE_UP = 1000
"""Damaged lines without one record after which a file counts as not JSON."""
KNOWN_SHAPES = 256
"""Key tuples of whole records that are remembered to recognise records inside torn ones."""
BOM = b"\xef\xbb\xbf"


class Record(NamedTuple):
    """One JSON value of a trace file."""

    line: int
    """1-based physical line it starts on; in an archive, the entry's number."""
    size: int
    """Bytes of its text, what its loss would count."""
    value: Json


class Records:
    """The records of one trace file, read once from start to end."""

    def __init__(self, source: str | Path | bytes) -> None:
        self.name = called(source)
        self.damage: list[Damage] = []
        """Grows while the records are read; complete once they are exhausted."""
        self.path = None if isinstance(source, bytes) or source == "-" else Path(source)
        """The file, for formats whose traces have parts beside it."""
        self.holds = ""
        """What it is, in words, if it is several files; "" for one file."""
        self._source = source
        self._shapes: set[tuple[str, ...]] = set()
        self._spelling = Names()
        self._ahead: deque[Record] = deque()
        self._stream = self._read()

    def __iter__(self) -> Iterator[Record]:
        while self._ahead:
            yield self._ahead.popleft()
        yield from self._stream

    def head(self) -> list[Record]:
        """The first records, enough to recognise the format; they stay unread.

        Raises:
            TraceError: The source cannot be opened, is empty or is not JSON.
        """
        size = 0
        for record in islice(self._stream, HEAD):
            self._ahead.append(record)
            size += record.size
            if size > HEAD_BYTES and len(self._ahead) >= HEAD_LEAST:
                break
        return list(self._ahead)

    def drop(self, record: Record, what: str, kept: str = "nothing") -> None:
        """Report a record whose content is not what its format says."""
        size = record.size if kept == "nothing" else 0
        self.damage.append(Damage(record.line, size, what, kept))

    def _read(self) -> Iterator[Record]:
        any_record = False
        for record in _unlisted(self._records(lines_of(self._chunks(), self.damage))):
            any_record = True
            self._spelling.meet(record.value, record.line)
            yield record
        for odd in self._spelling.misspelt():
            what = f"{shown(odd.odd)} stands once, where {shown(odd.usual)} is usual: damaged?"
            self.damage.append(Damage(odd.line, 0, what, "the record as it is"))
        if not any_record:
            raise TraceError(self._nothing())

    def _nothing(self) -> str:
        if not self.damage:
            return f"{self.name}: empty, expected JSON Lines or a JSON document"
        first = self.damage[0]
        return f"{self.name}:{first.line}: {first.what}, expected a JSON object on each line"

    def _chunks(self) -> Iterator[bytes]:
        """The plain bytes of the file."""
        with opened(self._source) as file:
            yield from plain(file, self.name)

    def _records(self, lines: Iterator[Line]) -> Iterator[Record]:
        first = next((line for line in lines if line.raw.strip()), None)
        if first is None:
            return
        refuse_binary(first.raw, self.name)
        one_line = whole(first.raw.removeprefix(BOM)) is not None
        ahead = [first] if one_line else [first, *peeked(lines)]
        rest: Iterator[Line] = chain(ahead, lines)
        held: list[Line] = []
        if len(ahead) > 1 and spans_lines(joined(ahead).decode("utf-8", "replace")):
            held = self._held(rest)
            yield from self._document(held)
            if first.raw.strip() in (b"{", b"["):
                yield from self._broken(held, len(self.damage))
            rest = iter(held if not self._shapes else [])
        known = len(self.damage)
        for line in rest:
            yield from self._line(line)
            if not self._shapes and len(self.damage) >= GIVE_UP:
                break
        yield from self._broken(held, known)

    def _broken(self, held: list[Line], known: int) -> Iterator[Record]:
        """A document that spans lines up to its last whole item, where nothing else was found.

        Its one damage then stands for those that reading it line by line gave, from `known` on.
        """
        if not held or self._shapes:
            return
        text = joined(held).decode("utf-8", "replace")
        found = list(self._cut_short(text, held[0].number))
        if found:
            self.damage[known:] = self.damage[-1:]
        yield from found

    def _held(self, lines: Iterator[Line]) -> list[Line]:
        held, size = [], 0
        for line in lines:
            size += len(line.raw)
            if size > MAX_DOCUMENT:
                raise TraceError(
                    f"{self.name}:{line.number}: a JSON document of more than {MAX_DOCUMENT:,} "
                    "bytes, expected JSON Lines for a trace of this size"
                )
            held.append(line)
        return held

    def _document(self, lines: list[Line]) -> Iterator[Record]:
        """Records of one or more JSON values that span lines; a list stands for its items."""
        raw = joined(lines)
        text = raw.decode("utf-8", "replace")
        if text.encode("utf-8") != raw:
            self.damage.append(Damage(0, 0, "bytes that are not UTF-8, replaced", "all records"))
        for line in lines:
            self._zeros(line.number, line.raw)
        number, counted, at = lines[0].number, 0, 0
        for found in values(text):
            number += text.count("\n", counted, found.start)
            counted, at = found.start, found.end
            if not isinstance(found.value, dict | list) or too_deep(found.value):
                what = f"no object, or nested deeper than {MAX_DEPTH}"
                self.damage.append(Damage(number, at - counted, what, "nothing"))
                continue
            value = mended(found.value)
            if value != found.value:
                self.damage.append(Damage(number, 0, "unpaired surrogates, replaced", "1 record"))
            yield self._known(Record(number, at - counted, value))
        unclosed = text.lstrip("\ufeff \t\r\n").startswith("[") and "]" not in text[at:]
        lost = text[at:].lstrip(" \t\r\n\0,]")
        if unclosed and self._shapes and not lost:
            what = "the list is not closed: more may have followed"
            self.damage.append(Damage(lines[-1].number, 0, what, "what came before"))
        if lost and self._shapes:
            number += text.count("\n", counted, len(text) - len(lost))
            self.damage.append(
                Damage(number, len(lost.encode()), "the document breaks off", "what came before")
            )

    def _cut_short(self, text: str, number: int) -> Iterator[Record]:
        """The one document of the file up to its last whole item, if it breaks off behind one."""
        found = cut_short(text)
        if found is None or too_deep(found.value):
            return
        lost = len(text[found.end :].encode("utf-8", "replace"))
        line = number + text.count("\n", 0, found.wrong)
        column = found.wrong - text.rfind("\n", 0, found.wrong)
        kept = f"{found.items} whole items" if found.items > 1 else "what is whole before"
        what = f"the document breaks off or is no JSON from column {column} on ({found.why})"
        self.damage.append(Damage(line, lost, what, kept))
        yield self._known(Record(number, found.end, mended(found.value)))

    def _line(self, line: Line) -> Iterator[Record]:
        raw = line.raw.removeprefix(BOM).strip(b" \t\r")
        value = whole(raw)
        if value is not None:
            self._zeros(line.number, raw)
            yield self._known(Record(line.number, len(raw), value))
        elif raw:
            yield from self._salvaged(line._replace(raw=raw))

    def _zeros(self, line: int, raw: bytes) -> None:
        """NUL bytes within a string, which the decoder lets through: text that was overwritten."""
        if zeros := raw.count(b"\0"):
            what = f"{counted(zeros, 'NUL byte')} within a text: what stood there is gone"
            self.damage.append(Damage(line, zeros, what, "the record as it is"))

    def _salvaged(self, line: Line) -> Iterator[Record]:
        raw = line.raw.replace(b"\0", b"")
        if line.last and not self._shapes and raw.startswith((b"{", b"[")):
            one = list(self._cut_short(raw.decode("utf-8", "replace"), line.number))
            if one:
                yield from one
                return
        lost = len(line.raw) - len(raw)
        what = [counted(lost, "NUL byte")] if lost else []
        text = raw.decode("utf-8", "replace")
        if text.encode("utf-8") != raw:
            what.append("bytes that are not UTF-8, replaced")
        found, torn = split(text, self._shapes)
        for piece in torn:
            size = len(piece.encode("utf-8", "replace"))
            lost += size
            told = _described(piece, last=line.last and piece is torn[-1])
            what.append(f"{told} ({counted(size, 'byte')})")
        if len(found) > 1:
            what.append(f"{len(found)} records on one line, split")
        whole_text = [mended(value) for value in found]
        if whole_text != found:
            what.append("unpaired surrogates, replaced")
        kept = counted(len(found), "record") if found else "nothing"
        self.damage.append(Damage(line.number, lost, "; ".join(what), kept))
        for value in whole_text:
            yield self._known(Record(line.number, len(raw) // len(found), value))

    def _known(self, record: Record) -> Record:
        if len(self._shapes) < KNOWN_SHAPES:
            self._shapes.add(tuple(record.value) if isinstance(record.value, dict) else ())
        return record


def _unlisted(records: Iterator[Record]) -> Iterator[Record]:
    """A list that is all there is stands for its items."""
    first = next(records, None)
    second = next(records, None)
    if first and second is None and isinstance(first.value, list):
        size = first.size // max(1, len(first.value))
        yield from (Record(first.line, size, value) for value in first.value)
        return
    yield from (record for record in (first, second) if record)
    yield from records


def _described(piece: str, *, last: bool) -> str:
    if piece[0] not in "{[":
        return f"{_kind(piece)}: {shown(piece)}"
    if piece.count("{") + piece.count("[") > MAX_DEPTH:
        return f"record torn or nested deeper than {MAX_DEPTH}"
    return "incomplete last record" if last else "torn record"


def _kind(piece: str) -> str:
    """What a text is that begins no object or list."""
    try:
        value = DECODER.decode(piece)
    except (ValueError, RecursionError):
        return "text that is not JSON"
    return "a JSON string" if isinstance(value, str) else "a JSON value that is no object"
