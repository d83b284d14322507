"""Streamed responses to the bodies they would have been without streaming.

Takes server-sent events as text, or their JSON objects in order. What it cannot join is left out,
so a stream it does not know gives None.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from mwviz.formats.fields import Json, Object, child, objects, string

TEXTS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""Anthropic's deltas that lengthen a field of their block, by type."""
CHAT_TEXTS = ("content", "reasoning_content", "reasoning", "refusal")


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


def _events(text: str) -> Iterable[Json]:
    for line in text.splitlines():
        data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
        if data and data != "[DONE]":
            try:
                yield json.loads(data)
            except (ValueError, RecursionError):
                continue


def _chat(chunks: list[Object]) -> Object:
    """Deltas of one chat completion joined, choice by choice."""
    response: Object = {}
    choices: dict[Json, Object] = {}
    for chunk in chunks:
        response |= {key: value for key, value in chunk.items() if value is not None}
        for delta in objects(chunk, "choices") or ():
            at = delta.get("index")
            choice = choices.setdefault(at if isinstance(at, int) else 0, {"message": {}})
            _add_choice(choice, delta)
    response["choices"] = list(choices.values())
    return response


def _add_choice(choice: Object, delta: Object) -> None:
    message = choice["message"]
    assert isinstance(message, dict)
    given = child(delta, "delta") or {}
    message.setdefault("role", given.get("role") or "assistant")
    for key in CHAT_TEXTS:
        if text := string(given, key):
            _lengthen(message, key, text)
    for call in objects(given, "tool_calls") or ():
        _add_tool_call(message, call)
    if text := string(delta, "text"):
        _lengthen(choice, "text", text)
    _extend(choice, delta, ("finish_reason", "token_ids", "prompt_token_ids"))
    if told := child(delta, "logprobs"):
        logprobs = choice.setdefault("logprobs", {})
        assert isinstance(logprobs, dict)
        _extend(logprobs, told, tuple(told))


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
    calls = message.setdefault("tool_calls", [])
    assert isinstance(calls, list)
    at = delta.get("index")
    place = at if isinstance(at, int) else len(calls)
    while len(calls) <= min(place, len(calls)):
        calls.append({"function": {}})
    call = calls[min(place, len(calls) - 1)]
    assert isinstance(call, dict)
    function = call["function"]
    assert isinstance(function, dict)
    if name := delta.get("id"):
        call["id"] = name
    given = child(delta, "function") or {}
    for key in ("name", "arguments"):
        if text := string(given, key):
            _lengthen(function, key, text)


def _responses(chunks: list[Object]) -> Object:
    """What came of a Responses stream that was cut: items that ended, and text that did not."""
    response: Object = {}
    items: dict[Json, Object] = {}
    for chunk in chunks:
        at = chunk.get("output_index")
        if given := child(chunk, "response"):
            response |= given
        elif chunk.get("type") == "response.output_item.done" and (item := child(chunk, "item")):
            items[at if isinstance(at, int) else 0] = item
        elif chunk.get("type") == "response.output_text.delta":
            item = items.setdefault(at if isinstance(at, int) else 0, {"role": "assistant"})
            _lengthen(item, "content", string(chunk, "delta") or "")
    response["output"] = [items[at] for at in sorted(items, key=str)]
    return response


def _anthropic(chunks: list[Object]) -> Object:
    """Events of one message joined, block by block."""
    response: Object = {}
    blocks: dict[Json, Object] = {}
    for chunk in chunks:
        at = chunk.get("index")
        key = at if isinstance(at, int) else 0
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
        try:
            block["input"] = json.loads(partial)
        except (ValueError, RecursionError):
            block["input"] = partial
    return block


def _lengthen(place: Object, key: str, text: str) -> None:
    place[key] = (string(place, key) or "") + text
