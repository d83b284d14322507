"""Messages to text by one neutral rule, `neutral/1`: a role header, then each block.

It is no model's chat template: it serves the structure of logs that hold messages only. Each
message is a text of its own, so that equal messages give equal tokens wherever they stand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from mwviz.rollout import Call, Message, Part
from mwviz.sharing import begins

NEUTRAL = "neutral/1"
"""Name of the rule."""
RECORDED = "recorded"
"""Name for ids that the log holds itself: nothing was rendered."""
RENDERED = "rendered"
"""Name for ids that the log holds itself, but that it says were rendered from messages."""
KINDS = {"system": "system", "tool": "tool_output", "assistant": "act"}
"""What a message of a role is, where the log says nothing."""


def header(message: Message) -> str:
    """What stands in front of a message; for an assistant's it is the generation prompt."""
    name = message.name if message.name and message.role != "assistant" else None
    return _encodable(f"[{message.role} {name}]\n" if name else f"[{message.role}]\n")


def body(message: Message) -> str:
    """The blocks of a message, a line end between two."""
    return _encodable("\n".join(block(part) for part in message.parts))


def kind(message: Message) -> str:
    """What the message is: by its mark, its blocks or its role; "" if nothing tells."""
    if message.mark:
        return message.mark
    if message.parts and all(part.kind == "reasoning" for part in message.parts):
        return "reasoning"
    return KINDS.get(message.role, "")


def block(part: Part) -> str:
    """One block as text; what is not text is a placeholder in square brackets."""
    if part.kind == "tool_call":
        return f'{{"arguments":{part.text},"name":{json.dumps(part.name, ensure_ascii=False)}}}'
    if part.text or part.kind not in ("image", "file", "other"):
        return part.text
    return f"[{part.name or part.kind}]"


def placeholders(messages: Iterable[Message]) -> tuple[str, ...]:
    """A warning if messages hold what no text stands for."""
    parts = [part for message in messages for part in message.parts]
    unread = sum(part.kind in ("image", "file") and not part.text for part in parts)
    if not unread:
        return ()
    return (
        f"{unread} images or files stand as a placeholder each: their own tokens are in no count",
    )


def distinct(calls: Sequence[Call]) -> list[Message]:
    """Message objects in order of their first appearance; repeated prompts are not walked again."""
    found: dict[int, Message] = {}
    latest: dict[str | None, Sequence[Message]] = {}
    for call in calls:
        prompt = call.prompt or ()
        before = latest.get(call.lineage, ())
        new = prompt[len(before) :] if begins(prompt, before) else prompt
        for message in (*new, *(call.completion or ())):
            found.setdefault(id(message), message)
        latest[call.lineage] = prompt
    return list(found.values())


def _encodable(text: str) -> str:
    """The text with unpaired surrogates replaced, which no tokenizer takes."""
    return text.encode("utf-8", "replace").decode("utf-8")
