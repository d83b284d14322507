"""Message lists of Qwen-Agent to rollouts, each taken as if nothing had been cut.

Qwen-Agent shortens a copy of its messages inside the model class, so a saved list bears no trace of
it: contexts are unknown wherever they may have been longer than the limit. What one reply sampled
stands in several assistant messages in a row.
"""

from __future__ import annotations

from collections.abc import Sequence

from mwviz.formats.chat import ROLES, arguments
from mwviz.formats.fields import FieldError, Json, Object, child, shown, string
from mwviz.formats.records import Record, Records
from mwviz.formats.replay import Replay, merged
from mwviz.rollout import Call, Hole, Message, Part, Rollout

FLAT = "chat"
"""Id of the rollout of a file with one message a line."""
TOOLS = "tool list is not in the file"
CUT = "whether the harness shortened this prompt is not in the file"
MEDIA = ("image", "file", "audio", "video")
"""Kinds of content item that are not text."""
OWN = ("extra", "reasoning_content")
"""Fields by which its messages differ from other chats with function calls."""


def detects(head: Sequence[Record]) -> bool:
    """Whether function calls stand among messages with fields or content items of its own."""
    values = [value for record in head for value in _listed(record.value) or [record.value]]
    messages = [v for v in values if isinstance(v, dict) and isinstance(v.get("role"), str)]
    calls = any(m["role"] == "function" or "function_call" in m for m in messages)
    return calls and any(_is_own(message) for message in messages)


def _is_own(message: Object) -> bool:
    content = message.get("content")
    items = content if isinstance(content, list) else []
    bare = any(isinstance(item, dict) and "type" not in item for item in items)
    return bare or any(key in message for key in OWN)


def reads(records: Records) -> list[Rollout]:
    """One rollout for each list; all lines with a single message together make one."""
    chats: dict[str, list[Message]] = {}
    for record in records:
        listed = _listed(record.value)
        name = FLAT if listed is None else f"{FLAT}-{len(chats)}"
        chat = chats.setdefault(name, [])
        values = [record.value] if listed is None else listed
        for value in values:
            try:
                chat.append(_message(value, record.line))
            except FieldError as error:
                kept = "the other messages" if len(values) > 1 else "nothing"
                records.drop(record, str(error), kept)
    return [_rollout(name, chat) for name, chat in chats.items()]


def _rollout(name: str, chat: list[Message]) -> Rollout:
    replay = Replay("main", (Hole(TOOLS), Hole(CUT)))
    replies: list[Message] = []
    for message in [*chat, None]:
        if message is not None and message.role == "assistant":
            replies.append(message)
            continue
        if replies:
            call = Call(f"call-{len(replay.calls) + 1}", line=replies[0].line)
            replay.answer(call, merged(replies))
            replies = []
        if message is not None:
            replay.append(message)
    return Rollout(name, tuple(replay.calls))


def _listed(value: Json) -> list[Json] | None:
    found = value.get("messages") if isinstance(value, dict) else value
    return found if isinstance(found, list) else None


def _message(value: Json, line: int) -> Message:
    if not isinstance(value, dict):
        raise FieldError(f"{shown(value)}, expected a message object")
    role = string(value, "role")
    if role is None:
        raise FieldError("a message has no role, expected user, assistant, system or function")
    texts = _parts(value.get("content"))
    if role == "function":
        name, text = string(value, "name"), "\n".join(part.text for part in texts)
        extra = child(value, "extra") or {}
        result = Part("tool_result", text, id=string(extra, "function_id"))
        return Message("tool", (result,), name=name, line=line)
    thoughts = [Part("reasoning", p.text) for p in _parts(value.get("reasoning_content"))]
    parts = (*thoughts, *texts, *_calls(value))
    return Message(ROLES.get(role, role), parts, name=string(value, "name"), line=line)


def _calls(value: Object) -> tuple[Part, ...]:
    called = child(value, "function_call")
    if called is None:
        return ()
    identity = string(child(value, "extra") or {}, "function_id")
    name = string(called, "name") or ""
    return (Part("tool_call", arguments(called.get("arguments")), name=name, id=identity),)


def _parts(content: Json) -> list[Part]:
    """Text, or content items of which each holds one field."""
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [Part("text", content)]
    if not isinstance(content, list):
        raise FieldError(f"content is {shown(content)}, expected text or a list of items")
    found: list[Part] = []
    for at, item in enumerate(content):
        if not isinstance(item, dict):
            raise FieldError(f"content[{at}] is {shown(item)}, expected an item")
        text = string(item, "text")
        media = next((kind for kind in MEDIA if item.get(kind)), None)
        found.append(Part("text", text or "") if media is None else Part("image", "", name=media))
    return found
