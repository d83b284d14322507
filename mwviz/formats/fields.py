"""JSON values to typed values: what a field may hold is said here once, with the error's words."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from mwviz.rollout import Floats, Ints

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
Object: TypeAlias = "dict[str, Json]"

MAX_ID = 2**31 - 1
"""Largest token id that int32 holds."""
ROUNDING = 1e-3
"""Log-probability above zero that engines report by rounding, taken as zero."""
LOWEST = -1e30
"""Log-probability in nats below which no token is sampled: an engine's word for `none`."""
SHOWN = 60
"""Characters of a trace's text that an error message repeats."""
NAMED = 5
"""Places or names that one warning repeats."""


class FieldError(ValueError):
    """A field of one record has another type or value than its format says."""


def shown(value: object) -> str:
    """The value as an error message may repeat it: escaped and short."""
    text = ascii(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def named(items: Sequence[object], most: int = NAMED) -> str:
    """The first items, joined by commas, and how many more there are."""
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(map(str, items[:most])) + more


def decoded(value: Json) -> Json:
    """The value that a text of JSON holds; other text, and what is no text, as itself."""
    if not isinstance(value, str):
        return value
    try:
        found: Json = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return found


def string(record: Mapping[str, Json], key: str) -> str | None:
    """Text of the field, None if it is absent or null."""
    value = record.get(key)
    if value is None or isinstance(value, str):
        return value
    raise FieldError(f"{key} is {shown(value)}, expected a string")


def label(record: Mapping[str, Json], key: str) -> str | None:
    """A name or number that identifies something, as text; None if it is absent or null."""
    value = record.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return string(record, key)


def label_or(record: Mapping[str, Json], key: str, default: str) -> str:
    """A name or number that identifies something, as text; the default if absent or null."""
    found = label(record, key)
    return default if found is None else found


def number(record: Mapping[str, Json], key: str) -> float | None:
    """A finite number, None if it is absent or null."""
    value = record.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FieldError(f"{key} is {shown(value)}, expected a number")
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise FieldError(f"{key} is {shown(value)}, expected a finite number")
    return result


def score(record: Mapping[str, Json], key: str) -> float | None:
    """A number, 1 and 0 for a truth value, None if it is anything else.

    Raises:
        FieldError: it is not finite.
    """
    value = record.get(key)
    if isinstance(value, bool):
        return float(value)
    return number(record, key) if isinstance(value, int | float) else None


def count(record: Mapping[str, Json], key: str) -> int | None:
    """A whole number of at least zero, None if it is absent or null."""
    value = number(record, key)
    if value is None:
        return None
    if value < 0 or value != int(value):
        raise FieldError(f"{key} is {shown(record[key])}, expected a count")
    return int(value)


def members(record: Mapping[str, Json], key: str) -> list[Json] | None:
    """A list, None if it is absent or null."""
    value = record.get(key)
    if value is None or isinstance(value, list):
        return value
    raise FieldError(f"{key} is {shown(value)}, expected a list")


def objects(record: Mapping[str, Json], key: str) -> list[Object] | None:
    """A list of objects, None if it is absent or null."""
    found = members(record, key)
    if found is None:
        return None
    result: list[Object] = []
    for at, item in enumerate(found):
        if not isinstance(item, dict):
            raise FieldError(f"{key}[{at}] is {shown(item)}, expected an object")
        result.append(item)
    return result


def objects_in(value: Json, key: str) -> list[Object]:
    """The objects in a list under a key of any value; empty where there is no such list."""
    found = value.get(key) if isinstance(value, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def child(record: Mapping[str, Json], key: str) -> Object | None:
    """An object, None if it is absent or null."""
    value = record.get(key)
    if value is None or isinstance(value, dict):
        return value
    raise FieldError(f"{key} is {shown(value)}, expected an object")


def token_ids(record: Mapping[str, Json], key: str) -> Ints | None:
    """int32 (T,): token ids of the field, None if it is absent or null."""
    value = members(record, key)
    if value is None:
        return None
    if not set(map(type, value)) <= {int}:
        at = next(i for i, item in enumerate(value) if type(item) is not int)
        raise FieldError(f"{key}[{at}] is {shown(value[at])}, expected a token id")
    whole = cast("list[int]", value)
    if whole and not (min(whole) >= 0 and max(whole) <= MAX_ID):
        at = next(i for i, item in enumerate(whole) if not 0 <= item <= MAX_ID)
        raise FieldError(f"{key}[{at}] is {shown(whole[at])}, expected an id of 0 to {MAX_ID}")
    return np.array(whole, dtype=np.int32)


def token_ranges(record: Mapping[str, Json], key: str) -> tuple[tuple[int, int], ...] | None:
    """Ascending `[start, end)` ranges of tokens, none empty; None if absent or null."""
    value = members(record, key)
    if value is None:
        return None
    found: list[tuple[int, int]] = []
    last = 0
    for at, item in enumerate(value):
        match item:
            case [int(start), int(end)] if type(start) is type(end) is int and last <= start < end:
                found.append((start, end))
                last = end
            case _:
                raise FieldError(
                    f"{key}[{at}] is {shown(item)}, expected [start, end) in tokens, {last} or more"
                )
    return tuple(found)


def logprobs(record: Mapping[str, Json], key: str, completion: Ints | None) -> Floats | None:
    """float32 (O,): one a completion token in nats, NaN where null; None if absent or null."""
    value = members(record, key)
    if value is None:
        return None
    if completion is None or len(value) != len(completion):
        have = "no" if completion is None else str(len(completion))
        raise FieldError(f"{key} has {len(value)} values, expected one for each of {have} ids")
    return nats(np.array([_logprob(item, key) for item in value], dtype=np.float64))


def _logprob(value: Json, key: str) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float) or value > ROUNDING:
        raise FieldError(f"{key} holds {shown(value)}, expected a number of at most 0 or null")
    return float(max(value, LOWEST))


def nats(values: npt.NDArray[Any]) -> Floats:
    """float32: log-probabilities as they are kept: at most 0, NaN for an engine's `none`."""
    kept = np.where(values > LOWEST, values, np.nan)
    kept[values > 0] = 0
    return kept.astype(np.float32)


def chosen(record: Mapping[str, Json], key: str, choices: Sequence[str]) -> str | None:
    """One of the choices, None if it is absent or null."""
    value = string(record, key)
    if value is None or value in choices:
        return value
    raise FieldError(f"{key} is {shown(value)}, expected one of {', '.join(choices)}")


def required(record: Mapping[str, Json], key: str) -> str:
    """A name or number that identifies something, as text; it must be there."""
    found = label(record, key)
    if found is None:
        raise FieldError(f"no {key}, expected a string")
    return found
