"""TC-RAG traces: the two lists of its agent, `absolute_message_list` and `message_list`, as JSON.

Read in `model/TCRAG.py` of Artessay/TC-RAG (commit 60cba77). All that was said and found is pushed
on a stack, piece by piece (Question, Thought, Action, Action Input, Observation, Backtrack, Final
Answer); a Backtrack takes away the piece below it: an observation with its action and action input,
a thought, or an older backtrack; then it is pushed again with a note. Every call is sent the system
prompt and the stack as one user message, each piece on a line of its own. The absolute list keeps
what was taken away, so the stack can be replayed from it; the other list is the stack that was left
in the end, by which the replay is checked and the note's words are found. The agent writes neither
to a file (results hold the answer only): dump both, and `system_prompt` if you like. What is not
known: where one reply ended when no observation followed, and what of a reply was not pushed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mwviz.formats.chat import Pool
from mwviz.formats.fields import FieldError, Json, Object, label, members, shown, string
from mwviz.formats.percall import Row, gather
from mwviz.formats.records import Record, Records
from mwviz.formats.step_calls import SYSTEM, said, step
from mwviz.rollout import Hint, Rollout

WHOLE, LEFT = "absolute_message_list", "message_list"
CONTEXT = ("question", "observation")
OPENS = ("thought", "backtrack", "final answer")
"""Pieces that begin a reply; an action goes on in the reply of its thought."""
BACK, FOUND, ASKED, ACTED, THOUGHT = (
    "Backtrack",
    "Observation",
    "Action Input",
    "Action",
    "Thought",
)
TAKEN = Hint("rewind", "a backtrack took pieces away")
PUSHED = Hint("reserialise", "the reply stands in the user's message now, nothing was taken away")
NOTE = "the harness's note behind a backtrack is not in the file"
GUESSED = "where one reply ended is a guess: pieces in a row are one reply until a new thought"
UNLIKE = "replaying the pieces does not give the stack that was left: prompts may be others"


def detects(head: Sequence[Record]) -> bool:
    """Whether a record holds the absolute list of pieces."""
    return any(_is_trace(record.value) for record in head)


def reads(records: Records) -> list[Rollout]:
    """One rollout a record."""
    return gather(records, _rows)


def _is_trace(value: Json) -> bool:
    return isinstance(value, dict) and isinstance(value.get(WHOLE), list)


def _pieces(value: Object, key: str) -> list[str] | None:
    found = members(value, key)
    if found is None:
        return None
    for at, piece in enumerate(found):
        if not isinstance(piece, str):
            raise FieldError(f"{key}[{at}] is {shown(piece)}, expected a piece of text")
    return [piece for piece in found if isinstance(piece, str)]


def _rows(record: Record, pool: Pool) -> Iterator[Row]:
    value, line = record.value, record.line
    if not _is_trace(value) or not isinstance(value, dict):
        raise FieldError(f"{shown(value)}, expected a trace with its {WHOLE}")
    pieces, left = _pieces(value, WHOLE) or [], _pieces(value, LEFT)
    name = label(value, "id") or f"trace on line {line}"
    note = _note(_replayed(pieces, "").stack, left)
    replay = _replayed(pieces, note or "")
    doubts = (GUESSED,) if left in (None, replay.stack) else (GUESSED, UNLIKE)
    system = string(value, "system_prompt")
    first = [pool(said("system", system, line=line))] if system else []
    popped = 0
    for reply in replay.replies:
        prompt = pool(said("user", "".join(f"\n{piece}" for piece in reply.stack), line=line))
        hint = TAKEN if reply.pops > popped else PUSHED
        holes = [] if system else [SYSTEM]
        holes += [NOTE] if note is None and reply.pops else []
        said_text = "\n".join(reply.pieces)
        call = step([*first, prompt], said_text, line=line, hint=hint, holes=holes)
        yield Row(name, call, doubts)
        popped = reply.pops


def _note(stack: list[str], left: list[str] | None) -> str | None:
    """What stands behind a backtrack in the stack that was left; None if nothing tells."""
    for ours, given in zip(stack, left or (), strict=False):
        if BACK in ours and given.startswith(ours):
            return given.removeprefix(ours)
    return None


@dataclass(frozen=True, slots=True)
class _Reply:
    stack: tuple[str, ...]
    """What the call was sent."""
    pops: int
    """How often something had been taken away by then."""
    pieces: list[str]


@dataclass(slots=True)
class _Replay:
    note: str
    stack: list[str] = field(default_factory=list)
    replies: list[_Reply] = field(default_factory=list)
    pops: int = 0
    """Backtracks so far that took something away."""
    speaking: bool = False
    """Whether the last piece was of a reply."""

    def push(self, piece: str) -> None:
        kind = piece.split(":", 1)[0].strip().lower()
        if kind in CONTEXT:
            self.speaking = False
        else:
            if not self.speaking or kind in OPENS:
                self.replies.append(_Reply(tuple(self.stack), self.pops, []))
            self.replies[-1].pieces.append(piece)
            self.speaking = True
        self.stack.append(piece)
        if BACK in piece:
            self._take_back()

    def _take_back(self) -> None:
        back = self.stack.pop()
        size = len(self.stack)
        if self._top(FOUND):
            for kind in (FOUND, ASKED, ACTED):
                if self._top(kind):
                    self.stack.pop()
        elif self._top(THOUGHT) or self._top(BACK):
            self.stack.pop()
        self.pops += len(self.stack) < size
        self.stack.append(back + self.note)

    def _top(self, kind: str) -> bool:
        return bool(self.stack) and kind in self.stack[-1]


def _replayed(pieces: list[str], note: str) -> _Replay:
    replay = _Replay(note)
    for piece in pieces:
        replay.push(piece)
    return replay
