"""A rollout's calls as a model's own chat template renders them.

Each call is rendered by itself, so its tokens are what that call would be sent, whatever the
template did to the calls before. Contexts are compared as messages, so a branch that the template
makes out of unchanged messages is no eviction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mwviz.cutter import Cutter, Longs
from mwviz.encoding import CallTokens, Encoding
from mwviz.prefix import common_start
from mwviz.rendering import block, distinct, kind, placeholders
from mwviz.rollout import Call, Message, Part, Rollout, Span
from mwviz.templates import probe, render, said
from mwviz.tokenizer import Vocabulary

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CUT = ("length", "max_tokens", "max_output_tokens")
"""Reasons to finish after which no end of turn was sampled."""
GIVEN = {
    "reasoning_dropped": "; it is given as text",
    "tool_calls_dropped": "; they are given as text",
    "tool_calls_refused": "; they are given as text",
    "tools_dropped": "; it is given as text of the system message",
}
"""What is done about a trap, so that nothing the model was sent is missing."""
NEEDLE = 200
"""Characters of a message by which it is found in the rendered text."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a template leaves out, so that it is given as text instead."""

    calls: bool
    reasoning: bool
    tools: bool


def templated(
    rollout: Rollout,
    tokenizer: PreTrainedTokenizerBase,
    name: str,
    pieces: Vocabulary | None = None,
) -> Encoding:
    """All calls as the model's template renders them.

    Tool calls that the template would drop are written into the content, images are placeholders.

    Args:
        rollout: every call must have messages.
        tokenizer: the model's, with a chat template.
        name: of the tokenizer.
        pieces: texts of its tokens.

    Raises:
        RefusedError: The template does not take one of the calls.
    """
    traps = {trap.name: trap for trap in probe(tokenizer)}
    messages = distinct(rollout.calls)
    taken = _Taken(
        calls="tool_calls_dropped" not in traps and "tool_calls_refused" not in traps,
        reasoning="reasoning_dropped" not in traps,
        tools="tools_dropped" not in traps,
    )
    concern = _concerns(rollout, messages, tokenizer)
    cutter = Cutter(tokenizer)
    calls = tuple(_call(call, cutter, taken) for call in rollout.calls)
    warnings = tuple(
        f"the chat template of {name}: {trap.what} ({trap.name}){GIVEN.get(trap.name, '')}"
        for trap in traps.values()
        if concern.get(trap.name, True)
    )
    warnings += placeholders(messages)
    return Encoding(calls, name, f"template of {name}", warnings, pieces=pieces)


def _concerns(
    rollout: Rollout, messages: Sequence[Message], tokenizer: PreTrainedTokenizerBase
) -> dict[str, bool]:
    """Whether the rollout holds what a trap is about; traps that are not named concern all."""
    parts = [part for message in messages for part in message.parts]
    kinds = {part.kind for part in parts}
    specials = [special for special in tokenizer.all_special_tokens if special]
    prompts = [call.prompt for call in rollout.calls if call.prompt]
    called = "tool_call" in kinds
    return {
        "thinking_strip": "reasoning" in kinds,
        "reasoning_dropped": "reasoning" in kinds,
        "tool_calls_dropped": called,
        "tool_calls_refused": called,
        "tools_dropped": any(map(_offers, messages)),
        "content_none": False,
        "system_injection": any(prompt[0].role != "system" for prompt in prompts),
        "special_tokens": any(special in part.text for part in parts for special in specials),
    }


def _call(call: Call, cutter: Cutter, taken: _Taken) -> CallTokens:
    tokenizer = cutter.tokenizer
    prompt, completion = list(call.prompt or ()), list(call.completion or ())
    tools = _tools(prompt) if taken.tools else None
    chat = [_dict(message, taken) for message in prompt if not _offers(message)]
    offered = [message.text for message in prompt if _offers(message)]
    if offered and tools is None:
        if not (chat and chat[0]["role"] == "system"):
            chat.insert(0, said("system", ""))
        chat[0]["content"] = "\n".join((*offered, chat[0]["content"])).rstrip("\n")
    asked = render(tokenizer, chat, opened=bool(completion), tools=tools)
    answer = ""
    if completion:
        chat += [_dict(message, taken) for message in completion]
        answer = _answer(asked, render(tokenizer, chat, tools=tools), tokenizer, call)
    told, sampled = cutter.cut(asked), cutter.cut(answer).ids
    spans = _spans(asked, told.starts, [m for m in prompt if not _offers(m)], tokenizer)
    size = len(told.starts)
    if completion and len(sampled):
        first = completion[0]
        start = spans[-1].end if spans else 0
        spans.append(Span(start, size + len(sampled), _identity(first), first.role, kind(first)))
    return CallTokens(told.pieces, sampled, tuple(spans))


