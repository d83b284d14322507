"""One damaged line of JSON to the whole records in it, and the torn pieces between them."""

from __future__ import annotations

import json
import re
from collections.abc import Container
from typing import NamedTuple

from mwviz.formats.fields import Json, Object
from mwviz.formats.jsontext import DECODER, too_deep

MAX_TRIES = 2000
"""Places of one line at which the start of a record is looked for."""
SPACE = re.compile(r"\s*")
OPENING = re.compile(r"\{\s*\"")
STRING = re.compile(r"\"[^\"\\]*(?:\\.[^\"\\]*)*\"?", re.DOTALL)


class Split(NamedTuple):
    """What a damaged line holds."""

    values: list[Json]
    """Whole objects and lists, in order."""
    torn: list[str]
    """Texts between them that are no whole record."""


class _Found(NamedTuple):
    start: int
    end: int
    value: Object


def split(text: str, known: Container[tuple[str, ...]]) -> Split:
    """Whole records of the text; `known` are the key tuples of records seen before."""
    found = Split([], [])
    at = _skip_space(text, 0)
    while at < len(text):
        try:
            value, end = DECODER.raw_decode(text, at)
        except RecursionError:
            found.torn.append(text[at:])
            break
        except ValueError as error:
            record = _next_record(text, at, error=error, known=known)
            found.torn.append(text[at : record.start if record else len(text)])
            if record is None:
                break
            value, end = record.value, record.end
        if isinstance(value, dict | list) and not too_deep(value):
            found.values.append(value)
        else:
            found.torn.append(text[at:end])
        at = _skip_space(text, end)
    return found


def _next_record(
    text: str, at: int, *, error: ValueError, known: Container[tuple[str, ...]]
) -> _Found | None:
    """The next whole record behind the torn one that starts at `at`.

    An object in a place where the torn record's grammar wants a value is a part of it, unless it
    has the very keys of a whole record; anywhere else (inside what reads as a string, or where no
    value can stand) it is a record that was glued on.
    """
    wrong = error.pos if isinstance(error, json.JSONDecodeError) else at
    for tries, match in enumerate(OPENING.finditer(text, at + 1)):
        if tries == MAX_TRIES:
            break
        start = match.start()
        try:
            value, end = DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        behind = _skip_space(text, end)
        if behind < len(text) and text[behind] != "{":
            continue
        if start >= wrong or tuple(value) in known or _inside_string(text, at, start):
            return _Found(start, end, value)
    return None


def _inside_string(text: str, at: int, place: int) -> bool:
    """Whether `place` is inside a string of the JSON text that starts at `at`."""
    for match in STRING.finditer(text, at):
        if match.end() > place:
            return match.start() < place
    return False


def _skip_space(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    return match.end() if match else at
