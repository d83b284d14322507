"""Chat messages of OpenAI, Anthropic and like shapes to `Message`s.

Content may be a string or blocks; tool calls may be blocks or a field. What is not text (images,
audio, files) becomes a placeholder. It does not know which call a message belongs to.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from mwviz.formats.fields import FieldError, Json, Object, child, objects, shown, string
from mwviz.formats.media import as_text, digest, is_media, media_part
from mwviz.rollout import Mark, Message, Part

ROLES = {
    "developer": "system",
    "function": "tool",
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
}
"""Other names of the four roles."""
TEXT_BLOCKS = ("text", "input_text", "output_text", "refusal")
REASONING_BLOCKS = ("thinking", "reasoning", "redacted_thinking")
CALL_BLOCKS = ("tool_use", "tool_call", "server_tool_use", "function_call")
RESULT_BLOCKS = ("tool_result", "function_call_output")
UNTYPED = "block"
"""What a block is called that has neither type nor text."""
LEFT_OUT = ("cache_control", "signature")
"""Fields of a block that never reach the model as a part of it."""
OPAQUE = ("data", "source", "file", "input_audio")
"""Fields of a block of unknown type that may be long and no text: a digest stands for them."""
REASONING_FIELDS = ("reasoning_content", "reasoning")


class Pool:
    """Messages of one file, each kept once however often the log repeats it."""

    def __init__(self) -> None:
        self._kept: dict[tuple[bytes, str | None, Mark | None], Message] = {}

    def __call__(self, message: Message) -> Message:
        """The first message that says the same under the same id and mark."""
        return self._kept.setdefault((message.content_key, message.id, message.mark), message)


def canonical(value: Json) -> str:
    """JSON with sorted keys and no spaces: equal for values that differ in spelling only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def arguments(value: Json) -> str:
    """A tool call's arguments as canonical JSON; text that is no JSON stays as it is."""
    if not isinstance(value, str):
        return canonical({} if value is None else value)
    try:
        return canonical(json.loads(value))
    except (ValueError, RecursionError):
        return value


def read_message(record: Object, *, line: int | None = None, role: str | None = None) -> Message:
    """One chat message; `role` stands in where the record has none.

    Raises:
        FieldError: A field has another type than any chat shape gives it.
    """
    role = string(record, "role") or role
    if role is None:
        raise FieldError("a message has no role, expected user, assistant, system or tool")
    role = ROLES.get(role, role)
    result_id = string(record, "tool_call_id")
    parts = tuple(_parts(record, result=role == "tool", result_id=result_id))
    if role == "user" and parts and all(part.kind == "tool_result" for part in parts):
        role = "tool"
    return Message(role, parts, name=string(record, "name"), line=line)


def read_messages(values: list[Object], pool: Pool, line: int | None) -> tuple[Message, ...]:
    """The messages of one list, each kept once."""
    return tuple(pool(read_message(value, line=line)) for value in values)


def tools_message(tools: Json, line: int | None) -> Message:
    """The tool list of a request, which stands in front of its messages."""
    return Message("system", (Part("other", canonical(tools), name="tools"),), line=line)


def _parts(record: Object, *, result: bool, result_id: str | None) -> Iterator[Part]:
    for key in REASONING_FIELDS:
        if text := string(record, key):
            yield Part("reasoning", text)
            break
    content = record.get("content")
    for part in read_blocks(content):
        if result and part.kind == "text":
            yield replace(part, kind="tool_result", id=result_id)
        else:
            yield part
    yield from _said_elsewhere(record)
    if result and not content:
        yield Part("tool_result", "", id=result_id)
    for value in objects(record, "tool_calls") or ():
        yield _call(value)
    if legacy := child(record, "function_call"):
        yield _call(legacy)


def _said_elsewhere(record: Object) -> Iterator[Part]:
    """What an answer says outside its content: a refusal, speech."""
    if refusal := string(record, "refusal"):
        yield Part("text", refusal)
    if audio := child(record, "audio"):
        said: Object = {"type": "audio", "transcript": string(audio, "transcript") or ""}
        heard = audio.get("id") or audio.get("data")
        known: Object = {"digest": digest([heard])} if isinstance(heard, str) else {}
        yield Part("other", canonical(said | known), name="audio")


def read_blocks(content: Json) -> Iterator[Part]:
    """Parts of a message's content: nothing, a string or a list of blocks."""
    if content is None or content == "":
        return
    if isinstance(content, str):
        yield Part("text", content)
        return
    if not isinstance(content, list):
        raise FieldError(f"content is {shown(content)}, expected a string or a list of blocks")
    for at, value in enumerate(content):
        if isinstance(value, str):
            yield Part("text", value)
        elif isinstance(value, dict):
            yield read_block(value)
        else:
            raise FieldError(f"content[{at}] is {shown(value)}, expected a block")


def read_block(block: Object) -> Part:
    """One content block of any provider."""
    kind = string(block, "type") or ("text" if "text" in block else UNTYPED)
    if kind in TEXT_BLOCKS:
        return Part("text", string(block, "text") or string(block, "refusal") or "")
    if kind in REASONING_BLOCKS:
        return Part("reasoning", _thought(block))
    if kind in CALL_BLOCKS:
        return _call(block)
    if kind in RESULT_BLOCKS:
        return _result(block)
    if is_media(kind):
        return _document_text(block) or media_part(block)
    return Part("other", canonical(_bare(block)), name=kind)


def _thought(block: Object) -> str:
    thoughts = block.get("thinking")
    if isinstance(thoughts, list):
        return "".join(part.text for part in read_blocks(thoughts))
    return string(block, "thinking") or string(block, "text") or ""


def _call(value: Object) -> Part:
    function = child(value, "function") or value
    name = string(function, "name") or ""
    given = next((function[k] for k in ("arguments", "input", "args") if k in function), None)
    return Part("tool_call", arguments(given), name=name, id=string(value, "id"))


def _result(block: Object) -> Part:
    content = block.get("content", block.get("output"))
    result_id = string(block, "tool_use_id") or string(block, "call_id")
    return Part("tool_result", as_text(read_blocks(content)), id=result_id)


def _document_text(block: Object) -> Part | None:
    """The text of a document that is given as text; None for any other block."""
    source = block.get("source")
    if not isinstance(source, dict) or source.get("type") not in ("text", "content"):
        return None
    given = source.get("data", source.get("content"))
    return Part("text", as_text(read_blocks(given)), name="document")


def _bare(block: Object) -> Object:
    """The block without what never reaches the model, a digest for what is not text."""
    kept = {key: value for key, value in block.items() if key not in (*LEFT_OUT, *OPAQUE)}
    opaque = [canonical(block[key]) for key in OPAQUE if block.get(key)]
    return {**kept, "digest": digest(opaque)} if opaque else kept
