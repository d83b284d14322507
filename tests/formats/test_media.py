"""What is not text: another picture or file in the same place is another message."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mwviz import load
from mwviz.formats import read
from mwviz.formats.chat import read_block
from mwviz.formats.fields import Object
from mwviz.formats.media import as_text
from mwviz.rollout import Part

PDF = "JVBERi0"


def chat(block: dict[str, Any]) -> bytes:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "see"}, block]},
        {"role": "assistant", "content": "ok"},
    ]
    return json.dumps({"messages": messages}).encode()


def gemini(part: dict[str, Any]) -> bytes:
    records = [
        {"sessionId": "s", "projectHash": "h", "startTime": "2026-01-01T00:00:00Z"},
        {"id": "a", "type": "user", "content": [{"text": "see"}, part]},
        {"id": "b", "type": "gemini", "content": [{"text": "ok"}]},
    ]
    return b"\n".join(json.dumps(record).encode() for record in records)


def gemini_result(part: dict[str, Any]) -> bytes:
    answer = {"functionResponse": {"name": "shot", "id": "t", "response": {"output": "done"}}}
    call = {"id": "t", "name": "shot", "args": {}, "result": [answer, part]}
    records = [
        {"sessionId": "s", "projectHash": "h", "startTime": "2026-01-01T00:00:00Z"},
        {"id": "a", "type": "user", "content": "look"},
        {"id": "b", "type": "gemini", "content": "", "toolCalls": [call]},
        {"id": "c", "type": "gemini", "content": "ok"},
    ]
    return b"\n".join(json.dumps(record).encode() for record in records)


def opencode(file: dict[str, Any], *, attached: bool = False) -> bytes:
    state: dict[str, Any] = {"status": "completed", "input": {}, "output": "out"}
    tool: dict[str, Any] = {
        "id": "p2",
        "type": "tool",
        "tool": "shot",
        "callID": "t",
        "state": state,
    }
    if attached:
        state["attachments"] = [file]
    parts: list[dict[str, Any]] = [{"id": "p0", "type": "text", "text": "see"}]
    parts += [] if attached else [file]
    messages = [
        {"info": info("m0", "user", 1), "parts": parts},
        {"info": info("m1", "assistant", 2), "parts": [tool]},
        {"info": info("m2", "assistant", 3), "parts": [{"id": "p3", "type": "text", "text": "ok"}]},
    ]
    session = {"id": "ses", "time": {"created": 1}}
    return json.dumps({"info": session, "messages": messages}).encode()


def info(name: str, role: str, at: int) -> dict[str, Any]:
    return {"id": name, "sessionID": "ses", "role": role, "time": {"created": at}, "finish": "stop"}


def qwen(item: dict[str, Any]) -> bytes:
    call = {"name": "shot", "arguments": "{}"}
    messages = [
        {"role": "user", "content": [{"text": "see"}, item]},
        {"role": "assistant", "content": "", "function_call": call},
        {"role": "function", "name": "shot", "content": [item]},
        {"role": "assistant", "content": "ok"},
    ]
    return json.dumps(messages).encode()


def file(data: str, mime: str = "application/pdf") -> dict[str, Any]:
    return {"id": "p1", "type": "file", "mime": mime, "url": f"data:{mime};base64,{data}"}


Trace = Callable[[str], bytes]
TRACES: dict[str, Trace] = {
    "anthropic image": lambda d: chat({"type": "image", "source": {"data": d}}),
    "anthropic document": lambda d: chat(
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": d},
        }
    ),
    "anthropic text document": lambda d: chat(
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": d}}
    ),
    "anthropic upload": lambda d: chat({"type": "container_upload", "file_id": d}),
    "openai file": lambda d: chat({"type": "file", "file": {"file_data": d, "filename": "a"}}),
    "openai file by name": lambda d: chat({"type": "file", "file": {"filename": d}}),
    "openai audio": lambda d: chat(
        {"type": "input_audio", "input_audio": {"data": d, "format": "wav"}}
    ),
    "vllm video": lambda d: chat({"type": "video_url", "video_url": {"url": d}}),
    "responses file": lambda d: chat({"type": "input_file", "file_url": f"https://a/{d}"}),
    "langchain image": lambda d: chat({"type": "image", "source_type": "base64", "data": d}),
    "inspect image": lambda d: chat({"type": "image", "image": d}),
    "otel blob": lambda d: chat({"type": "blob", "modality": "audio", "content": d}),
    "unknown block": lambda d: chat({"type": "novel", "source": {"blob": d}}),
    "gemini image": lambda d: gemini({"inlineData": {"mimeType": "image/png", "data": d}}),
    "gemini file": lambda d: gemini({"fileData": {"mimeType": "application/pdf", "fileUri": d}}),
    "gemini result": lambda d: gemini_result({"inlineData": {"mimeType": "image/png", "data": d}}),
    "opencode file": lambda d: opencode(file(d)),
    "opencode image": lambda d: opencode(file(d, "image/png")),
    "opencode attachment": lambda d: opencode(file(d), attached=True),
    "qwen image": lambda d: qwen({"image": d}),
    "qwen file": lambda d: qwen({"file": d}),
    "qwen video": lambda d: qwen({"video": [d, "frame"]}),
}


def keys(data: bytes) -> list[bytes]:
    (rollout,) = read(data).rollouts
    return [m.content_key for call in rollout.calls for m in call.prompt or ()]


@pytest.mark.parametrize("name", TRACES)
def test_another_file_in_the_same_place_is_another_message(name: str) -> None:
    trace = TRACES[name]
    assert keys(trace("AAAA")) == keys(trace("AAAA"))
    assert keys(trace("AAAA")) != keys(trace("AAAB"))


@pytest.mark.parametrize("name", [name for name in TRACES if name != "anthropic text document"])
def test_no_content_of_a_file_is_taken_as_text(name: str) -> None:
    data = "A" * 100
    (rollout,) = read(TRACES[name](data)).rollouts
    assert all(data not in m.text for call in rollout.calls for m in call.prompt or ())


def test_a_placeholder_says_type_and_digest() -> None:
    sound: Object = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    plain: Object = {"type": "document", "source": {"media_type": "application/pdf"}}
    assert read_block(sound) == Part("file", "", name="audio/wav 9c1c04db")
    assert read_block(plain) == Part("file", "", name="application/pdf")
    picture: Object = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert read_block(picture) == Part("image", "", name="image/png 9c1c04db")
    assert as_text([read_block(picture), Part("text", "")]) == "[image/png 9c1c04db]\n"


def test_a_document_given_as_text_is_text() -> None:
    source: Object = {"type": "text", "media_type": "text/plain", "data": "line"}
    blocks: Object = {"type": "content", "content": [{"type": "text", "text": "line"}]}
    for given in (source, blocks):
        part = read_block({"type": "document", "source": given})
        assert part == Part("text", "line", name="document")


def test_files_are_counted_as_what_has_no_tokens() -> None:
    block = {"type": "document", "source": {"data": PDF, "media_type": "application/pdf"}}
    (analysis,) = load(chat(block)).analyses
    assert any(text.startswith("1 images or files") for text in analysis.encoding.warnings)
