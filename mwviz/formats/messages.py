"""Flat chats: one message a line, or documents with a `messages` list.

Each assistant message is a call on all messages before it. So no context was ever changed, as far
as such a file can tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mwviz.formats.chat import Pool, read_message, tools_message
from mwviz.formats.fields import FieldError, Json, shown
from mwviz.formats.records import Record, Records
from mwviz.rollout import Call, Message, Rollout
from mwviz.sharing import Shared
from mwviz.wording import counted

FLAT = "chat"
"""Id of the rollout of a file with one message a line."""


def detects(head: Sequence[Record]) -> bool:
    """Whether a record is a chat message or holds a list of them, and no reply beside it."""
    return any(
        any(_is_message(value) for value in message_list(record.value) or [record.value])
        for record in head
        if not (isinstance(record.value, dict) and "response" in record.value)
    )


def reads(records: Records) -> list[Rollout]:
    """One rollout a document; all lines with a single message together make one."""
    pool = Pool()
    flat: list[Message] = []
    rollouts: dict[str, Rollout] = {}
    for record in records:
        listed = message_list(record.value)
        if listed is None:
            flat.extend(_messages(records, record, [record.value], pool=pool))
            continue
        chat = _messages(records, record, listed, pool=pool)
        if isinstance(record.value, dict) and (tools := record.value.get("tools")):
            chat.insert(0, pool(tools_message(tools, record.line)))
        name = _name(record, rollouts)
        rollouts[name] = _rollout(name, chat)
    if flat:
        name = FLAT if FLAT not in rollouts else f"{FLAT}@flat"
        rollouts[name] = _rollout(name, flat)
    return list(rollouts.values())


def _messages(
    records: Records, record: Record, values: Sequence[Json], *, pool: Pool
) -> list[Message]:
    found: list[Message] = []
    for value in values:
        try:
            if not isinstance(value, dict):
                raise FieldError(f"{shown(value)}, expected a message object")
            found.append(pool(read_message(value, line=record.line)))
        except FieldError as error:
            kept = "the other messages" if len(values) > 1 else "nothing"
            records.drop(record, str(error), kept)
    return found


def _rollout(name: str, chat: list[Message]) -> Rollout:
    calls: list[Call] = []
    before: Shared[Message] = Shared()
    for at, message in enumerate(chat):
        if message.role == "assistant":
            calls.append(
                Call(
                    str(at),
                    prompt=before,
                    completion=(message,),
                    tokens="rendered",
                    line=message.line,
                )
            )
        before = before.extended((message,))
    after = chat[int(calls[-1].id) + 1 :] if calls else chat
    warnings = () if not after else (_unused(after),)
    return Rollout(name, tuple(calls), warnings=warnings)


def _unused(after: list[Message]) -> str:
    lines = f"line {after[0].line}" if len(after) == 1 else f"from line {after[0].line} on"
    return (
        f"in no call: {counted(len(after), 'message')} after the last assistant message ({lines})"
    )


def _name(record: Record, taken: Mapping[str, Rollout]) -> str:
    given = None
    if isinstance(record.value, dict):
        value = record.value.get("id")
        given = value if isinstance(value, str) else None
    name = given or f"{FLAT}-{len(taken)}"
    return name if name not in taken else f"{name}@{record.line}-{len(taken)}"


def message_list(value: Json) -> list[Json] | None:
    """The messages of a record: a list, or what stands under `messages`; None if it is neither."""
    found = value.get("messages") if isinstance(value, dict) else value
    return found if isinstance(found, list) else None


def _is_message(value: Json) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("role"), str)
        and any(key in value for key in ("content", "tool_calls"))
    )
