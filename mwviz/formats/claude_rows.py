"""Records of a Claude Code session to rows: what each is, what hangs on what, what the model read.

It knows the record types; it does not know contexts or calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from mwviz.formats.call_fields import moment, read_usage
from mwviz.formats.chat import canonical, read_blocks, read_message
from mwviz.formats.fields import FieldError, Object, child, string
from mwviz.rollout import Mark, Message, Part, Usage

CONTEXT_ATTACHMENTS = (
    "task_reminder",
    "queued_command",
    "skill_listing",
    "hook_additional_context",
    "edited_text_file",
    "diagnostics",
    "date_change",
    "deferred_tools_delta",
    "agent_listing_delta",
    "mcp_instructions_delta",
)
"""Attachments that are sent to the model; all others are rows of the user interface."""
ATTACHED_TEXT = ("prompt", "content", "snippet", "text")
SYNTHETIC = "<synthetic>"
"""Model name of replies that the harness wrote itself."""

RowKind = Literal["user", "assistant", "attachment", "boundary", "micro", "other"]


class Reply(NamedTuple):
    """What an assistant record says of its call."""

    group: str
    """`message.id`: the same for all records of one call."""
    usage: Usage | None
    model: str | None
    finish: str | None
    time: float | None
    calls: tuple[str, ...]
    """Ids of the tool calls in this record."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One record that has a place in the parent chain."""

    line: int
    uuid: str
    parent: str | None
    kind: RowKind
    message: Message | None
    """What the model read; None if the row is not a part of any context."""
    side: bool
    """Whether it belongs to a sub-agent."""
    agent: str | None
    hangs: bool
    """Whether it only accompanies the row it hangs on: attachments, meta and progress rows."""
    reply: Reply | None = None
    results: tuple[str, ...] = ()
    """Ids of the tool calls whose results it holds."""
    source: str | None = None
    """The assistant record whose tool call it answers, as the log says."""
    details: Object | None = None
    """Metadata of a boundary."""
    logical: str | None = None
    """The last row before a boundary, as the log says; often not in the file."""

    @property
    def content_key(self) -> bytes:
        """Equal for two rows that say the same."""
        return self.message.content_key if self.message else self.kind.encode()


def read_row(record: Object, line: int, *, before: str | None) -> Row | None:
    """The row of a record, None if the record stands outside the parent chain.

    `before` is the row above, which stands in as the parent where third-party writers give no ids.

    Raises:
        FieldError: A field of a message has a wrong type.
    """
    kind = _kind(record)
    uuid = string(record, "uuid")
    if uuid is None and kind == "other":
        return None
    reply = _reply(record) if kind == "assistant" else None
    message = _message(record, kind, line=line, uuid=uuid or f"line-{line}", reply=reply)
    results = () if message is None else _ids(message, "tool_result")
    return Row(
        line=line,
        uuid=uuid or f"line-{line}",
        parent=string(record, "parentUuid") if "parentUuid" in record or uuid else before,
        kind=kind,
        message=message,
        side=record.get("isSidechain") is True,
        agent=string(record, "agentId"),
        hangs=kind in ("attachment", "other") or (record.get("isMeta") is True and not results),
        reply=reply,
        results=results,
        source=string(record, "sourceToolAssistantUUID"),
        details=_details(record),
        logical=string(record, "logicalParentUuid"),
    )


def _kind(record: Object) -> RowKind:
    kind = string(record, "type")
    if kind in ("user", "assistant"):
        return "user" if kind == "user" else "assistant"
    if kind == "attachment":
        return "attachment"
    subtype = record.get("subtype")
    if kind == "system" and subtype == "compact_boundary":
        return "boundary"
    return "micro" if kind == "system" and subtype == "microcompact_boundary" else "other"


def _details(record: Object) -> Object | None:
    for key in ("compactMetadata", "microcompactMetadata"):
        if isinstance(found := record.get(key), dict):
            return found
    return None


def _reply(record: Object) -> Reply:
    message = child(record, "message") or {}
    parts = tuple(read_blocks(message.get("content")))
    return Reply(
        group=string(message, "id") or string(record, "uuid") or "",
        usage=read_usage(child(message, "usage")),
        model=string(message, "model"),
        finish=string(message, "stop_reason"),
        time=moment(record, "timestamp"),
        calls=tuple(part.id for part in parts if part.kind == "tool_call" and part.id),
    )


def _message(
    record: Object, kind: RowKind, *, line: int, uuid: str, reply: Reply | None
) -> Message | None:
    if kind == "attachment":
        return _attached(record, line=line, uuid=uuid)
    if kind not in ("user", "assistant"):
        return None
    summary = record.get("isCompactSummary") is True
    if record.get("isVisibleInTranscriptOnly") is True and not summary:
        return None
    value = child(record, "message")
    if value is None:
        raise FieldError("no message, expected one in a user or assistant record")
    message = read_message(value, line=line, role=kind)
    mark: Mark | None = "summary" if summary else None
    identity = reply.group if reply and reply.group else uuid
    return Message(message.role, message.parts, id=identity, mark=mark, line=line)


def _attached(record: Object, *, line: int, uuid: str) -> Message | None:
    value = record.get("attachment")
    if not isinstance(value, dict):
        return None
    kind = string(value, "type")
    if kind not in CONTEXT_ATTACHMENTS:
        return None
    texts = [text for key in ATTACHED_TEXT if isinstance(text := value.get(key), str)]
    if not texts:
        texts = [canonical({key: held for key, held in value.items() if key != "type"})]
    return Message(
        "user", (Part("text", texts[0], name=kind),), id=uuid, mark="reminder", line=line
    )


def attachment_type(record: Object) -> str | None:
    """Type of an attachment that is not a part of the context, None for any other record."""
    if record.get("type") != "attachment":
        return None
    value = record.get("attachment")
    kind = value.get("type") if isinstance(value, dict) else value
    return kind if isinstance(kind, str) and kind not in CONTEXT_ATTACHMENTS else None


def _ids(message: Message, kind: str) -> tuple[str, ...]:
    return tuple(part.id for part in message.parts if part.kind == kind and part.id)