def _answer(asked: str, whole: str, tokenizer: PreTrainedTokenizerBase, call: Call) -> str:
    """What the model sampled, in the template's words; without an end that it never sampled."""
    shared = len(asked) if whole.startswith(asked) else common_start(asked, whole)
    text = whole[shared:]
    ends = max(
        (
            text.rfind(special) + len(special)
            for special in tokenizer.all_special_tokens
            if special in text
        ),
        default=len(text),
    )
    if text[ends:].strip():
        ends = len(text)
    text = text[:ends]
    if call.finish in CUT:
        for special in tokenizer.all_special_tokens:
            text = text.removesuffix(special)
    return text


def _spans(
    text: str, starts: Longs, messages: Sequence[Message], tokenizer: PreTrainedTokenizerBase
) -> list[Span]:
    """Where each message stands; one that the template left out has no span."""
    places: list[tuple[int, int, Message]] = []
    at = 0
    for message in messages:
        needle = next((p.text.strip()[:NEEDLE] for p in message.parts if p.text.strip()), "")
        found = text.find(needle, at) if needle else -1
        if found < 0:
            continue
        border = _border(text, at, found, tokenizer)
        places.append((border, found, message))
        at = found + len(needle)
    spans: list[Span] = []
    for index, (border, _, message) in enumerate(places):
        last = index + 1 == len(places)
        end = (
            _border(text, places[index][1], len(text), tokenizer) if last else places[index + 1][0]
        )
        first, past = np.searchsorted(starts, [border if index else 0, end])
        if first < past:
            spans.append(
                Span(int(first), int(past), _identity(message), message.role, kind(message))
            )
    return spans


def _border(text: str, start: int, end: int, tokenizer: PreTrainedTokenizerBase) -> int:
    """Where the header of what stands at `end` begins: its last special token with what it ends."""
    between = text[start:end]
    found = [
        start + at
        for special in tokenizer.all_special_tokens
        if special and (at := between.rfind(special)) >= 0
    ]
    return max(found, default=end)


def _identity(message: Message) -> str:
    return message.id or message.content_key.hex()


def _offers(message: Message) -> bool:
    """Whether the message is the list of tools of its request."""
    return bool(message.parts) and all(part.name == "tools" for part in message.parts)


def _tools(messages: Sequence[Message]) -> Any:
    """The tools in the shape that templates take; None if none are offered."""
    texts = [m.parts[0].text for m in messages if _offers(m)]
    if not texts:
        return None
    try:
        tools = json.loads(texts[0])
    except ValueError:
        return None
    if not isinstance(tools, list):
        return None
    return [
        tool
        if isinstance(tool, dict) and "function" in tool
        else {"type": "function", "function": _function(tool)}
        for tool in tools
    ]


def _function(tool: Any) -> Any:
    if isinstance(tool, dict) and "input_schema" in tool:
        rest = {key: value for key, value in tool.items() if key != "input_schema"}
        return {**rest, "parameters": tool["input_schema"]}
    return tool


def _dict(message: Message, taken: _Taken) -> dict[str, Any]:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    for part in message.parts:
        if part.kind == "reasoning" and taken.reasoning:
            thoughts.append(part.text)
        elif part.kind == "tool_call" and taken.calls:
            calls.append(_tool_call(part))
        else:
            texts.append(block(part))
    found = said(message.role, "\n".join(texts))
    if thoughts:
        found["reasoning_content"] = "\n".join(thoughts)
    if calls:
        found["tool_calls"] = calls
    if message.name:
        found["name"] = message.name
    return found


def _tool_call(part: Part) -> dict[str, Any]:
    try:
        arguments = json.loads(part.text)
    except ValueError:
        arguments = part.text
    called = {"name": part.name or "", "arguments": arguments}
    return {"type": "function", "id": part.id or "", "function": called}
