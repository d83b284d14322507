"""Parent chains of a Claude Code session: what lies above a row, and where its context begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mwviz.formats.claude_rows import Row


class Chain(NamedTuple):
    """What lies between a row and the place where its context begins."""

    marks: tuple[Row, ...]
    """The compaction it begins at, if any, and the micro-compactions below, top first."""
    root: Row | None
    """The topmost row; None if nothing is above."""
    gone: str | None
    """Parent of the root that is not in the file."""
    guessed: bool = False
    """Whether a link on the way is a guess by file order."""


class Chains:
    """The chains of all rows; each row is walked once."""

    def __init__(self, rows: Mapping[str, Row], *, link: bool = False) -> None:
        """`link` puts the row before it in the file in place of a parent that is not there."""
        self._rows = rows
        self._chains: dict[str, Chain] = {}
        self.guesses: dict[str, Row] = _by_file_order(rows) if link else {}
        """The row that each of those is linked to, by uuid."""

    def above(self, row: Row) -> Row | None:
        """The parent, None where the context of `row` begins."""
        above = self._rows.get(row.parent or "") or self.guesses.get(row.uuid)
        return above if above and above.side == row.side and row.kind != "boundary" else None

    def of(self, row: Row) -> Chain:
        """What lies above `row`, up to a compaction, a sub-agent's start or a missing parent."""
        path: list[Row] = []
        walked: set[str] = set()
        at = row
        while at.uuid not in self._chains:
            walked.add(at.uuid)
            above = self.above(at)
            if above is None or above.uuid in walked:
                known = above is not None or at.kind == "boundary" or at.parent in self._rows
                self._chains[at.uuid] = Chain((), None, None if known else at.parent or None)
            elif above.kind == "boundary":
                guessed = at.uuid in self.guesses
                self._chains[at.uuid] = Chain((above,), above, None, guessed)
            else:
                path.append(at)
                at = above
        for below in reversed(path):
            above = self._rows.get(below.parent or "") or self.guesses[below.uuid]
            guessed = below.uuid in self.guesses
            upper = self._chains[above.uuid]
            marks = (*upper.marks, above) if above.kind == "micro" else upper.marks
            guessed = guessed or upper.guessed
            self._chains[below.uuid] = Chain(marks, upper.root or above, upper.gone, guessed)
        return self._chains[row.uuid]


def _by_file_order(rows: Mapping[str, Row]) -> dict[str, Row]:
    """For each row whose parent is not in the file the last message of its agent before it."""
    found: dict[str, Row] = {}
    latest: dict[tuple[bool, str | None], Row] = {}
    for row in sorted(rows.values(), key=lambda row: row.line):
        agent = (row.side, row.agent)
        if row.parent and row.parent not in rows and row.kind != "boundary" and agent in latest:
            found[row.uuid] = latest[agent]
        if row.message:
            latest[agent] = row
    return found
