"""Streamed responses to the bodies they would have been without streaming.

Takes server-sent events as text, or their JSON objects in order. What it cannot join is left out,
so a stream it does not know gives None.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from mwviz.formats.fields import Json, Object, child, decoded, objects, string

TEXTS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "compaction_delta": "content",
}
"""Anthropic's deltas that lengthen a field of their block, by type."""
CHAT_TEXTS = ("reasoning_content", "reasoning", "refusal")
RESPONSE_TEXTS = {
    "response.output_text.delta": ("message", "content"),
    "response.function_call_arguments.delta": ("function_call", "arguments"),
    "response.reasoning_summary_text.delta": ("reasoning", "content"),
    "response.reasoning_text.delta": ("reasoning", "content"),
}
"""The kind of item and its field that a delta of a Responses stream lengthens, by type."""
LINE_END = re.compile(r"\r\n|\n|\r")
"""What ends a line of an event stream; other separators may stand in the text of its JSON."""


def assembled(stream: str | list[Json]) -> Object | None:
    """The whole response of a stream of OpenAI or Anthropic; None if it is neither."""
    events = _events(stream) if isinstance(stream, str) else stream
    chunks = [event for event in events if isinstance(event, dict)]
    finished = [c for c in chunks if c.get("type") in ("response.completed", "response.incomplete")]
    if finished:
        return child(finished[-1], "response")
    if any(chunk.get("type") == "response.created" for chunk in chunks):
        return _responses(chunks)
    if any(chunk.get("type") == "message_start" for chunk in chunks):
        return _anthropic(chunks)
    if any("choices" in chunk for chunk in chunks):
        return _chat(chunks)
    return None


def _events(text: str) -> Iterator[Json]:
    """The JSON of each event; data that stands on several lines is one value or one a line."""
    held: list[str] = []
    for line in (*LINE_END.split(text), ""):
        if line.startswith("data:"):
            held.append(line.removeprefix("data:").strip())
        elif not line and held:
            whole = list(_values(["\n".join(held)]))
            yield from whole or _values(held)
            held = []


def _values(texts: Iterable[str]) -> Iterator[Json]:
    for text in texts:
        if text and text != "[DONE]":
            try:
                yield json.loads(text)
            except (ValueError, RecursionError):
                continue


def _chat(chunks: list[Object]) -> Object:
    """Deltas of one chat completion joined, choice by choice, in order of their index."""
    response: Object = {}
    choices: dict[int, Object] = {}
    for chunk in chunks:
        response |= {key: value for key, value in chunk.items() if value is not None}
        for delta in objects(chunk, "choices") or ():
            at = _place(delta, "index")
            _add_choice(choices.setdefault(at, {"index": at, "message": {}}), delta)
    response["choices"] = [choices[at] for at in sorted(choices)]
    return response


def _place(value: Object, key: str) -> int:
    at = value.get(key)
    return at if isinstance(at, int) else 0


def _add_choice(choice: Object, delta: Object) -> None:
    message = choice["message"]
    assert isinstance(message, dict)
    given = child(delta, "delta") or {}
    message.setdefault("role", given.get("role") or "assistant")
    _add_content(message, given.get("content"))
    for key in CHAT_TEXTS:
        if text := string(given, key):
            _lengthen(message, key, text)
    for call in objects(given, "tool_calls") or ():
        _add_tool_call(message, call)
    if legacy := child(given, "function_call"):
        _add_function(_child_of(message, "function_call"), legacy)
    if audio := child(given, "audio"):
        _lengthen(_child_of(message, "audio"), "transcript", string(audio, "transcript") or "")
    if text := string(delta, "text"):
        _lengthen(choice, "text", text)
    _extend(choice, delta, ("finish_reason", "token_ids", "prompt_token_ids"))
    if told := child(delta, "logprobs"):
        _extend(_child_of(choice, "logprobs"), told, tuple(told))


def _child_of(place: Object, key: str) -> Object:
    """The object under the key, made if it is missing."""
    found = place.setdefault(key, {})
    assert isinstance(found, dict)
    return found


def _add_content(message: Object, given: Json) -> None:
    """Lengthens the content by text, or by blocks where a provider streams these."""
    before = message.get("content")
    if isinstance(given, str) and not isinstance(before, list):
        if given:
            message["content"] = (before if isinstance(before, str) else "") + given
        return
    if not given:
        return
    blocks: list[Json] = [{"type": "text", "text": before}] if isinstance(before, str) else []
    if isinstance(before, list):
        blocks = before
    added: list[Json] = given if isinstance(given, list) else [{"type": "text", "text": given}]
    for block in added:
        last = blocks[-1] if blocks else None
        if isinstance(last, dict) and isinstance(block, dict):
            kind = last.get("type")
            if kind in ("text", "thinking") and kind == block.get("type"):
                key = str(kind)
                last[key] = _plain(last.get(key)) + _plain(block.get(key))
                continue
        blocks.append(block)
    message["content"] = blocks


