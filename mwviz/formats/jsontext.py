"""Text to JSON values that are safe to walk: bounded nesting, no unpaired surrogates."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from mwviz.formats.fields import Json

MAX_DEPTH = 200
"""Nesting of one record; deeper ones are damage (each reader below walks them recursively)."""
DECODER = json.JSONDecoder(strict=False)
"""Control characters inside strings are let through: logs hold raw tabs and line ends."""
LONE = re.compile(r"[\ud800-\udfff]")
ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
BETWEEN = re.compile(r"[\s,\[\]\ufeff]*")
STRUCTURE = re.compile(r"\"[^\"\\]*(?:\\.[^\"\\]*)*\"?|[{}\[\],]", re.DOTALL)
"""Strings, so that what is in them is passed over, and the signs that make objects and lists."""
CLOSING = {"{": "}", "[": "]"}


class Value(NamedTuple):
    """One value of a text that holds several, and where it stands."""

    start: int
    end: int
    value: Json


def values(text: str) -> Iterator[Value]:
    """Top-level values of the text, lists replaced by their items, up to what cannot be read."""
    at = 0
    while True:
        skipped = BETWEEN.match(text, at)
        at = skipped.end() if skipped else at
        if at >= len(text):
            return
        try:
            value, end = DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        yield Value(at, end, value)
        at = end


class Cut(NamedTuple):
    """A broken document without what was broken."""

    value: Json
    items: int
    """Whole items of the list that it was cut in; 0 if it was cut between members of an object."""
    end: int
    """Where it was cut: what follows is lost."""
    wrong: int
    """Where it stops to be JSON."""
    why: str
    """What the decoder says of that place."""


def cut_short(text: str) -> Cut | None:
    """The document up to its last whole item, for one that breaks off or has an error in it.

    It is cut in the outermost list that is open at the error and has a whole item, else in the
    outermost object that has a whole member: never within an item, which would be half a record.
    None if it is no object or list, is not broken, or has nothing whole in it.
    """
    try:
        DECODER.raw_decode(text)
    except json.JSONDecodeError as error:
        wrong, why = error.pos, error.msg
    except (ValueError, RecursionError):
        return None
    else:
        return None
    levels = _open_at(text, wrong)
    chosen = next((at for at, level in enumerate(levels) if level.sign == "[" and level.items), -1)
    if chosen < 0:
        chosen = next((at for at, level in enumerate(levels) if level.items), -1)
    if chosen < 0:
        return None
    last = levels[chosen]
    closing = "".join(CLOSING[level.sign] for level in reversed(levels[: chosen + 1]))
    try:
        value: Json = DECODER.decode(text[: last.end] + closing)
    except (ValueError, RecursionError):
        return None
    return Cut(value, last.items if last.sign == "[" else 0, last.end, wrong, why)


@dataclass(slots=True)
class _Level:
    """An object or list that is open at some place."""

    sign: str
    items: int = 0
    """Whole items or members."""
    end: int = 0
    """End of the last of them."""
    fresh: bool = True
    """Whether something may have begun since the last of them ended."""


def _open_at(text: str, place: int) -> list[_Level]:
    """The objects and lists that are open at a place, outermost first."""
    levels: list[_Level] = []
    for match in STRUCTURE.finditer(text, 0, place):
        sign = match.group()
        if sign in CLOSING:
            levels.append(_Level(sign))
        elif sign in ("}", "]", ",") and levels:
            if sign != ",":
                levels.pop()
            if levels and (sign != "," or levels[-1].fresh):
                levels[-1].items += 1
                levels[-1].end = match.start() if sign == "," else match.end()
            if levels:
                levels[-1].fresh = sign == ","
    return levels


def whole(raw: bytes) -> Json:
    """The object or list that the line is, None if the line is anything else or damaged."""
    try:
        value: Json = DECODER.decode(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict | list):
        return None
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and too_deep(value):
        return None
    if ESCAPED_SURROGATE.search(raw) and mended(value) != value:
        return None
    return value


def mended(value: Json) -> Json:
    """The value with each unpaired surrogate replaced, which no encoder could write."""
    if isinstance(value, str):
        return LONE.sub("\ufffd", value)
    if isinstance(value, list):
        return [mended(item) for item in value]
    if isinstance(value, dict):
        return {LONE.sub("\ufffd", key): mended(item) for key, item in value.items()}
    return value


def too_deep(value: Json) -> bool:
    """Whether lists and objects nest deeper than `MAX_DEPTH`."""
    level: list[Json] = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Json] = []
        for item in level:
            children = item.values() if isinstance(item, dict) else item
            if isinstance(item, dict | list):
                inner.extend(c for c in children if type(c) in (dict, list))  # type: ignore[union-attr]
        if not inner:
            return False
        level = inner
    return True


def spans_lines(text: str) -> bool:
    """Whether the text begins with an object or list over several lines, as far as it goes."""
    start = text.removeprefix("\ufeff").strip()
    if not start.startswith(("{", "[")):
        return False
    try:
        _, end = DECODER.raw_decode(start)
    except json.JSONDecodeError as error:
        cut_string = error.msg.startswith("Unterminated") and "\n" not in start[error.pos :]
        printed = start.split("\n", 1)[0].strip() in CLOSING
        return cut_string or printed or error.pos >= len(start)
    except (ValueError, RecursionError):
        return False
    return "\n" in start[:end]
