"""Session files of the pi coding agent (JSON Lines trees) to rollouts, rebuilt by replay.

A context is the path from the root to the entry before a reply; after a compaction it is the
summary, the entries kept by name, and what follows. System prompt and tools are not in the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mwviz.formats.call_fields import moment
from mwviz.formats.chat import canonical, read_blocks
from mwviz.formats.fields import FieldError, Json, Object, child, count, label, string
from mwviz.formats.media import as_text
from mwviz.formats.records import Record, Records
from mwviz.formats.replay import Replay, Unknown, each, listed, path_to
from mwviz.rollout import Call, Hint, Hole, Mark, Message, Part, Rollout, Usage

SESSION = "session"
"""Id of the rollout if no record names it."""
SYSTEM = "system prompt and tool list are not in the file"
GONE = "entries that the compaction kept are not in the file"
WITHOUT_STOPPED = 3
"""First session version whose harness leaves stopped replies out of later prompts."""
LOOSE = "entries hang on one that is not in the file: they are read behind the one before them"
LOOSE_ONE = "entry hangs on one that is not in the file: it is read behind the one before it"
HALTED = (
    "replies were stopped before they ended; this version's harness may or may not have sent them "
    "again, they are kept in the contexts"
)
HALTED_ONE = (
    "reply was stopped before it ended; this version's harness may or may not have sent it again, "
    "it is kept in the contexts"
)
STOPPED = ("aborted", "error")
OUTSIDE = (
    "session",
    "thinking_level_change",
    "model_change",
    "custom",
    "label",
    "session_info",
)
"""Entries that no context holds."""
ENTRIES = ("message", "compaction", "branch_summary", "custom_message")


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """One entry of the tree."""

    id: str
    parent: str | None
    message: Message | None
    """What the model reads of it; None if it stands outside every context."""
    call: Call | None = None
    kept: str | None = None
    """First entry that a compaction keeps."""
    hint: Hint | None = None


@dataclass(slots=True)
class _Tree:
    """The entries up to the record of this moment, and the context at its tip."""

    id: str | None = None
    version: int = 1
    replay: Replay = field(default_factory=lambda: Replay("main", (Hole(SYSTEM),)))
    entries: dict[str, _Entry] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    """Ids by position in the file, the header's first: the first version counts so."""
    tip: str | None = None
    unknown: Unknown = field(default_factory=Unknown)
    gone: list[int] = field(default_factory=list)
    loose: list[int] = field(default_factory=list)
    stopped: list[int] = field(default_factory=list)

    def take(self, record: Object, line: int) -> None:
        """Apply one record.

        Raises:
            FieldError: It is not what its type says.
        """
        kind = string(record, "type") or "none"
        number = len(self.order)
        self.order.append(label(record, "id") or f"entry-{number}")
        if kind == "session":
            self.id = self.id or label(record, "id")
            self.version = max(self.version, count(record, "version") or 1)
        elif kind not in OUTSIDE and kind not in ENTRIES:
            self.unknown.meet(kind, line)
        if kind == "session":
            return
        parent = string(record, "parentId") if "parentId" in record else self.tip
        self._apply(self._entry(record, self.order[-1], parent=parent, line=line), line)

    def warnings(self) -> list[str]:
        """What a reader of the result should know."""
        return [
            *self.unknown.warnings,
            *listed(
                "compactions keep entries that are not in the file",
                self.gone,
                one="compaction keeps an entry that is not in the file",
            ),
            *listed(HALTED, self.stopped, one=HALTED_ONE),
            *listed(LOOSE, self.loose, one=LOOSE_ONE),
        ]

    def _entry(self, record: Object, identity: str, *, parent: str | None, line: int) -> _Entry:
        kind = string(record, "type")
        if kind == "compaction":
            return self._compaction(record, identity, parent=parent, line=line)
        if kind == "branch_summary":
            text = string(record, "summary")
            message = _said(identity, text, line=line, mark="summary") if text else None
            return _Entry(identity, parent, message, hint=Hint("fold", "branch summarised"))
        if kind == "custom_message":
            parts = tuple(read_blocks(record.get("content")))
            return _Entry(identity, parent, Message("user", parts, id=identity, line=line))
        value = child(record, "message") if kind == "message" else None
        if value is None:
            return _Entry(identity, parent, None)
        message = _message(value, identity, line)
        call = _call(value, record, identity, line) if value.get("role") == "assistant" else None
        return _Entry(identity, parent, message, call)

    def _compaction(
        self, record: Object, identity: str, *, parent: str | None, line: int
    ) -> _Entry:
        summary = _said(identity, string(record, "summary") or "", line=line, mark="summary")
        kept, at = string(record, "firstKeptEntryId"), count(record, "firstKeptEntryIndex")
        if kept is None and at is not None and at < len(self.order):
            kept = self.order[at]
        before = count(record, "tokensBefore")
        detail = f"{before:,} tokens before" if before else ""
        return _Entry(identity, parent, summary, kept=kept, hint=Hint("summary", detail))

    def _apply(self, entry: _Entry, line: int) -> None:
        known = self.entries.setdefault(entry.id, entry)
        if known is not entry:
            raise FieldError(f"repeats the entry {entry.id}")
        self.parents[entry.id] = entry.parent
        if entry.parent != self.tip and (entry.parent in self.entries or entry.parent is None):
            branched = Hint("fold" if entry.hint else "rewind", "another branch of the session")
            self.replay.replace(self._context(entry.parent), branched)
        if entry.parent not in (self.tip, None) and entry.parent not in self.entries:
            self.loose.append(line)
        self.tip = entry.id
        if entry.kept is not None or (entry.hint and entry.hint.kind == "summary"):
            context = self._context(entry.id)
            if entry.kept not in path_to(entry.id, self.parents):
                self.gone.append(line)
            self.replay.replace(context, *([entry.hint] if entry.hint else []))
        elif entry.call:
            self._answer(entry, line)
        elif entry.message:
            self.replay.append(entry.message)

    def _answer(self, entry: _Entry, line: int) -> None:
        assert entry.call is not None
        said = [entry.message] if entry.message and entry.message.parts else []
        before = list(self.replay.history)
        self.replay.answer(entry.call, *said)
        if said and entry.call.finish in STOPPED:
            if self.version >= WITHOUT_STOPPED:
                self.replay.replace(before, Hint("retry", "the stopped reply is not sent again"))
            else:
                self.stopped.append(line)

    def _context(self, identity: str | None) -> list[Message]:
        """The messages that the model reads at an entry."""
        path = [self.entries[name] for name in path_to(identity, self.parents)]
        cuts = [at for at, e in enumerate(path) if e.hint and e.hint.kind == "summary"]
        if cuts:
            cut = path[cuts[-1]]
            names = [entry.id for entry in path]
            first = names.index(cut.kept) if cut.kept in names else cuts[-1]
            tail = [e for e in path[first : cuts[-1]] if not _is_compaction(e)]
            path = [cut, *tail, *path[cuts[-1] + 1 :]]
        return [e.message for e in path if e.message and self._is_sent(e)]

    def _is_sent(self, entry: _Entry) -> bool:
        if entry.call is None or entry.message is None:
            return True
        stopped = entry.call.finish in STOPPED and self.version >= WITHOUT_STOPPED
        return bool(entry.message.parts) and not stopped


