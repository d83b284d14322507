"""Exchanges with a Responses endpoint to calls: items to messages, earlier responses joined.

A request may name the response it continues instead of repeating it; the chain is joined where the
log holds that response. Compaction items are opaque: they stand as what they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mwviz.formats.calls import read_generic
from mwviz.formats.chat import Pool, arguments, read_blocks, read_message
from mwviz.formats.exchange import Exchange
from mwviz.formats.fields import FieldError, Json, Object, child, label, number, objects, shown
from mwviz.formats.fields import string as text
from mwviz.formats.media import as_text, media_part
from mwviz.rollout import Call, ContentFidelity, Hole, Message, Part

COMPACTIONS = ("compaction", "compaction_summary", "context_compaction")
REFERENCE = "item_reference"
COMPACTED = (
    "a compaction item stands in the prompt: its text is encrypted, and the server may leave out "
    "what stands before it"
)
UNKNOWN_ITEM = "an item of the prompt is named only, and the log does not hold it"
MISSING = "it continues a response that is not in the log: its prompt lacks what came before"


class Chains:
    """The contexts that responses ended with, by response id, and items by theirs."""

    def __init__(self) -> None:
        self._ended: dict[str, tuple[Message, ...]] = {}
        self._items: dict[str, Message] = {}
        self._lacking: set[str] = set()
        """Responses whose context the log does not hold as a whole."""

    def calls(self, found: Exchange, pool: Pool) -> Iterator[tuple[Call, tuple[str, ...]]]:
        """The one call of the exchange, with what the log leaves open about it."""
        request, response = found.request, found.response
        before = text(request, "previous_response_id")
        earlier = self._ended.get(before) if before else ()
        given = self._read(request.get("input"), found.line, pool)
        answer = self._read(response.get("output"), found.line, pool, role="assistant")
        conversation = (*(earlier or ()), *given)
        name = label(response, "id") or ""
        missing = earlier is None or before in self._lacking or "conversation" in request
        if name:
            self.restore(name, (*conversation, *answer), whole=not missing)
        header: Object = {"messages": [], "tools": request.get("tools")}
        if instructions := request.get("instructions"):
            header["system"] = instructions
        call = read_generic({**header, **_facts(found, name)}, found.line, pool)
        doubts = _doubts(conversation, missing=missing)
        yield (
            replace(
                call,
                prompt=(*(call.prompt or ()), *conversation),
                completion=answer or None,
                content=_fidelity(doubts),
                holes=(Hole("an earlier response"),) if MISSING in doubts else (),
            ),
            doubts,
        )

    def holds(self, name: str) -> bool:
        """Whether the context that a response ended with is known."""
        return name in self._ended

    def restore(self, name: str, context: tuple[Message, ...], *, whole: bool) -> None:
        """Notes the context that a response ended with, and whether nothing of it is missing."""
        self._ended[name] = context
        if not whole:
            self._lacking.add(name)

    def heading(self, call: Call) -> int | None:
        """Messages before the conversation of a call; None if no response can continue it."""
        if call.id not in self._ended:
            return None
        whole = len(call.prompt or ()) + len(call.completion or ())
        return whole - len(self._ended[call.id])

    def _read(
        self, value: Json, line: int, pool: Pool, *, role: str | None = None
    ) -> tuple[Message, ...]:
        if value is None:
            return ()
        if isinstance(value, str):
            return (pool(Message(role or "user", (Part("text", value),), line=line)),)
        return tuple(
            pool(self._item(item, line, role)) for item in objects({"items": value}, "items") or []
        )

    def _item(self, item: Object, line: int, role: str | None) -> Message:
        name = label(item, "id")
        if item.get("type") == REFERENCE:
            return self._items.get(name or "") or Message(
                "user", (Part("other", "", name=REFERENCE, id=name),), line=line
            )
        read = read_item(item, line, role=role)
        if name:
            self._items[name] = read
        return read


def _facts(found: Exchange, name: str) -> Object:
    request, response = found.request, found.response
    status = text(response, "status")
    return {
        "call": name,
        "usage": child(response, "usage"),
        "temperature": number(request, "temperature"),
        "model": text(response, "model") or text(request, "model"),
        "time": number(response, "created_at"),
        "finish": "error" if response.get("error") else status,
    }


def _doubts(conversation: tuple[Message, ...], *, missing: bool) -> tuple[str, ...]:
    opaque = any(part.name in COMPACTIONS for m in conversation for part in m.parts)
    named = any(part.name == REFERENCE for m in conversation for part in m.parts)
    return (
        *((COMPACTED,) if opaque else ()),
        *((MISSING,) if missing else ()),
        *((UNKNOWN_ITEM,) if named else ()),
    )


def _fidelity(doubts: tuple[str, ...]) -> ContentFidelity:
    if COMPACTED in doubts:
        return "unknown"
    return "partial" if doubts else "exact"


def read_item(item: Object, line: int | None, *, role: str | None = None) -> Message:
    """One item of an input or output list as a message of its own.

    Raises:
        FieldError: It is of no shape that such a list holds.
    """
    kind = text(item, "type") or "message"
    if kind == "message":
        return read_message(item, line=line, role=role)
    if kind == REFERENCE:
        raise FieldError(f"an item refers to {shown(item.get('id'))}, expected the item itself")
    return Message(_role(kind), (_part(item, kind),), line=line)


def _role(kind: str) -> str:
    return "tool" if kind.endswith("_output") else "assistant"


def _part(item: Object, kind: str) -> Part:
    call_id = text(item, "call_id") or text(item, "id")
    if kind.endswith("_output"):
        given = item.get("output")
        came = as_text(read_blocks([given] if isinstance(given, dict) else given))
        return Part("tool_result", came, id=call_id)
    if kind == "image_generation_call":
        return media_part({"type": "image", "data": item.get("result")})
    if kind == "reasoning":
        blocks = (objects(item, "content") or []) + (objects(item, "summary") or [])
        return Part("reasoning", "\n".join(text(block, "text") or "" for block in blocks))
    if kind.endswith("_call"):
        name = text(item, "name") or kind.removesuffix("_call")
        given = next((item[k] for k in ("arguments", "input", "action") if k in item), None)
        return Part("tool_call", arguments(given), name=name, id=call_id)
    return Part("other", "", name=kind, id=text(item, "id"))
