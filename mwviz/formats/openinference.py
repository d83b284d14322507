"""Attributes of one OpenInference span to a call: messages are flattened into numbered names."""

from __future__ import annotations

import re

from mwviz.formats.calls import read_generic
from mwviz.formats.chat import Pool
from mwviz.formats.fields import FieldError, Json, Object, decoded
from mwviz.formats.media import is_media
from mwviz.rollout import Call

INPUT, OUTPUT = "llm.input_messages", "llm.output_messages"
NUMBERED = re.compile(r"llm\.(?P<side>input|output)_messages\.\d+\.")
MAX_MESSAGES = 100_000
"""Numbers above it stand for no message."""
USAGE = {
    "prompt_tokens": "llm.token_count.prompt",
    "completion_tokens": "llm.token_count.completion",
    "cached_tokens": "llm.token_count.prompt_details.cache_read",
}


def has_messages(attributes: Object) -> bool:
    """Whether a span's attributes hold messages by this convention."""
    return INPUT in attributes or any(
        match["side"] == "input" for key in attributes if (match := NUMBERED.match(key))
    )


def oi_call(attributes: Object, line: int, pool: Pool) -> Call:
    """The call of a span.

    Raises:
        FieldError: A message has no role, or a field another type than expected.
    """
    settings = decoded(attributes.get("llm.invocation_parameters"))
    answer = _messages(attributes, OUTPUT)
    tools = [decoded(tool) for tool in _numbered(attributes, "llm.tools", "tool.json_schema")]
    return read_generic(
        {
            "messages": _messages(attributes, INPUT),
            "completion": answer or None,
            "tools": tools or None,
            "usage": {key: attributes.get(name) for key, name in USAGE.items()},
            "model": attributes.get("llm.model_name"),
            "temperature": settings.get("temperature") if isinstance(settings, dict) else None,
        },
        line,
        pool,
    )


def _numbered(attributes: Object, prefix: str, field: str) -> list[Json]:
    found: list[Json] = []
    while (key := f"{prefix}.{len(found)}.{field}") in attributes:
        found.append(attributes[key])
    return found


def _messages(attributes: Object, side: str) -> list[Json]:
    """The messages of one side, numbered names or a list of them."""
    tree = _tree(attributes, side)
    return [_message(item) for item in _in_order(tree)]


def _tree(attributes: Object, prefix: str) -> Json:
    """Names that share a prefix as nested objects."""
    listed = attributes.get(prefix)
    whole: Object = {}
    if isinstance(listed, list):
        for at, item in enumerate(listed):
            for key, value in item.items() if isinstance(item, dict) else ():
                _put(whole, f"{at}.{key}", value)
    for key, value in attributes.items():
        if key.startswith(prefix + "."):
            _put(whole, key.removeprefix(prefix + "."), value)
    return whole


def _put(whole: Object, path: str, value: Json) -> None:
    *places, last = path.split(".")
    for place in places:
        inner = whole.setdefault(place, {})
        if not isinstance(inner, dict):
            raise FieldError(f"{path} stands below a name that has a value")
        whole = inner
    whole[last] = value


def _in_order(tree: Json) -> list[Json]:
    """The values of numbered names by number, or the items of a list."""
    if isinstance(tree, list):
        return tree
    if not isinstance(tree, dict):
        return []
    numbered = [(int(key), key) for key in tree if key.isdigit() and len(key) <= len("100000")]
    return [tree[key] for number, key in sorted(numbered) if number <= MAX_MESSAGES]


def _message(item: Json) -> Object:
    """One message in the spelling of chats."""
    inner = item.get("message") if isinstance(item, dict) else None
    message: Object = inner if isinstance(inner, dict) else {}
    chat: Object = {"role": message.get("role"), "content": message.get("content")}
    blocks: list[Json] = [_block(block) for block in _in_order(message.get("contents"))]
    calls: list[Json] = [_call(call) for call in _in_order(message.get("tool_calls"))]
    if blocks and not chat["content"]:
        chat["content"] = blocks
    if calls:
        chat["tool_calls"] = calls
    if name := message.get("tool_call_id"):
        chat["tool_call_id"] = name
    return chat


def _block(item: Json) -> Object:
    inner = item.get("message_content") if isinstance(item, dict) else None
    block = inner if isinstance(inner, dict) else {}
    kind = block.get("type")
    if isinstance(kind, str) and is_media(kind):
        return block
    return {"type": kind if kind == "reasoning" else "text", **_text(block)}


def _text(block: Object) -> Object:
    return {"text": block.get("text")} if block.get("text") is not None else {}


def _call(item: Json) -> Object:
    inner = item.get("tool_call") if isinstance(item, dict) else None
    call = inner if isinstance(inner, dict) else {}
    return {"id": call.get("id"), "function": call.get("function") or {}}
