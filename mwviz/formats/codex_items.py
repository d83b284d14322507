"""Items of the Responses interface, as Codex keeps them, to messages.

What one response sampled stands in several items (reasoning, text, tool calls) and becomes one
message; encrypted items keep their place without text.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from mwviz.formats.chat import arguments, canonical, read_blocks, read_message
from mwviz.formats.fields import FieldError, Json, Object, objects, shown, string
from mwviz.formats.media import as_text, media_part
from mwviz.formats.replay import Replay, merged
from mwviz.rollout import Message, Part

SAMPLED = (
    "reasoning",
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "web_search_call",
    "tool_search_call",
    "image_generation_call",
)
"""Items that the model wrote, beside messages of the role assistant."""
DRAWN = "image_generation_call"
"""An image that the model made."""
RESULTS = ("function_call_output", "custom_tool_call_output", "tool_search_output")
SUMMARIES = ("compaction", "compaction_summary", "context_compaction")
"""A server's summary of what it removed; its text is encrypted."""
UNSENT = ("ghost_snapshot",)
"""Items of the harness alone."""
REASONING = "reasoning is encrypted in the file"
SUMMARY = "the summary of a remote compaction is encrypted in the file"
SEARCHED = "results of the provider's web search are not in the file"


def is_sampled(item: Object) -> bool:
    """Whether the model wrote the item."""
    kind = item.get("type")
    return kind in SAMPLED or (kind == "message" and item.get("role") == "assistant")


def read_item(item: Object, line: int, replay: Replay) -> Message | None:
    """The message of one item, None if it never reaches the model.

    Raises:
        FieldError: A field has a wrong type.
    """
    kind, identity = string(item, "type"), string(item, "id") or None
    if kind is None:
        raise FieldError("an item has no type")
    if kind in UNSENT:
        return None
    if kind == "message":
        found = read_message(item, line=line)
        return Message(found.role, found.parts, id=identity, line=line)
    if kind in RESULTS:
        part = Part("tool_result", _output(item.get("output")), id=string(item, "call_id"))
        return Message("tool", (part,), id=identity, line=line)
    if kind in SUMMARIES:
        parts = (Part("other", "", name="compaction"),)
        return replay.lacks(
            Message("user", parts, id=identity or f"compaction-{line}", mark="summary", line=line),
            SUMMARY,
        )
    return Message("assistant", (_sampled(item, kind),), id=identity, line=line)


def read_items(items: Iterable[tuple[Object, int]], replay: Replay) -> list[Message]:
    """Messages of a list of items; what was sampled in a row is one message."""
    found: list[Message] = []
    for sampled, group in groupby(items, key=lambda entry: is_sampled(entry[0])):
        read = [read_item(item, line, replay) for item, line in group]
        messages = [message for message in read if message]
        found += [reply(messages, replay)] if sampled else messages
    return found


def reply(pieces: list[Message], replay: Replay) -> Message:
    """One message of all a response sampled, remembered if a part of it is not readable."""
    message = merged(pieces)
    if any(part.kind == "reasoning" and part.name for part in message.parts):
        replay.lacks(message, REASONING)
    elif any(part.name == "web_search" for part in message.parts):
        replay.lacks(message, SEARCHED)
    return message


def _sampled(item: Object, kind: str) -> Part:
    if kind == "reasoning":
        return _reasoning(item)
    name, identity = string(item, "name") or "", string(item, "call_id")
    if kind == "custom_tool_call":
        return Part("tool_call", string(item, "input") or "", name=name, id=identity)
    if kind == "function_call":
        return Part("tool_call", arguments(item.get("arguments")), name=name, id=identity)
    if kind in ("local_shell_call", "web_search_call"):
        return Part("tool_call", canonical(item.get("action")), name=kind[:-5], id=identity)
    if kind == DRAWN:
        return media_part({"type": "image", "data": item.get("result")})
    held = {key: value for key, value in item.items() if not key.startswith("encrypted")}
    return Part("other", canonical(held), name=kind)


def _reasoning(item: Object) -> Part:
    """Its text, or the summary of it that the provider shows; the name says `encrypted`."""
    texts = [string(block, "text") or "" for block in objects(item, "content") or ()]
    if texts:
        return Part("reasoning", "\n".join(texts))
    shorter = [string(block, "text") or "" for block in objects(item, "summary") or ()]
    return Part("reasoning", "\n".join(shorter), name="encrypted")


def _output(value: Json) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, dict):
        value = value.get("content")
    if isinstance(value, list | str):
        return as_text(read_blocks(value))
    raise FieldError(f"output is {shown(value)}, expected text or blocks")
