"""The message pool of `mwviz/1`: `msg` records, and lists that refer to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast, get_args

from mwviz.formats.chat import read_message
from mwviz.formats.fields import FieldError, Json, Object, chosen, required, shown, string
from mwviz.rollout import Mark, Message, Part, PartKind

PART_KEYS = {"type", "text", "name", "id"}
RANGE = 2
"""Items of a range: its first and its last message."""


class MessagePool:
    """All messages of a file, in file order, which is what ranges count in."""

    def __init__(self, messages: Mapping[str, Message]) -> None:
        self._messages = list(messages.values())
        self._place = {name: at for at, name in enumerate(messages)}

    def listed(self, references: list[Json] | None) -> tuple[Message, ...] | None:
        """Messages of a list of ids and inclusive `[first, last]` ranges; None for None.

        Raises:
            FieldError: A message is not in the file.
        """
        if references is None:
            return None
        return tuple(message for item in references for message in self._referred(item))

    def _referred(self, item: Json) -> Iterator[Message]:
        if isinstance(item, str):
            yield self._messages[self._at(item)]
            return
        if not isinstance(item, list) or len(item) != RANGE:
            raise FieldError(f"{shown(item)} in a prompt, expected an id or [first, last]")
        first, last = self._at(item[0]), self._at(item[1])
        if first > last:
            raise FieldError(f"range {shown(item)} runs backwards in the pool")
        yield from self._messages[first : last + 1]

    def _at(self, name: Json) -> int:
        if not isinstance(name, str) or name not in self._place:
            raise FieldError(f"message {shown(name)} is not in the file")
        return self._place[name]


def read_pooled(value: Object, name: str, line: int) -> Message:
    """The message of a `msg` record, in mwviz's own block shapes or in a provider's."""
    content = value.get("content")
    role = required(value, "role")
    if isinstance(content, list) and all(map(_is_part, content)) and "tool_calls" not in value:
        parts = tuple(_part(block) for block in content if isinstance(block, dict))
    else:
        parts = read_message(value, line=line).parts
    return Message(
        role,
        parts,
        id=string(value, "uid") if "uid" in value else name,
        name=string(value, "name"),
        mark=cast("Mark | None", chosen(value, "mark", get_args(Mark))),
        line=line,
    )


def _is_part(block: Json) -> bool:
    return (
        isinstance(block, dict)
        and block.keys() <= PART_KEYS
        and block.get("type") in get_args(PartKind)
    )


def _part(block: Object) -> Part:
    kind = cast("PartKind", block["type"])
    return Part(kind, string(block, "text") or "", string(block, "name"), string(block, "id"))
