"""Gemini CLI chats to rollouts: the JSON document of old versions, the JSON Lines log of new ones.

The log rewrites a message by repeating its id, cuts with `$rewindTo` and replaces the whole list
with `$set`. The document was rewritten in place, so what a compression removed is not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from mwviz.formats.call_fields import moment
from mwviz.formats.chat import canonical
from mwviz.formats.fields import FieldError, Json, Object, child, count, label, objects, string
from mwviz.formats.gemini_parts import message_of, read_parts, result_text
from mwviz.formats.media import as_text
from mwviz.formats.records import Record, Records
from mwviz.formats.replay import Replay, each, listed, unfolded
from mwviz.rollout import Call, Hint, Hole, Message, Part, Rollout, Usage

SESSION = "session"
"""Id of the rollout if no record names it."""
SYSTEM = "system prompt and tool list are not in the file"
THOUGHTS = "thinking is in the file as summaries only"
SNAPSHOT = "<state_snapshot>"
"""Opens the summary that a compression puts in place of the history."""
ASIDE = ("info", "warning", "error")
"""Messages for the user alone."""
UNTRACED = (
    "a chat of the old format is rewritten in place: what a compression removed left no trace"
)


def detects(head: Sequence[Record]) -> bool:
    """Whether a record names a session of a project, or is a message of one."""
    return any(isinstance(record.value, dict) and _is_chat(record.value) for record in head)


def _is_chat(value: Object) -> bool:
    if isinstance(value.get("sessionId"), str) and "projectHash" in value:
        return True
    return value.get("type") == "gemini" and "content" in value and "id" in value


def reads(records: Records) -> list[Rollout]:
    """One rollout: the chat; sub-agents write files of their own."""
    chat = _Chat()
    each(records, chat.take, "a chat record", unfold=chat.unfold)
    chat.close()
    return [Rollout(chat.id or SESSION, tuple(chat.replay.calls), warnings=tuple(chat.warnings()))]


@dataclass(slots=True)
class _Said:
    """One message of the list, as its last record has it."""

    value: Object
    line: int
    messages: tuple[Message, ...]
    """What the model reads of it: the reply, then the results of its tool calls."""
    call: Call | None
    """The call that a reply is the answer of."""


@dataclass(slots=True)
class _Chat:
    """The list of messages up to the record of this moment."""

    id: str | None = None
    replay: Replay = field(default_factory=lambda: Replay("main", (Hole(SYSTEM), Hole(THOUGHTS))))
    said: dict[str, _Said] = field(default_factory=dict)
    open: str | None = None
    """The reply that later records may still complete."""
    before: list[Message] = field(default_factory=list)
    """What the model read before it."""
    known: set[str] = field(default_factory=set)
    """Ids of all replies so far."""
    called: set[str] = field(default_factory=set)
    """Ids of the replies that had a record of their own."""
    document: bool = False
    lost: list[int] = field(default_factory=list)
    late: list[int] = field(default_factory=list)

    def unfold(self, record: Record) -> Iterator[Record]:
        """The messages of a document behind its header; a record of a log as it is."""
        parts = list(unfolded(record, "messages"))
        self.document = self.document or len(parts) > 1
        yield from parts

    def take(self, record: Object, line: int) -> None:
        """Apply one record.

        Raises:
            FieldError: It is not what its shape says.
        """
        target = string(record, "$rewindTo")
        if target is not None:
            self._rewind(target, line)
        elif "id" in record:
            self._put(record, line)
        elif (change := child(record, "$set")) is not None:
            self.id = self.id or label(change, "sessionId")
            self._replace(objects(change, "messages"), line)
        elif "sessionId" in record and "type" not in record:
            self.id = self.id or label(record, "sessionId")
        else:
            raise FieldError("a record with no id, $set or $rewindTo that is no header")

    def warnings(self) -> list[str]:
        """What a reader of the result should know."""
        return [
            *([UNTRACED] if self.document else []),
            *listed(
                "rewinds to a message that is not in the file emptied the chat",
                self.lost,
                one="rewind to a message that is not in the file emptied the chat",
            ),
            *listed(
                "replies stand behind a list that holds them: their calls are lost",
                self.late,
                one="reply stands behind a list that holds it: its call is lost",
            ),
        ]

    def close(self) -> None:
        """End the reply that later records might have completed."""
        found = self.said.get(self.open or "")
        if found is None or found.call is None or not found.messages:
            self.open = None
            return
        reply, *_ = found.messages
        self.replay.replace(self.before)
        self.replay.answer(found.call, reply)
        self.replay.replace(self._messages())
        self.open = None

    def _put(self, record: Object, line: int) -> None:
        identity = label(record, "id") or ""
        said = _said(record, identity, line)
        if identity in self.known or string(record, "type") != "gemini":
            if identity in self.known - self.called:
                self.late.append(line)
            if identity in self.said:
                said.line = self.said[identity].line
            self.said[identity] = said
            return
        if self._continues(record):
            self._extend(said)
            return
        self.close()
        self.before = self._messages()
        self.open = identity
        self.known.add(identity)
        self.called.add(identity)
        self.said[identity] = said

    def _continues(self, record: Object) -> bool:
        """Whether a reply holds but the tool calls of the one before a notice."""
        tokens = child(record, "tokens") or {}
        bare = not record.get("content") and not record.get("thoughts")
        last = next((s for s in reversed(self.said.values()) if s.messages), None)
        follows = self.open is not None and last is self.said.get(self.open)
        return bare and follows and not count(tokens, "input") and "toolCalls" in record

    def _extend(self, more: _Said) -> None:
        """Add the tool calls to the open reply."""
        value = dict(self.said[self.open or ""].value)
        calls = [*(objects(value, "toolCalls") or ()), *(objects(more.value, "toolCalls") or ())]
        value["toolCalls"] = list[Json](calls)
        found = self.said[self.open or ""]
        found.value = value
        found.messages = _messages_of(value, self.open or "", found.line)

    def _rewind(self, target: str, line: int) -> None:
        self.close()
        names = list(self.said)
        at = names.index(target) if target in names else 0
        if target not in names:
            self.lost.append(line)
        self.said = {name: self.said[name] for name in names[:at]}
        self.replay.replace(self._messages(), Hint("rewind"))

    def _replace(self, messages: list[Object] | None, line: int) -> None:
        if messages is None:
            return
        said: dict[str, _Said] = {}
        for at, message in enumerate(messages):
            identity = label(message, "id") or f"line-{line}-{at}"
            said[identity] = _said(message, identity, line)
        self.close()
        before = self._messages()
        self.said = said
        self.known.update(name for name, s in said.items() if s.value.get("type") == "gemini")
        after = self._messages()
        self.replay.replace(after, *_hints(before, after))

    def _messages(self) -> list[Message]:
        """The context; a result that stands on its own is not taken from its call again."""
        own = {
            part.id
            for said in self.said.values()
            if said.value.get("type") == "user"
            for message in said.messages
            for part in message.parts
            if part.kind == "tool_result"
        }
        return [
            message
            for said in self.said.values()
            for message in said.messages
            if not (said.value.get("type") == "gemini" and _answers(message, own))
        ]


def _said(record: Object, identity: str, line: int) -> _Said:
    messages = _messages_of(record, identity, line)
    call = _call(record, identity, line) if record.get("type") == "gemini" else None
    return _Said(record, line, messages, call)


def _answers(message: Message, known: set[str | None]) -> bool:
    return message.role == "tool" and any(part.id in known for part in message.parts)


def _messages_of(record: Object, identity: str, line: int) -> tuple[Message, ...]:
    kind = string(record, "type")
    if kind in ASIDE:
        return ()
    if kind not in ("user", "gemini"):
        raise FieldError(f"type is {kind!r}, expected user, gemini, info, warning or error")
    parts = read_parts(record.get("content"))
    if kind == "user":
        said = message_of("user", parts, id=identity, line=line)
        if said.role == "user" and said.text.lstrip().startswith(SNAPSHOT):
            said = replace(said, mark="summary")
        return (said,) if parts else ()
    calls = objects(record, "toolCalls") or []
    asked = {part.id for part in parts if part.kind == "tool_call"}
    own = tuple(_asked(call) for call in calls if string(call, "id") not in asked)
    reply = Message("assistant", (*parts, *own), id=identity, line=line)
    results = tuple(part for call in calls for part in _results(call))
    return (reply, Message("tool", results, line=line)) if results else (reply,)


def _asked(call: Object) -> Part:
    name = string(call, "name") or ""
    return Part("tool_call", canonical(call.get("args") or {}), name=name, id=string(call, "id"))


def _results(call: Object) -> tuple[Part, ...]:
    """What came back to one tool call; its own result alone where others are repeated in it."""
    if call.get("result") is None:
        return ()
    name, called = string(call, "name"), string(call, "id")
    parts = read_parts(call["result"])
    if any(p.kind == "tool_result" and p.id in (called, None) for p in parts):
        return tuple(p for p in parts if p.kind != "tool_result" or p.id in (called, None))
    text = as_text(parts) if parts else result_text(call["result"])
    return (Part("tool_result", text, name=name, id=called),)


def _call(value: Object, identity: str, line: int) -> Call:
    tokens = child(value, "tokens") or {}
    prompt, output = count(tokens, "input"), count(tokens, "output")
    thoughts = count(tokens, "thoughts") or 0
    completion = None if output is None else output + thoughts
    usage = Usage(prompt or None, completion, count(tokens, "cached")) if prompt else None
    return Call(
        identity,
        usage=usage,
        model=string(value, "model"),
        time=moment(value, "timestamp"),
        line=line,
    )


def _hints(before: list[Message], after: list[Message]) -> tuple[Hint, ...]:
    """What a new list does to the old one, as far as its messages say so."""
    old, new = [m.content_key for m in before], [m.content_key for m in after]
    if new[: len(old)] == old:
        return ()
    if any(message.mark == "summary" for message in after if message.content_key not in old):
        return (Hint("summary"),)
    same = [m.role for m in before] == [m.role for m in after]
    return (Hint("placeholder", "tool results masked"),) if same else ()
