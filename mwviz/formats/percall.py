"""The engine of the per-call families: rows of one call each to rollouts in file order.

A format says which rows a record holds; what happens to broken ones, to names that repeat and to
doubts that many calls share is decided here. It does not know any format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from mwviz.formats.chat import Pool
from mwviz.formats.fields import FieldError, Json, Object, shown
from mwviz.formats.records import Record, Records
from mwviz.rollout import Call, Message, Rollout
from mwviz.sharing import Sharing

ONLY_ROLLOUT = "rollout"
"""Id of the rollout if the log names none."""
LONGEST_NUMBER = 9
"""Digits of a call's number; longer ones are names, as those of spans and requests."""


class Row(NamedTuple):
    """One call of a log."""

    rollout: str
    call: Call
    """Its id may be "": it is then numbered within its rollout."""
    doubts: tuple[str, ...] = ()
    """What the log leaves open about the call; calls with the same doubt share one warning."""
    reward: float | None = None
    """Of the whole rollout, where this row says it."""


Fits = Callable[[Object], bool]
Rows = Callable[[Record, Pool], Iterable[Row | FieldError]]
"""The calls of one record; an error that is given, not raised, stands for one call left out."""


@dataclass(slots=True)
class _Gathered:
    calls: dict[str, Call] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    doubts: dict[str, list[Call]] = field(default_factory=dict)
    reward: float | None = None
    shared: Sharing[Message] = field(default_factory=Sharing)

    def add(self, row: Row) -> None:
        call = row.call if row.call.id else replace(row.call, id=str(len(self.calls)))
        if call.id in self.calls:
            self.warnings.append(
                f"line {call.line}: a second call {shown(call.id)}, kept under a name of its own"
            )
            call = replace(call, id=f"{call.id}@{call.line}-{len(self.calls)}")
        if call.prompt is not None:
            call = replace(call, prompt=self.shared(call.lineage, call.prompt))
        self.calls[call.id] = call
        for doubt in row.doubts:
            self.doubts.setdefault(doubt, []).append(call)
        if row.reward is not None:
            self.reward = row.reward

    def rollout(self, name: str) -> Rollout:
        doubts = [_shared(doubt, calls) for doubt, calls in self.doubts.items()]
        return Rollout(
            name,
            tuple(self.calls.values()),
            reward=self.reward,
            warnings=(*self.warnings, *_out_of_order(self.calls.values()), *doubts),
        )


def gather(
    records: Records,
    rows: Rows,
    more: Sequence[Path] = (),
    *,
    given: Iterable[Record] | None = None,
) -> list[Rollout]:
    """The rollouts in order of their first call.

    Args:
        records: of the trace file.
        rows: what a record of the format holds.
        more: files beside it that belong to the same rollouts; their damage counts as its own.
        given: records that were read before, if they are not to be taken from the file.
    """
    gathering = _Gathering(rows)
    gathering.add(records, records if given is None else given)
    for path in more:
        part = Records(path)
        gathering.add(part, part)
        records.damage += [replace(d, what=f"{path.name}: {d.what}") for d in part.damage]
    return [gathered.rollout(name) for name, gathered in gathering.rollouts.items()]


def strays(value: Json, key: str, fits: Fits, what: str) -> Iterator[FieldError]:
    """What a list of calls, or of what holds them, has beside these: each item is reported.

    Args:
        value: the record or the part of it that has the list; nothing else is looked at.
        key: of the list.
        fits: whether an item is what the format says.
        what: such an item, in words.
    """
    found = value.get(key) if isinstance(value, dict) else None
    if found is not None and not isinstance(found, list):
        yield FieldError(f"{key} is {shown(found)}, expected a list of {what}s")
    for at, item in enumerate(found if isinstance(found, list) else ()):
        if not (isinstance(item, dict) and fits(item)):
            has = f"has the keys {', '.join(item)}" if isinstance(item, dict) else f"is {item}"
            yield FieldError(f"{key}[{at}] {shown(has)[1:-1]}, expected a {what}")


class _Gathering:
    """The rollouts of one trace while it is read."""

    def __init__(self, rows: Rows) -> None:
        self.rollouts: dict[str, _Gathered] = {}
        self._rows = rows
        self._pool = Pool()

    def add(self, records: Records, given: Iterable[Record]) -> None:
        """The calls of the given records; what is wrong is reported to the file they are from."""
        for record in given:
            kept = 0
            wrong: list[str] = []
            try:
                for row in self._rows(record, self._pool):
                    if isinstance(row, FieldError):
                        wrong.append(str(row))
                        continue
                    self.rollouts.setdefault(row.rollout, _Gathered()).add(row)
                    kept += 1
            except FieldError as error:
                wrong.append(str(error))
            for what in wrong:
                records.drop(record, what, f"{kept} of its calls" if kept else "nothing")


def _out_of_order(calls: Iterable[Call]) -> Iterator[str]:
    """The first call that stands behind one of a higher number, if the log numbers its calls."""
    numbered = [call for call in calls if call.id.isdecimal() and len(call.id) <= LONGEST_NUMBER]
    for before, call in pairwise(numbered):
        if int(call.id) < int(before.id):
            yield (
                f"line {call.line}: call {call.id} stands behind call {before.id}; calls are "
                "taken in the order of the file: sort it if that is not how they were made"
            )
            return


def _shared(doubt: str, calls: list[Call]) -> str:
    if len(calls) == 1:
        return f"call {calls[0].id}: {doubt}"
    return f"{len(calls)} calls, the first {calls[0].id}: {doubt}"
