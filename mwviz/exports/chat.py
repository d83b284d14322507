"""Messages in the chat shape that most readers know.

A message whose parts stand in another order than chat messages have, or that holds what chat has no
field for, is written as blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

from mwviz.formats.fields import Json, Object, decoded
from mwviz.rollout import Message, Part

ORDER = ("reasoning", "text", "tool_call")
"""Kinds of parts in the order in which a chat message holds them."""


def chat_message(message: Message) -> Object:
    """One message as `{"role", "content", ...}`."""
    record: Object = {"role": message.role}
    if message.name is not None:
        record["name"] = message.name
    kinds = [part.kind for part in message.parts]
    if kinds == ["tool_result"] and message.role == "tool":
        (result,) = message.parts
        return record | {"tool_call_id": result.id, "content": result.text}
    if not is_plain(message):
        return record | {"content": [_block(part) for part in message.parts]}
    texts = _texts(message, "text")
    record["content"] = (
        texts[0] if len(texts) == 1 else [{"type": "text", "text": t} for t in texts]
    )
    if not texts:
        record["content"] = None
    if reasoning := _texts(message, "reasoning"):
        record["reasoning_content"] = reasoning[0]
    if calls := [_tool_call(part) for part in message.parts if part.kind == "tool_call"]:
        record["tool_calls"] = calls
    return record


def is_plain(message: Message) -> bool:
    """Whether a message is one thought, texts and tool calls, in this order."""
    kinds = [part.kind for part in message.parts]
    if kinds.count("reasoning") > 1 or not set(kinds) <= set(ORDER):
        return False
    places = [ORDER.index(kind) for kind in kinds]
    return places == sorted(places)


def without_tools(messages: Sequence[Message]) -> tuple[Json, Sequence[Message]]:
    """The tool list that stands in front of the messages, None if none does, and the others."""
    first = messages[0] if messages else None
    if first is not None and [part.name for part in first.parts] == ["tools"]:
        return decoded(first.parts[0].text), messages[1:]
    return None, messages


def _texts(message: Message, kind: str) -> list[str]:
    return [part.text for part in message.parts if part.kind == kind]


def _tool_call(part: Part) -> Json:
    function: Object = {"name": part.name, "arguments": part.text}
    return {"id": part.id, "type": "function", "function": function}


def _block(part: Part) -> Json:
    if part.kind == "text":
        return {"type": "text", "text": part.text}
    if part.kind == "reasoning":
        return {"type": "thinking", "thinking": part.text}
    if part.kind == "tool_call":
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": decoded(part.text)}
    if part.kind == "tool_result":
        return {"type": "tool_result", "tool_use_id": part.id, "content": part.text}
    if part.kind in ("image", "file"):
        return {"type": part.kind, "source": {"media_type": part.name}}
    whole = decoded(part.text)
    return {**(whole if isinstance(whole, dict) else {"text": part.text}), "type": part.name}
