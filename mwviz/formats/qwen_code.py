"""Qwen Code chats (JSON Lines trees) to rollouts, rebuilt by replay.

A context is the path from the root to the record before a reply; a compression holds the whole
history that it leaves. System prompt and tools are not in the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mwviz.formats.call_fields import moment
from mwviz.formats.fields import FieldError, Object, child, count, objects, string
from mwviz.formats.gemini_parts import read_content, read_counts
from mwviz.formats.records import Record, Records
from mwviz.formats.replay import Replay, Unknown, each, listed, path_to
from mwviz.rollout import Call, Hint, Hole, Message, Rollout

SESSION = "session"
"""Id of the rollout if no record names it."""
SYSTEM = "system prompt and tool list are not in the file"
UNSAID = "the history that a compression left is not in the file"
SNAPSHOT = "<state_snapshot>"
"""Opens the summary that a compression puts in place of the history."""
LOOSE = "records hang on one that is not in the file: they are read behind the one before them"
LOOSE_ONE = "record hangs on one that is not in the file: it is read behind the one before it"
EMPTY = "compressions do not hold the history that they left: later contexts are unknown"
EMPTY_ONE = "compression does not hold the history that it left: later contexts are unknown"
SUBTYPES = ("chat_compression", "slash_command", "ui_telemetry", "at_command")
"""System records whose meaning is known; all but the first are for the user's eyes."""
KINDS = ("user", "assistant", "tool_result", "system")


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    """One record of the tree."""

    parent: str | None
    messages: tuple[Message, ...] = ()
    whole: bool = False
    """Whether the messages are all that is left of what stands above."""


@dataclass(slots=True)
class _Chat:
    """The records up to the one of this moment, and the context at the last."""

    id: str | None = None
    replay: Replay = field(default_factory=lambda: Replay("main", (Hole(SYSTEM),)))
    nodes: dict[str, _Node] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)
    tip: str | None = None
    unknown: Unknown = field(default_factory=Unknown)
    unsaid: list[int] = field(default_factory=list)
    loose: list[int] = field(default_factory=list)

    def take(self, record: Object, line: int) -> None:
        """Apply one record.

        Raises:
            FieldError: It is not what its type says.
        """
        kind, identity = string(record, "type") or "none", string(record, "uuid")
        self.id = self.id or string(record, "sessionId")
        if kind not in KINDS or identity is None:
            self.unknown.meet(kind, line)
            return
        if identity in self.nodes:
            raise FieldError(f"repeats the record {identity}")
        parent = string(record, "parentUuid") if "parentUuid" in record else self.tip
        if parent not in (self.tip, None) and parent not in self.nodes:
            self.loose.append(line)
        if kind == "system":
            subtype = string(record, "subtype")
            compression = subtype == SUBTYPES[0]
            if subtype not in SUBTYPES:
                self.unknown.meet(subtype, line, "system record")
            self._system(record, identity, parent, line=line if compression else None)
            return
        value = child(record, "message")
        if value is None:
            raise FieldError("no message, expected one in a record that is not of the system")
        message = read_content(value, id=identity, line=line)
        call = _call(record, identity, line) if kind == "assistant" else None
        self._go(identity, _Node(parent, (message,) if message.parts else ()))
        if call is None:
            self.replay.append(*self.nodes[identity].messages)
        else:
            self.replay.answer(call, *self.nodes[identity].messages)

    def warnings(self) -> list[str]:
        """What a reader of the result should know."""
        return [
            *self.unknown.warnings,
            *listed(EMPTY, self.unsaid, one=EMPTY_ONE),
            *listed(LOOSE, self.loose, one=LOOSE_ONE),
        ]

    def _go(self, identity: str, node: _Node) -> None:
        """Add a record, on another branch if it hangs on one."""
        if node.parent != self.tip and (node.parent in self.nodes or node.parent is None):
            branched = Hint("rewind", "another branch of the chat")
            self.replay.replace(self._context(node.parent), branched)
        self.nodes[identity], self.parents[identity] = node, node.parent
        self.tip = identity

    def _system(
        self, record: Object, identity: str, parent: str | None, *, line: int | None
    ) -> None:
        payload = child(record, "systemPayload") if line else None
        kept = objects(payload or {}, "compressedHistory")
        if line is None or kept is None:
            self._go(identity, _Node(parent))
            if line is not None:
                self.unsaid.append(line)
                self.replay.doubt(Hole(UNSAID), Hint("summary"))
            return
        history = [read_content(c, id=None, line=line) for c in kept]
        marked = tuple(_marked(m, f"{identity}-{at}") for at, m in enumerate(history))
        info = child(payload or {}, "info") or {}
        before, after = count(info, "originalTokenCount"), count(info, "newTokenCount")
        detail = f"{before:,} to {after:,} tokens" if before and after else ""
        self._go(identity, _Node(parent, marked, whole=True))
        self.replay.replace(marked, Hint("summary", detail))

    def _context(self, identity: str | None) -> list[Message]:
        """The messages that the model reads behind a record."""
        found: list[Message] = []
        for name in path_to(identity, self.parents):
            node = self.nodes[name]
            found = [*node.messages] if node.whole else [*found, *node.messages]
        return found


def detects(head: Sequence[Record]) -> bool:
    """Whether a record has the chain of a chat and a message made of Gemini parts."""
    return any(isinstance(record.value, dict) and _is_record(record.value) for record in head)


def _is_record(value: Object) -> bool:
    if not ("uuid" in value and "sessionId" in value and value.get("type") in KINDS):
        return False
    message = value.get("message")
    if isinstance(message, dict):
        return "parts" in message
    return value.get("subtype") == "chat_compression"


def reads(records: Records) -> list[Rollout]:
    """One rollout: the chat with all its branches."""
    chat = _Chat()
    each(records, chat.take, "a chat record")
    return [Rollout(chat.id or SESSION, tuple(chat.replay.calls), warnings=tuple(chat.warnings()))]


def _marked(message: Message, identity: str) -> Message:
    """The message with an id of its own if it is the summary; others are known by content."""
    if message.role == "user" and message.text.lstrip().startswith(SNAPSHOT):
        return replace(message, mark="summary", id=identity)
    return message


def _call(record: Object, identity: str, line: int) -> Call:
    return Call(
        identity,
        usage=read_counts(child(record, "usageMetadata")),
        model=string(record, "model"),
        time=moment(record, "timestamp"),
        line=line,
    )