def detects(head: Sequence[Record]) -> bool:
    """Whether the file has the session header or the message entries of pi."""
    return any(isinstance(record.value, dict) and _is_entry(record.value) for record in head)


def _is_entry(value: Object) -> bool:
    if value.get("type") == "session":
        return "cwd" in value and "timestamp" in value
    message = value.get("message")
    if value.get("type") != "message" or not isinstance(message, dict) or "sessionID" in value:
        return False
    return message.get("role") in ("user", "assistant", "toolResult", "bashExecution")


def reads(records: Records) -> list[Rollout]:
    """One rollout: the session with all its branches."""
    tree = _Tree()
    each(records, tree.take, "a session entry")
    return [Rollout(tree.id or SESSION, tuple(tree.replay.calls), warnings=tuple(tree.warnings()))]


def _is_compaction(entry: _Entry) -> bool:
    return entry.hint is not None and entry.hint.kind == "summary"


def _said(identity: str, text: str, *, line: int, mark: Mark | None = None) -> Message:
    return Message("user", (Part("text", text),), id=identity, mark=mark, line=line)


def _message(value: Object, identity: str, line: int) -> Message | None:
    role = string(value, "role")
    if role == "bashExecution":
        if value.get("excludeFromContext") is True:
            return None
        shell = f"$ {string(value, 'command') or ''}\n{string(value, 'output') or ''}"
        return _said(identity, shell, line=line)
    if role in ("branchSummary", "compactionSummary"):
        return _said(identity, string(value, "summary") or "", line=line, mark="summary")
    if role == "toolResult":
        text = as_text(read_blocks(value.get("content")))
        part = Part("tool_result", text, id=string(value, "toolCallId"))
        name = string(value, "toolName")
        return Message("tool", (part,), id=identity, name=name, line=line)
    if role == "assistant":
        return Message("assistant", _sampled(value.get("content")), id=identity, line=line)
    if role not in ("user", "custom", "hookMessage"):
        raise FieldError(f"role is {role!r}, expected user, assistant, toolResult, ...")
    return Message("user", tuple(read_blocks(value.get("content"))), id=identity, line=line)


def _sampled(content: Json) -> tuple[Part, ...]:
    if not isinstance(content, list):
        return tuple(read_blocks(content))
    parts: list[Part] = []
    for block in content:
        if isinstance(block, dict) and block.get("type") == "toolCall":
            given = block.get("arguments")
            text = given if isinstance(given, str) else canonical({} if given is None else given)
            name, called = string(block, "name") or "", string(block, "id")
            parts.append(Part("tool_call", text, name=name, id=called))
        else:
            parts += read_blocks([block])
    return tuple(parts)


def _call(value: Object, record: Object, identity: str, line: int) -> Call:
    return Call(
        identity,
        usage=_usage(child(value, "usage") or {}),
        model=string(value, "model"),
        finish=string(value, "stopReason"),
        time=moment(record, "timestamp"),
        line=line,
    )


def _usage(usage: Object) -> Usage | None:
    """Token counts; a stopped call's are all zero, which says nothing."""
    cached = count(usage, "cacheRead")
    parts = (count(usage, "input"), cached, count(usage, "cacheWrite"))
    prompt, output = sum(part or 0 for part in parts), count(usage, "output")
    return Usage(prompt or None, output, cached) if prompt or output else None
