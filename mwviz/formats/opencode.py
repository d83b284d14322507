"""OpenCode sessions (export, storage folder, database) to rollouts, rebuilt by replay.

A pruned output stays in the store with the time at which it was pruned, so each call reads what
was there when it began. The newest finished summary stands in place of what it sums up. System
prompt and tools are not stored, nor is what the summariser was asked.

Read in `packages/opencode/src/cli/cmd/export.ts` of anomalyco/opencode (commits cfa809b, 07fa810):
`opencode export` prints one object, `info` (the session), `messages` (each `info` and `parts`) and,
in some versions, `todos`; sub-agents are sessions of their own, each exported by itself. With
`--sanitize` newer versions put `[redacted:KIND:ID]` for every text that is not blank (copies of the
same file in Hona/opencode, commit 4e7dde3, and other forks); tree and token counts stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mwviz.formats.fields import FieldError, Object, child, label, objects, string
from mwviz.formats.opencode_turns import KINDS, Piece, Turn, read_piece, read_turn
from mwviz.formats.records import Record, Records
from mwviz.formats.replay import Replay, Unknown, each, listed, unfolded
from mwviz.rollout import Call, Hint, Hole, Message, Rollout

SYSTEM = "system prompt and tool list are not in the file"
ASKED = "what the summariser was asked, and how it got the history, is not in the file"
STRANGE = "messages name a session that is not in the file"
STRANGE_ONE = "message names a session that is not in the file"
HIDDEN = "the export was sanitized: texts are placeholders"
REDACTED = (
    "{} parts hold a placeholder for their text, as the export was sanitized: calls and junctions "
    "are the real ones, sizes in tokens are not"
)
COMPACTION = "compaction"
"""Lineage of the summariser's calls; those of a sub-agent have its session in front."""
MAIN = "main"
UNORDERED = "{} parts belong to no message in the file"


def detects(head: Sequence[Record]) -> bool:
    """Whether a record is an export, or a message or part of a session."""
    return any(isinstance(record.value, dict) and _is_stored(record.value) for record in head)


def _is_stored(value: Object) -> bool:
    info = value.get("info")
    if isinstance(info, dict) and isinstance(value.get("parts", value.get("messages")), list):
        return "sessionID" in info or ("id" in info and "time" in info)
    if "sessionID" not in value or "id" not in value:
        return False
    return "messageID" in value or value.get("role") in ("user", "assistant")


def reads(records: Records) -> list[Rollout]:
    """One rollout for each session that no other one started, with its sub-agents."""
    store = _Store()
    each(records, store.take, "a session, message or part", unfold=_unfolded)
    return store.rollouts()


def _unfolded(record: Record) -> Iterator[Record]:
    if isinstance(record.value, dict) and "info" in record.value:
        yield from unfolded(record, "messages")
    else:
        yield record


@dataclass(slots=True)
class _Store:
    """All messages and parts, in any order."""

    turns: dict[str, Turn] = field(default_factory=dict)
    loose: dict[str, list[Piece]] = field(default_factory=lambda: defaultdict(list))
    """Parts that are records of their own, by message."""
    parents: dict[str, str | None] = field(default_factory=dict)
    """The session that started each session."""
    unknown: Unknown = field(default_factory=Unknown)
    redacted: int = 0
    """Parts without their text."""

    def take(self, record: Object, line: int) -> None:
        """Keep one record.

        Raises:
            FieldError: It is not what its shape says.
        """
        info = child(record, "info")
        if info is not None and "role" not in info:
            self._session(info)
        elif info is not None:
            turn = read_turn(info, line)
            pieces = [self._piece(part, line) for part in objects(record, "parts") or ()]
            turn.pieces = [p._replace(id=p.id or f"part-{n}") for n, p in enumerate(pieces)]
            self._keep(turn)
        elif "messageID" in record:
            self.loose[label(record, "messageID") or ""].append(self._piece(record, line))
        elif "role" in record:
            self._keep(read_turn(record, line))
        elif "sessionID" not in record and "type" not in record and string(record, "id"):
            self._session(record)
        else:
            self.unknown.meet(string(record, "type"), line)

    def rollouts(self) -> list[Rollout]:
        """One rollout for each session at the top."""
        sessions: dict[str, list[Turn]] = defaultdict(list)
        strange = [t.line for t in self.turns.values() if t.session not in self.parents]
        lost = sum(len(pieces) for name, pieces in self.loose.items() if name not in self.turns)
        for turn in self.turns.values():
            turn.pieces += sorted(self.loose.get(turn.id, []), key=lambda piece: piece.id)
            sessions[turn.session].append(turn)
        found: dict[str, list[Call]] = defaultdict(list)
        for session, turns in sessions.items():
            top = self._top(session)
            name = MAIN if session == top else session
            ordered = sorted(turns, key=lambda turn: (turn.created, turn.id))
            found[top] += _Session(name, ordered).calls()
        warnings = (
            *self.unknown.warnings,
            *([UNORDERED.format(lost)] if lost else []),
            *listed(STRANGE, strange if self.parents else [], one=STRANGE_ONE),
            *([REDACTED.format(self.redacted)] if self.redacted else []),
        )
        return [
            Rollout(top, tuple(sorted(calls, key=lambda c: c.time or 0.0)), warnings=warnings)
            for top, calls in found.items()
        ]

    def _piece(self, part: Object, line: int) -> Piece:
        piece = read_piece(part)
        self.redacted += piece.redacted
        if piece.kind not in KINDS:
            self.unknown.meet(piece.kind, line, "part")
        return piece

    def _keep(self, turn: Turn) -> None:
        if self.turns.setdefault(turn.id, turn) is not turn:
            raise FieldError(f"repeats the message {turn.id}")

    def _session(self, info: Object) -> None:
        if identity := string(info, "id"):
            self.parents[identity] = string(info, "parentID")

    def _top(self, session: str) -> str:
        seen = {session}
        while (above := self.parents.get(session)) and above not in seen:
            seen.add(above)
            session = above
        return session


