"""Messages of one Inspect sample: a pool that events refer to, large texts kept as attachments."""

from __future__ import annotations

import re
from dataclasses import replace

from mwviz.formats.chat import Pool, read_message
from mwviz.formats.fields import FieldError, Json, Object, child, members, objects, shown
from mwviz.formats.fields import string as text
from mwviz.rollout import Message, Part

ATTACHMENT = re.compile(r"attachment://(?P<name>[0-9a-zA-Z]+)")
RANGE = 2
"""First and behind-last place of a run of messages in the pool."""


class SamplePool:
    """What one sample's events refer to."""

    def __init__(self, sample: Object, line: int, pool: Pool) -> None:
        self._attachments = child(sample, "attachments") or {}
        self._pooled = objects(child(sample, "events_data") or {}, "messages") or []
        self._read: dict[int, Message] = {}
        self._line, self._pool = line, pool

    def prompt(self, event: Object) -> tuple[Message, ...]:
        """The messages that a model event was sent, by reference or in full.

        Raises:
            FieldError: It refers to what is not in the pool.
        """
        if event.get("input_refs") is None:
            return tuple(self.message(value) for value in objects(event, "input") or ())
        found: list[Message] = []
        for given in members(event, "input_refs") or ():
            start, end = _range(given, len(self._pooled))
            found.extend(self._at(place) for place in range(start, end))
        return tuple(found)

    def message(self, value: Object) -> Message:
        """One message with its attachments put back."""
        whole = self._whole(value)
        if not isinstance(whole, dict):
            raise FieldError(f"{shown(whole)}, expected a message object")
        return self._pool(_read(whole, self._line))

    def _at(self, place: int) -> Message:
        if place not in self._read:
            self._read[place] = self.message(self._pooled[place])
        return self._read[place]

    def _whole(self, value: Json) -> Json:
        if isinstance(value, str):
            return ATTACHMENT.sub(self._attached, value)
        if isinstance(value, list):
            return [self._whole(item) for item in value]
        if isinstance(value, dict):
            return {key: self._whole(item) for key, item in value.items()}
        return value

    def _attached(self, match: re.Match[str]) -> str:
        found = self._attachments.get(match["name"])
        return found if isinstance(found, str) else match[0]


def _range(given: Json, size: int) -> tuple[int, int]:
    places = [at for at in given if isinstance(at, int)] if isinstance(given, list) else []
    if len(places) != RANGE or not 0 <= places[0] <= places[1] <= size:
        raise FieldError(
            f"input_refs holds {shown(given)}, expected a range within {size} messages"
        )
    return places[0], places[1]


def _read(value: Object, line: int) -> Message:
    """A message in Inspect's spelling of tool calls, reasoning and errors."""
    calls: list[Json] = [
        {"id": call.get("id"), "name": call.get("function"), "arguments": call.get("arguments")}
        for call in objects(value, "tool_calls") or ()
    ]
    bare: Object = {"role": text(value, "role"), "content": _blocks(value.get("content"))}
    if calls:
        bare["tool_calls"] = calls
    if name := value.get("tool_call_id"):
        bare["tool_call_id"] = name
    found = read_message(bare, line=line)
    error = child(value, "error") or {}
    if said := text(error, "message"):
        return replace(found, parts=(Part("tool_result", said, id=text(value, "tool_call_id")),))
    return found


def _blocks(content: Json) -> Json:
    if not isinstance(content, list):
        return content
    return [
        {"type": "reasoning", "text": block.get("reasoning")}
        if isinstance(block, dict) and block.get("type") == "reasoning"
        else block
        for block in content
    ]
