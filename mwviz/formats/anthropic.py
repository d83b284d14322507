"""One exchange with Anthropic's messages endpoint to a call.

Edits of the context that the server makes after the request are told, not imitated: the prompt is
shown as it was sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mwviz.formats.calls import read_generic
from mwviz.formats.chat import Pool
from mwviz.formats.exchange import Exchange
from mwviz.formats.fields import Object, child, count, label, objects
from mwviz.formats.fields import string as text
from mwviz.rollout import Call, Message

COMPACTION = "compaction"
COMPACTED = (
    "a compaction block stands in the prompt: the server leaves out what stands before it, the "
    "prompt is shown as sent"
)
CLEARED = ("cleared_input_tokens", "cleared_tool_uses", "cleared_thinking_turns")


def anthropic_calls(found: Exchange, pool: Pool) -> Iterator[tuple[Call, tuple[str, ...]]]:
    """The one call of the exchange, with what the server did to its prompt."""
    request, response = found.request, found.response
    failed = response.get("type") == "error" or "content" not in response
    call = read_generic(
        {
            "call": label(response, "id") or "",
            "messages": request.get("messages"),
            "system": request.get("system"),
            "tools": request.get("tools"),
            "completion": None if failed else _answer(response),
            "usage": response.get("usage"),
            "temperature": request.get("temperature"),
            "model": text(response, "model") or text(request, "model"),
            "finish": "error" if failed or "error" in response else text(response, "stop_reason"),
        },
        found.line,
        pool,
    )
    doubts = (*_edits(response), *_compaction(call.prompt or ()))
    yield replace(call, content="unknown" if doubts else "exact"), doubts


def _answer(response: Object) -> Object:
    return {"role": "assistant", "content": response.get("content")}


def _edits(response: Object) -> Iterator[str]:
    managed = child(response, "context_management") or {}
    for edit in objects(managed, "applied_edits") or ():
        sizes = {key: found for key in CLEARED if (found := count(edit, key))}
        if sizes:
            what = ", ".join(f"{key} {size:,}" for key, size in sizes.items())
            yield f"the server edited the prompt after it was sent ({what}): it is shown as sent"


def _compaction(prompt: Sequence[Message]) -> tuple[str, ...]:
    opaque = any(part.name == COMPACTION for message in prompt for part in message.parts)
    return (COMPACTED,) if opaque else ()
