"""The history of one agent while its event log is replayed, and the calls made on it.

An event log says what was added, and now and then that something was cut, cleared or replaced. A
call is a completion on the history of its moment. It does not know any log's record types.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mwviz.formats.fields import FieldError, Object, named, shown
from mwviz.formats.records import Record, Records
from mwviz.rollout import Call, Hint, Hole, Message, Part
from mwviz.sharing import Sharing


@dataclass(slots=True)
class Replay:
    """One agent's history and its calls so far."""

    lineage: str | None = None
    holes: tuple[Hole, ...] = ()
    """What every prompt lacks, as the format implies (tool lists and the like)."""
    history: list[Message] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    _hints: list[Hint] = field(default_factory=list)
    _lacking: dict[int, tuple[Message, Hole]] = field(default_factory=dict)
    """Messages by object whose text is not whole, and what they lack."""
    _gaps: dict[str, Hole] = field(default_factory=dict)
    """What the history of this moment lacks, by its words."""
    _shared: Sharing[Message] = field(default_factory=Sharing)

    def append(self, *messages: Message) -> None:
        """Add messages at the end."""
        self.history += messages
        for message in messages:
            self._gap(message)

    def lacks(self, message: Message, why: str) -> Message:
        """The message, remembered as one whose text is not whole in the log."""
        hole = Hole(why, after=message.id)
        self._lacking[id(message)] = (message, hole)
        return message

    def replace(self, messages: Iterable[Message], *hints: Hint) -> None:
        """Another history in place of this one; the hints go to the next call."""
        self.history = list(messages)
        self._hints += hints
        self._gaps.clear()
        for message in self.history:
            self._gap(message)

    def drop(self, ids: Collection[str], *hints: Hint) -> None:
        """Take out the messages of these ids."""
        self.replace([m for m in self.history if m.id is None or m.id not in ids], *hints)

    def cut(self, at: int, *hints: Hint) -> None:
        """Take out everything from position `at` on."""
        self.replace(self.history[:at], *hints)

    def clear(self, results: Collection[str], text: str, *hints: Hint) -> None:
        """Put `text` in place of the results of these tool calls."""
        self.replace([cleared(message, results, text) for message in self.history], *hints)

    def doubt(self, hole: Hole, *hints: Hint) -> None:
        """Say what prompts lack from here until the history is replaced."""
        self._gaps.setdefault(hole.why, hole)
        self._hints += hints

    def answer(self, call: Call, *completion: Message) -> None:
        """A call on the history of this moment; its completion is added to the history."""
        holes = (*self.holes, *self._gaps.values())
        hints = tuple(self._hints) if self.calls else ()
        self.calls.append(
            replace(
                call,
                prompt=self._shared(None, self.history),
                completion=completion,
                lineage=self.lineage,
                content="partial" if self._gaps else "rebuilt",
                tokens="rendered",
                holes=holes,
                hints=hints,
            )
        )
        self._hints = []
        self.append(*completion)

    def _gap(self, message: Message) -> None:
        found = self._lacking.get(id(message))
        if found:
            self._gaps.setdefault(found[1].why, found[1])


def path_to(identity: str | None, parents: Mapping[str, str | None]) -> list[str]:
    """Entries of a tree from its root down to one of them; a circle is walked once."""
    found: dict[str, None] = {}
    while identity is not None and identity in parents and identity not in found:
        found[identity] = None
        identity = parents[identity]
    return list(found)[::-1]


def cleared(message: Message, results: Collection[str], text: str) -> Message:
    """The message with `text` for the results of these tool calls; itself if it has none."""
    hit = [part.kind == "tool_result" and part.id in results for part in message.parts]
    if not any(hit):
        return message
    parts = tuple(
        replace(part, text=text) if gone else part
        for part, gone in zip(message.parts, hit, strict=True)
    )
    return replace(message, parts=parts, mark="placeholder")


def merged(messages: Sequence[Message]) -> Message:
    """One message of all pieces of a completion; one piece keeps its id."""
    first = messages[0]
    if len(messages) == 1:
        return first
    parts: tuple[Part, ...] = tuple(part for message in messages for part in message.parts)
    return Message(first.role, parts, mark=first.mark, line=first.line)


def each(
    records: Records,
    take: Callable[[Object, int], None],
    what: str,
    *,
    unfold: Callable[[Record], Iterable[Record]] | None = None,
) -> None:
    """Hand over every record with its line; what is not of its format is reported as damage.

    Args:
        records: the file.
        take: applies one record.
        what: a record of the format, in words.
        unfold: the records that one record holds (a document its messages); None if it is one.
    """
    for record in records:
        for part in unfold(record) if unfold else (record,):
            try:
                if not isinstance(part.value, dict):
                    raise FieldError(f"{shown(part.value)}, expected {what}")
                take(part.value, part.line)
            except FieldError as error:
                records.drop(part, str(error))


def unfolded(record: Record, key: str) -> Iterator[Record]:
    """A document without the list under a key, then the items of that list."""
    value = record.value
    items = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(items, list):
        yield record
        return
    size = record.size // (len(items) + 1)
    yield Record(record.line, size, {name: item for name, item in value.items() if name != key})
    yield from (Record(record.line, size, item) for item in items)


@dataclass(slots=True)
class Unknown:
    """Records, and parts of them, whose meaning is not known: counted, never left out silently."""

    _lines: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def meet(self, kind: str | None, line: int, what: str = "record") -> None:
        """One of this type; `what` it is a type of, in words."""
        self._lines.setdefault((what, kind or "none"), []).append(line)

    @property
    def warnings(self) -> Iterator[str]:
        """One for each type, with its first lines."""
        for (what, kind), lines in self._lines.items():
            rest = f"of the unknown type {shown(kind)}"
            yield from listed(
                f"{what}s {rest} are taken as no part of a context",
                lines,
                one=f"{what} {rest} is taken as no part of a context",
            )


def listed(what: str, lines: Sequence[int], *, one: str) -> Iterator[str]:
    """One warning that names the first lines of what was found; none if nothing was.

    Args:
        what: was found, in words for several.
        lines: where, from 1.
        one: the words for a single line.
    """
    if lines:
        told = one if len(lines) == 1 else what
        yield f"{len(lines)} {told} (line{'s' * (len(lines) > 1)} {named(lines)})"