def _plain(value: Json) -> str:
    """The text of a block's field: itself, or that of the blocks in it."""
    if isinstance(value, list):
        return "".join(_plain(block.get("text")) for block in value if isinstance(block, dict))
    return value if isinstance(value, str) else ""


def _extend(place: Object, delta: Object, keys: Iterable[str]) -> None:
    """Joins lists; of anything else the last one counts."""
    for key in keys:
        value = delta.get(key)
        before = place.get(key)
        if isinstance(value, list) and isinstance(before, list):
            place[key] = before + value
        elif value is not None:
            place[key] = value


def _add_tool_call(message: Object, delta: Object) -> None:
    """Lengthens the last call of this index; a new index or another id begins a call."""
    calls = message.setdefault("tool_calls", [])
    assert isinstance(calls, list)
    at, name = delta.get("index"), delta.get("id")
    call = _open_call(calls, at, name)
    if call is None:
        call = {"index": at, "function": {}}
        calls.append(call)
    if name:
        call["id"] = name
    _add_function(_child_of(call, "function"), child(delta, "function") or {})


def _open_call(calls: list[Json], at: Json, name: Json) -> Object | None:
    for call in reversed(calls):
        assert isinstance(call, dict)
        if at is None or call.get("index") == at:
            other = bool(name) and call.get("id") not in (None, name)
            return None if other else call
    return None


def _add_function(function: Object, given: Object) -> None:
    for key in ("name", "arguments"):
        if text := string(given, key):
            _lengthen(function, key, text)


def _responses(chunks: list[Object]) -> Object:
    """What came of a Responses stream that was cut: items that ended, and text that did not."""
    response: Object = {}
    items: dict[int, Object] = {}
    for chunk in chunks:
        at = _place(chunk, "output_index")
        kind = chunk.get("type")
        if given := child(chunk, "response"):
            response |= given
        elif kind == "error":
            response["error"] = {key: chunk.get(key) for key in ("code", "message")}
        elif kind == "response.output_item.done" and (item := child(chunk, "item")):
            items[at] = item
        elif kind == "response.output_item.added" and (item := child(chunk, "item")):
            named: Object = {
                key: item[key] for key in ("type", "id", "name", "call_id") if key in item
            }
            items.setdefault(at, named)
        elif isinstance(kind, str) and kind in RESPONSE_TEXTS:
            item_kind, key = RESPONSE_TEXTS[kind]
            item = items.setdefault(at, {"type": item_kind})
            _lengthen(item, key, string(chunk, "delta") or "")
    response["output"] = [_role_given(items[at]) for at in sorted(items)]
    return response


def _role_given(item: Object) -> Object:
    if item.get("type") == "reasoning" and isinstance(item.get("content"), str):
        return {**item, "content": [{"type": "reasoning_text", "text": item["content"]}]}
    return {"role": "assistant", **item} if item.get("type") == "message" else item


def _anthropic(chunks: list[Object]) -> Object:
    """Events of one message joined, block by block."""
    response: Object = {}
    blocks: dict[Json, Object] = {}
    for chunk in chunks:
        key = _place(chunk, "index")
        if chunk.get("type") == "message_start":
            response |= child(chunk, "message") or {}
        elif chunk.get("type") == "content_block_start":
            blocks[key] = dict(child(chunk, "content_block") or {})
        elif chunk.get("type") == "content_block_delta":
            _add_delta(blocks.setdefault(key, {"type": "text"}), child(chunk, "delta") or {})
        elif chunk.get("type") == "message_delta":
            response |= child(chunk, "delta") or {}
            usage = (child(response, "usage") or {}) | (child(chunk, "usage") or {})
            response["usage"] = usage
            if "context_management" in chunk:
                response["context_management"] = chunk["context_management"]
        elif chunk.get("type") == "error":
            response["error"] = chunk.get("error")
    response["content"] = [_finished(block) for block in blocks.values()]
    return response


def _add_delta(block: Object, delta: Object) -> None:
    kind = delta.get("type")
    if kind == "input_json_delta":
        _lengthen(block, "partial_json", string(delta, "partial_json") or "")
    elif isinstance(kind, str) and kind in TEXTS:
        key = TEXTS[kind]
        _lengthen(block, key, string(delta, key) or "")


def _finished(block: Object) -> Object:
    partial = block.pop("partial_json", None)
    if isinstance(partial, str) and partial:
        block["input"] = decoded(partial)
    return block


def _lengthen(place: Object, key: str, text: str) -> None:
    place[key] = (string(place, key) or "") + text
