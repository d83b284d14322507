"""Messages and parts of OpenCode, from an export, a storage folder or a database, to turns.

A turn is one stored message; an assistant's may hold several steps, each the reply of one call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from mwviz.formats.chat import canonical
from mwviz.formats.fields import FieldError, Object, child, count, number, objects, shown, string
from mwviz.formats.media import as_text, placeholder
from mwviz.rollout import Mark, Message, Part, Usage

PLACEHOLDER = "[Old tool result content cleared]"
"""What a pruned tool output reads."""
AS_TEXT = ("text/plain", "application/x-directory")
"""Files that stand as text in a part beside them."""
REDACTED = re.compile(r"\[redacted:[a-z-]+:[^\]\s]*\]")
"""What a sanitized export puts in place of a text, a file's address or a tool's output."""
KINDS = (
    *("text", "reasoning", "tool", "file", "compaction", "subtask"),
    *("step-start", "step-finish", "snapshot", "patch", "agent", "retry"),
)
"""Types of parts whose meaning is known; those of the second line are for the user alone."""
ABORTED = "MessageAbortedError"
"""The error of a reply that was stopped; what it said until then is sent again."""


class Piece(NamedTuple):
    """One part of a turn."""

    id: str
    kind: str
    said: Part | None
    """What the model reads or wrote; None if the part is for the user alone."""
    result: Part | None = None
    """What came back to a tool call."""
    cleared: float | None = None
    """When the result was pruned, in milliseconds since the epoch."""
    usage: Usage | None = None
    tail: str | None = None
    """First turn that a compaction keeps."""
    redacted: bool = False
    """Whether the export put a placeholder in place of its text."""


class Step(NamedTuple):
    """What one call of an assistant's turn gave."""

    pieces: tuple[Piece, ...]
    usage: Usage | None


@dataclass(slots=True, eq=False)
class Turn:
    """One stored message."""

    id: str
    session: str
    role: str
    created: float
    """Milliseconds since the epoch."""
    line: int
    parent: str | None
    summary: bool
    finish: str | None
    error: str | None
    model: str | None
    usage: Usage | None
    pieces: list[Piece] = field(default_factory=list)
    known: dict[tuple[str, ...], list[Message]] = field(default_factory=dict)

    @property
    def compaction(self) -> Piece | None:
        """The part that asks for a compaction."""
        return next((piece for piece in self.pieces if piece.kind == "compaction"), None)

    @property
    def is_summary(self) -> bool:
        """Whether it is the summary of a compaction that was finished."""
        return self.summary and self.finish is not None and self.error is None

    @property
    def steps(self) -> list[Step]:
        """The calls of an assistant's turn; one if it does not say where a step starts."""
        starts = [at for at, piece in enumerate(self.pieces) if piece.kind == "step-start"]
        bounds = [0, *starts[1:], len(self.pieces)]
        found = [
            Step(tuple(self.pieces[a:b]), _last_usage(self.pieces[a:b]))
            for a, b in pairwise(bounds)
        ]
        if found[-1].usage is None:
            found[-1] = found[-1]._replace(usage=self.usage)
        return found

    def messages(self, at: float) -> list[Message]:
        """What a call at a time reads of the turn, in milliseconds since the epoch."""
        gone = tuple(p.id for p in self.pieces if p.cleared is not None and p.cleared <= at)
        if gone not in self.known:
            self.known[gone] = self._rendered(gone)
        return self.known[gone]

    def _rendered(self, gone: tuple[str, ...]) -> list[Message]:
        if self.role != "assistant":
            parts = tuple(piece.said for piece in self.pieces if piece.said)
            return [Message("user", parts, id=self.id, line=self.line)] if parts else []
        said = any(p.said and p.kind != "reasoning" for p in self.pieces)
        if self.error and not (self.error == ABORTED and said):
            return []
        return [message for at in range(len(self.steps)) for message in self.replies(at, gone)]

    def replies(self, at: int, gone: Sequence[str] = ()) -> list[Message]:
        """The reply of one step, then the results of its tool calls."""
        pieces = self.steps[at].pieces
        identity = self.id if at == 0 else f"{self.id}-{at + 1}"
        mark: Mark | None = "summary" if self.is_summary else None
        said = tuple(piece.said for piece in pieces if piece.said)
        found = [Message("assistant", said, id=identity, mark=mark, line=self.line)] if said else []
        results = tuple(
            replace(p.result, text=PLACEHOLDER) if p.id in gone else p.result
            for p in pieces
            if p.result
        )
        if results:
            cleared: Mark | None = "placeholder" if gone and _any(pieces, gone) else None
            found.append(Message("tool", results, mark=cleared, line=self.line))
        return found


