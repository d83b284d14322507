"""Message lists of Qwen-Agent to rollouts, each taken as if nothing had been cut.

Qwen-Agent shortens a copy of its messages inside the model class, so a saved list bears no trace of
it: contexts are unknown wherever they may have been longer than the limit. What one reply sampled
stands in several assistant messages in a row.

The truncation can be worked out again if its limit and the tokenizer are given (`qwen_truncation`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from mwviz.formats.chat import ROLES, arguments, canonical
from mwviz.formats.fields import FieldError, Json, Object, child, shown, string
from mwviz.formats.media import as_text, placeholder
from mwviz.formats.messages import message_list
from mwviz.formats.qwen_truncation import (
    VERSION,
    ImpossibleError,
    Kept,
    Spoken,
    Truncation,
    shortened,
)
from mwviz.formats.records import Record, Records
from mwviz.formats.replay import Replay, merged
from mwviz.rollout import Call, Hole, Message, Part, Rollout

FLAT = "chat"
"""Id of the rollout of a file with one message a line."""
TOOLS = "tool list is not in the file"
CUT = "whether the harness shortened this prompt is not in the file"
RECOMPUTED = (
    "prompts are cut to {} tokens by the rule of {}: another limit, tokenizer or version cuts "
    "otherwise"
)
REFUSED = "under that limit the harness refuses {} of the calls: their prompts are left whole"
UNCOUNTED = "prompts were not cut: a message holds media, whose names its harness counts too"
MEDIA = ("image", "file", "audio", "video")
"""Kinds of content item that are not text."""
OWN = ("extra", "reasoning_content")
"""Fields by which its messages differ from other chats with function calls."""


def detects(head: Sequence[Record]) -> bool:
    """Whether function calls stand among messages with fields or content items of its own."""
    values = [value for record in head for value in message_list(record.value) or [record.value]]
    messages = [v for v in values if isinstance(v, dict) and isinstance(v.get("role"), str)]
    calls = any(m["role"] == "function" or "function_call" in m for m in messages)
    return calls and any(_is_own(message) for message in messages)


def _is_own(message: Object) -> bool:
    content = message.get("content")
    items = content if isinstance(content, list) else []
    bare = any(isinstance(item, dict) and "type" not in item for item in items)
    return bare or any(key in message for key in OWN)


def reads(records: Records, *, truncation: Truncation | None = None) -> list[Rollout]:
    """One rollout for each list; all lines with a single message together make one.

    Args:
        records: of the trace file.
        truncation: the limit under which its harness cut the lists, to be worked out again.
    """
    chats: dict[str, list[_Item]] = {}
    for record in records:
        listed = message_list(record.value)
        name = FLAT if listed is None else f"{FLAT}-{len(chats)}"
        chat = chats.setdefault(name, [])
        values = [record.value] if listed is None else listed
        for value in values:
            try:
                chat.append(_Item(_message(value, record.line), _spoken(value)))
            except FieldError as error:
                kept = "the other messages" if len(values) > 1 else "nothing"
                records.drop(record, str(error), kept)
    whole = {name: _rollout(name, [item.message for item in chat]) for name, chat in chats.items()}
    if truncation is None:
        return list(whole.values())
    return [_cut(rollout, chats[name], truncation) for name, rollout in whole.items()]


class _Item(NamedTuple):
    message: Message
    spoken: Spoken | None
    """As the truncation sees it; None if it holds media."""


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


def _cut(rollout: Rollout, chat: list[_Item], truncation: Truncation) -> Rollout:
    """The rollout with the prompts that its harness made of the list under a limit."""
    spoken = [item.spoken for item in chat if item.spoken is not None]
    if len(spoken) < len(chat):
        return replace(rollout, warnings=(*rollout.warnings, UNCOUNTED))
    starts = [
        at
        for at, item in enumerate(chat)
        if item.message.role == "assistant"
        and (at == 0 or chat[at - 1].message.role != "assistant")
    ]
    calls: list[Call] = []
    refused = 0
    for call, at in zip(rollout.calls, starts, strict=True):
        try:
            kept = shortened(spoken[:at], truncation)
        except ImpossibleError:
            refused += 1
            calls.append(replace(call, content="unknown"))
            continue
        calls.append(replace(call, prompt=tuple(_sent(chat, kept)), holes=(Hole(TOOLS),)))
    doubts = [RECOMPUTED.format(truncation.limit, VERSION)]
    doubts += [REFUSED.format(refused)] if refused else []
    return replace(rollout, calls=tuple(calls), warnings=(*rollout.warnings, *doubts))


def _sent(chat: list[_Item], kept: list[Kept]) -> Iterator[Message]:
    """The messages of a prompt, pieces of one reply together."""
    messages = [_changed(chat[k.at].message, k) for k in kept]
    for replied, group in groupby(messages, key=lambda message: message.role == "assistant"):
        pieces = list(group)
        yield from [merged(pieces)] if replied else pieces


def _changed(message: Message, kept: Kept) -> Message:
    if kept.text is None:
        return message
    texts: tuple[Part, ...]
    if message.role == "tool":
        texts = (replace(message.parts[0], text=kept.text),)
    else:
        texts = (Part("text", kept.text),) if kept.text else ()
    calls = () if kept.bare else tuple(p for p in message.parts if p.kind == "tool_call")
    name = None if kept.bare else message.name
    return replace(message, parts=(*texts, *calls), name=name, mark="placeholder")


def _spoken(value: Json) -> Spoken | None:
    """The message as its harness counts and cuts it."""
    if not isinstance(value, dict):
        return None
    role, content = string(value, "role") or "", value.get("content")
    items = content if isinstance(content, list) else [{"text": content}]
    texts = [item.get("text") or "" for item in items if isinstance(item, dict)]
    if any(isinstance(item, dict) and any(item.get(kind) for kind in MEDIA) for item in items):
        return None
    parts = [text for text in texts if isinstance(text, str)]
    called = child(value, "function_call") if role == "assistant" else None
    counted = "".join(parts).strip()
    if called:
        counted = str({"name": called.get("name"), "arguments": called.get("arguments")})
    return Spoken(role, "\n".join(parts), counted)


def _message(value: Json, line: int) -> Message:
    if not isinstance(value, dict):
        raise FieldError(f"{shown(value)}, expected a message object")
    role = string(value, "role")
    if role is None:
        raise FieldError("a message has no role, expected user, assistant, system or function")
    texts = _parts(value.get("content"))
    if role == "function":
        name, text = string(value, "name"), as_text(texts) if texts else ""
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
        if text is None and not any(kind in item for kind in MEDIA):
            found.append(Part("other", canonical(item), name=next(iter(item), "item")))
            continue
        media = next((kind for kind in MEDIA if item.get(kind)), None)
        found.append(Part("text", text or "") if media is None else placeholder(media, item))
    return found
