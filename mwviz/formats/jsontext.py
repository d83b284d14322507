"""Text to JSON values that are safe to walk: bounded nesting, no unpaired surrogates."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from mwviz.formats.fields import Json

MAX_DEPTH = 200
"""Nesting of one record; deeper ones are damage (each reader below walks them recursively)."""
DECODER = json.JSONDecoder(strict=False)
"""Control characters inside strings are let through: logs hold raw tabs and line ends."""
LONE = re.compile(r"[\ud800-\udfff]")
ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
BETWEEN = re.compile(r"[\s,\[\]\ufeff]*")


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
        return cut_string or error.pos >= len(start)
    except (ValueError, RecursionError):
        return False
    return "\n" in start[:end]