@dataclass(slots=True)
class _Session:
    """One session's turns in order, and the calls made on them."""

    name: str
    turns: list[Turn]
    pruned: frozenset[str] = frozenset()
    summary: str | None = None

    def calls(self) -> list[Call]:
        """The calls of the session, the summariser's among them."""
        own = Replay(self.name, (Hole(SYSTEM),))
        side = COMPACTION if self.name == MAIN else f"{self.name} {COMPACTION}"
        found: list[Call] = []
        hidden = False
        for at, turn in enumerate(self.turns):
            hidden = hidden or any(piece.redacted for piece in turn.pieces)
            if turn.role != "assistant" or not (turn.pieces or turn.error):
                continue
            replay = own if not turn.summary else Replay(side, (Hole(SYSTEM), Hole(ASKED)))
            hints = self._hints(at) if replay is own else ()
            before = self._context(at)
            for step, (_, usage) in enumerate(turn.steps):
                replay.replace(before, *(hints if step == 0 else ()))
                if hidden:
                    replay.doubt(Hole(HIDDEN))
                call = Call(
                    turn.id if step == 0 else f"{turn.id}-{step + 1}",
                    usage=usage,
                    model=turn.model,
                    finish=turn.error or turn.finish,
                    time=turn.created / 1000,
                    line=turn.line,
                )
                replies = turn.replies(step)
                said = [message for message in replies if message.role == "assistant"]
                replay.answer(call, *said)
                before = [*before, *replies]
                found.append(replay.calls[-1])
        return found

    def _context(self, at: int) -> list[Message]:
        """What the call of a turn reads of the turns before it."""
        when = self.turns[at].created
        return [m for turn in self._kept(at) for m in turn.messages(when)]

    def _kept(self, at: int) -> list[Turn]:
        """The turns behind the newest finished summary, its kept tail in front of the rest."""
        turns = self.turns[:at]
        last = self._newest(at)
        if last is None:
            return turns
        marker = self._marker(last)
        if marker is None:
            return turns[last:]
        asked = turns[marker].compaction
        tail = next((n for n in range(marker) if asked and turns[n].id == asked.tail), marker)
        return [*turns[marker : last + 1], *turns[tail:marker], *turns[last + 1 :]]

    def _newest(self, at: int) -> int | None:
        return next((n for n in range(at - 1, -1, -1) if self.turns[n].is_summary), None)

    def _marker(self, summary: int) -> int | None:
        """The turn that asked for a summary."""
        parent = self.turns[summary].parent
        return next(
            (n for n in range(summary) if self.turns[n].id == parent and self.turns[n].compaction),
            None,
        )

    def _hints(self, at: int) -> tuple[Hint, ...]:
        """What was done to the history since the call before."""
        when, newest = self.turns[at].created, self._newest(at)
        summary = self.turns[newest].id if newest is not None else None
        pieces = [piece for turn in self._kept(at) for piece in turn.pieces]
        pruned = frozenset(p.id for p in pieces if p.cleared is not None and p.cleared <= when)
        found = [Hint("summary")] if summary != self.summary else []
        if new := len(pruned - self.pruned):
            found.append(Hint("placeholder", f"{new} tool results pruned"))
        self.pruned, self.summary = self.pruned | pruned, summary
        return tuple(found)
