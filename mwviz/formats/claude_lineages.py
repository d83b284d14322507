"""Which agent a Claude Code call belongs to, and what the harness did before it.

A compaction continues its lineage, by the record that the log names or else by file order. Rows
whose parent is not in the file start a lineage of their own, however likely a link may look.
"""

from __future__ import annotations

from mwviz.formats.claude_chains import Chain
from mwviz.formats.claude_context import Session, texts
from mwviz.formats.claude_rows import Row
from mwviz.formats.fields import Object, shown
from mwviz.rollout import Hint
from mwviz.wording import counted

MAIN = "main"


class Lineages:
    """Names lineages in order of their first call; `warnings` grows meanwhile."""

    def __init__(self, session: Session) -> None:
        self.warnings: list[str] = []
        self._session = session
        self._rows = sorted(session.rows.values(), key=lambda row: row.line)
        self._named: dict[str, str] = {}
        self._seen: dict[str, set[str]] = {}

    def name(self, row: Row) -> str:
        """Lineage of the call whose first record is `row`."""
        passed: list[str] = []
        while True:
            chain = self._session.chains.of(row)
            top = chain.root or row
            circle = top.uuid in passed
            passed.append(top.uuid)
            before = self._before(top) if top.kind == "boundary" and not circle else None
            known = self._named.get(top.uuid)
            if known or before is None:
                break
            row = before
        name = known or self._new(top, chain.gone)
        self._named.update((uuid, name) for uuid in passed)
        return name

    def hints(self, lineage: str, chain: Chain) -> tuple[Hint, ...]:
        """What the log says was done to the context since the lineage's call before."""
        first = lineage not in self._seen
        seen = self._seen.setdefault(lineage, set())
        new = [row for row in chain.marks if row.uuid not in seen]
        seen.update(row.uuid for row in new)
        return () if first else tuple(self._hint(row) for row in new)

    def _hint(self, row: Row) -> Hint:
        details = row.details or {}
        if row.kind == "micro":
            return Hint("placeholder", _cleared(details))
        kind = "summary_tail" if self._session.preserves(row) else "summary"
        return Hint(kind, _compacted(details))

    def _before(self, boundary: Row) -> Row | None:
        """The row that a compaction came after."""
        named = self._session.rows.get(boundary.logical or "")
        if named and named.line < boundary.line:
            return named
        earlier = [
            row
            for row in self._rows
            if row.line < boundary.line and row.side == boundary.side and row.message
        ]
        if earlier and boundary.uuid not in self._named:
            self.warnings.append(
                f"line {boundary.line}: the record before the compaction is not in the file; "
                f"by file order it follows line {earlier[-1].line}"
            )
        return earlier[-1] if earlier else None

    def _new(self, top: Row, gone: str | None) -> str:
        first = MAIN not in self._named.values()
        if top.side:
            name = top.agent or f"sidechain@{top.line}"
        else:
            name = MAIN if first else f"island@{top.line}"
        if gone and (first or top.side):
            self.warnings.append(
                f"line {top.line}: its parent {shown(gone)} is not in the file, so the contexts "
                "of its lineage lack what came before"
            )
        elif not (first or top.side):
            why = f"its parent {shown(gone)} is not in the file" if gone else "it has no parent"
            self.warnings.append(
                f"line {top.line}: {why}; what follows is the lineage {name}, which may be a "
                "continuation of an earlier one"
            )
        return name


def _cleared(details: Object) -> str:
    number = len(texts(details, "compactedToolIds"))
    saved = details.get("tokensSaved")
    said = f", about {saved:,} tokens by its own estimate" if isinstance(saved, int) else ""
    return f"{counted(number, 'tool result')} cleared{said}"


def _compacted(details: Object) -> str:
    before = details.get("preTokens")
    trigger = details.get("trigger")
    said = [trigger] if isinstance(trigger, str) else []
    return ", ".join([*said, f"{before:,} tokens before"] if isinstance(before, int) else said)