def read_turn(info: Object, line: int) -> Turn:
    """The turn of a message's record, its parts still to come.

    Raises:
        FieldError: A field has a wrong type.
    """
    identity, role = string(info, "id"), string(info, "role")
    if identity is None or role not in ("user", "assistant"):
        raise FieldError(f"role is {shown(role)}, expected user or assistant, and an id")
    error = child(info, "error")
    return Turn(
        id=identity,
        session=string(info, "sessionID") or "",
        role=role,
        created=number(child(info, "time") or {}, "created") or 0.0,
        line=line,
        parent=string(info, "parentID"),
        summary=info.get("summary") is True,
        finish=string(info, "finish"),
        error=None if error is None else string(error, "name") or "error",
        model=string(info, "modelID"),
        usage=_usage(child(info, "tokens")),
    )


def read_piece(part: Object) -> Piece:
    """One part of a turn.

    Raises:
        FieldError: A field has a wrong type.
    """
    kind, identity = string(part, "type"), string(part, "id") or ""
    if kind is None:
        raise FieldError("a part has no type")
    return _piece(part, kind, identity)._replace(redacted=_is_redacted(part))


def _is_redacted(part: Object) -> bool:
    state = child(part, "state") or {}
    texts = (part.get("text"), part.get("prompt"), part.get("url"), state.get("output"))
    return any(isinstance(text, str) and REDACTED.fullmatch(text) for text in texts)


def _piece(part: Object, kind: str, identity: str) -> Piece:
    if kind == "tool":
        return _tool(part, identity)
    said = _said(part, kind)
    return Piece(
        identity,
        kind,
        said,
        usage=_usage(child(part, "tokens")) if kind == "step-finish" else None,
        tail=string(part, "tail_start_id") if kind == "compaction" else None,
    )


def _said(part: Object, kind: str) -> Part | None:
    if kind == "text":
        hidden = part.get("ignored") is True
        return None if hidden else Part("text", string(part, "text") or "")
    if kind == "reasoning":
        return Part("reasoning", string(part, "text") or "")
    if kind == "compaction":
        return Part("other", "", name="compaction")
    if kind == "subtask":
        return Part("other", string(part, "prompt") or "", name="subtask")
    if kind != "file" or string(part, "mime") in AS_TEXT:
        return None
    return _file(part)


def _tool(part: Object, identity: str) -> Piece:
    state = child(part, "state") or {}
    called = string(part, "callID")
    given = canonical(state.get("input") or {})
    call = Part("tool_call", given, name=string(part, "tool") or "", id=called)
    status = string(state, "status")
    text = string(state, "output") if status == "completed" else string(state, "error")
    attached = [_file(file) for file in objects(state, "attachments") or ()]
    if attached and status == "completed":
        text = as_text((*([Part("text", text)] if text else []), *attached))
    cleared = number(child(state, "time") or {}, "compacted")
    return Piece(identity, "tool", call, Part("tool_result", text or "", id=called), cleared)


def _file(part: Object) -> Part:
    return placeholder(string(part, "mime") or "file", part)


def _usage(tokens: Object | None) -> Usage | None:
    if tokens is None:
        return None
    cache = child(tokens, "cache") or {}
    cached = count(cache, "read")
    prompt = sum(part or 0 for part in (count(tokens, "input"), cached, count(cache, "write")))
    output = (count(tokens, "output") or 0) + (count(tokens, "reasoning") or 0)
    return Usage(prompt or None, output, cached) if prompt or output else None


def _last_usage(pieces: Sequence[Piece]) -> Usage | None:
    return next((piece.usage for piece in reversed(pieces) if piece.usage), None)


def _any(pieces: Sequence[Piece], gone: Sequence[str]) -> bool:
    return any(piece.id in gone for piece in pieces)
