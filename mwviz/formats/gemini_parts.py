"""Gemini content (`role` and `parts`) to messages, as Gemini CLI and Qwen Code keep it.

Thought parts are summaries that are not sent again, so they are no part of a message.
"""

from __future__ import annotations

from mwviz.formats.chat import ROLES, canonical
from mwviz.formats.fields import FieldError, Json, Object, child, count, shown, string
from mwviz.formats.media import as_text, media_part
from mwviz.rollout import Message, Part, Usage


def read_parts(content: Json) -> tuple[Part, ...]:
    """Parts of a content: text, one part or a list of them.

    Raises:
        FieldError: It is something else.
    """
    if content is None or content == "":
        return ()
    if isinstance(content, str):
        return (Part("text", content),)
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        raise FieldError(f"content is {shown(content)}, expected text or a list of parts")
    found = [part for value in content if (part := _part(value)) is not None]
    return tuple(found)


def read_content(content: Object, *, id: str | None, line: int) -> Message:
    """The message of a content; function results make it one of the role `tool`."""
    role = string(content, "role") or "user"
    return message_of(ROLES.get(role, role), read_parts(content.get("parts")), id=id, line=line)


def message_of(role: str, parts: tuple[Part, ...], *, id: str | None, line: int) -> Message:
    """A message of these parts; function results make it one of the role `tool`."""
    if role == "user" and parts and all(part.kind == "tool_result" for part in parts):
        role = "tool"
    return Message(role, parts, id=id, line=line)


def result_text(response: Json) -> str:
    """What a function gave back, as text."""
    if isinstance(response, str):
        return response
    if isinstance(response, dict):
        for key in ("output", "error"):
            if isinstance(text := response.get(key), str) and len(response) == 1:
                return text
    return canonical(response)


def read_counts(metadata: Object | None) -> Usage | None:
    """Token counts of a response's `usageMetadata`."""
    if metadata is None:
        return None
    prompt = count(metadata, "promptTokenCount")
    output = count(metadata, "candidatesTokenCount")
    thoughts = count(metadata, "thoughtsTokenCount")
    if not prompt and not output:
        return None
    completion = None if output is None else output + (thoughts or 0)
    return Usage(prompt, completion, count(metadata, "cachedContentTokenCount"))


def _part(value: Json) -> Part | None:
    if isinstance(value, str):
        return Part("text", value)
    if not isinstance(value, dict):
        raise FieldError(f"a part is {shown(value)}, expected an object")
    if value.get("thought"):
        return None
    if "text" in value:
        return Part("text", string(value, "text") or "")
    return _function(value) or _data(value)


def _function(value: Object) -> Part | None:
    if call := child(value, "functionCall"):
        name, called = string(call, "name") or "", string(call, "id")
        return Part("tool_call", canonical(call.get("args") or {}), name=name, id=called)
    if result := child(value, "functionResponse"):
        shown_too = [Part("text", text)] if (text := result_text(result.get("response"))) else []
        text = as_text((*shown_too, *read_parts(result.get("parts"))))
        return Part("tool_result", text, name=string(result, "name"), id=string(result, "id"))
    return None


def _data(value: Object) -> Part | None:
    for key in ("inlineData", "fileData"):
        if data := child(value, key):
            return media_part({"type": "file", **data})
    held = {key: item for key, item in value.items() if key != "thoughtSignature"}
    return Part("other", canonical(held), name=next(iter(held))) if held else None
