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


class Chains:
    """The chains of all rows; each row is walked once."""

    def __init__(self, rows: Mapping[str, Row]) -> None:
        self._rows = rows
        self._chains: dict[str, Chain] = {}

    def above(self, row: Row) -> Row | None:
        """The parent, None where the context of `row` begins."""
        above = self._rows.get(row.parent or "")
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
                self._chains[at.uuid] = Chain((above,), above, None)
            else:
                path.append(at)
                at = above
        for below in reversed(path):
            above = self._rows[below.parent or ""]
            upper = self._chains[above.uuid]
            marks = (*upper.marks, above) if above.kind == "micro" else upper.marks
            self._chains[below.uuid] = Chain(marks, upper.root or above, upper.gone)
        return self._chains[row.uuid]
