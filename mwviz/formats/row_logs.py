"""Records of trainers to rows of tokens to rollouts: what their formats share.

A format says which rows a record holds, how one is read and what its rollout is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from mwviz.formats.chat import Pool
from mwviz.formats.fields import FieldError, Json, Object, label, number, shown, token_ids
from mwviz.formats.origin import Origin, read_origin, with_tokenizers
from mwviz.formats.percall import ONLY_ROLLOUT, Row, gather
from mwviz.formats.records import Record, Records
from mwviz.formats.token_rows import BY_MASK, FILLED, TokenRow, row_calls
from mwviz.rollout import Call, Ints, Rollout

Unpack = Callable[[Json], list[Object]]
Read = Callable[[Object], TokenRow]
Name = Callable[[Object], str | None]
More = Callable[[Object, Call], Call]


def read_rows(
    records: Records,
    unpack: Unpack,
    read: Read,
    name: Name,
    more: More = lambda _row, call: call,
) -> list[Rollout]:
    """The rollouts of a trainer's records.

    Args:
        records: of the trace file.
        unpack: the rows that a record holds; none if it is of another kind.
        read: one row's tokens.
        name: of the rollout that a row belongs to, None if it has none.
        more: what a row says of its calls besides.
    """
    seen: dict[str, set[bytes]] = {}
    origins: dict[str, Origin] = {}

    def rows(record: Record, _pool: Pool) -> Iterator[Row | FieldError]:
        found = unpack(record.value)
        if not found:
            raise FieldError(f"{shown(record.value)}, expected a row of tokens with its mask")
        for value in found:
            try:
                rollout = name(value) or ONLY_ROLLOUT
                row, origin = read(value), read_origin(value)
                calls = list(row_calls(row, seen.setdefault(rollout, set()), record.line))
                reward = _reward(value)
            except FieldError as error:
                yield error
                continue
            origins.setdefault(rollout, origin)
            doubts = row_doubts(row, origin)
            for call in calls:
                yield Row(rollout, origin.mark(more(value, call)), doubts, reward)

    return with_tokenizers(gather(records, rows), origins)


def row_doubts(row: TokenRow, origin: Origin) -> tuple[str, ...]:
    """What is to be said of the calls that a row was cut into."""
    return (BY_MASK, *origin.doubts, *([FILLED] if row.filled else []))


def having(value: Json, *keys: frozenset[str]) -> list[Object]:
    """The record, if it has all of one set of keys."""
    return [value] if isinstance(value, dict) and any(value.keys() >= k for k in keys) else []


def row_ids(record: Object, key: str) -> Ints:
    """int32 (T,): token ids of the field, none if it is absent or null."""
    found = token_ids(record, key)
    return np.empty(0, dtype=np.int32) if found is None else found


def batch_rows(value: Json, keys: frozenset[str], lists: dict[str, str]) -> list[Object]:
    """The rows of a batch, or the one that the record is.

    Raises:
        FieldError: The sides of a batch have not as many rows.
    """
    if not having(value, keys) or not isinstance(value, dict):
        return []
    named = {key: key for key in keys} | lists
    sides = [value[key] for key in keys]
    if not all(isinstance(side, list) and side and isinstance(side[0], list) for side in sides):
        return [value]
    sizes = {key: len(side) for key in sorted(keys) if isinstance(side := value[key], list)}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{size} {key}" for key, size in sizes.items())
        raise FieldError(f"a batch of {told}, expected as many of each")
    found: list[Object] = []
    for at in range(min(sizes.values())):
        row: Object = {}
        for key, name in named.items():
            listed = value.get(key)
            row[name] = listed[at] if isinstance(listed, list) and at < len(listed) else None
        found.append(row)
    return found


def any_name(row: Object) -> str | None:
    """What a row calls its rollout under any of the usual names."""
    for key in ("rollout", "rollout_id", "trajectory_id", "example_id", "task_id"):
        if found := label(row, key):
            return found
    return None


def _reward(row: Object) -> float | None:
    """A plain reward; lists by token and named parts are left aside."""
    value = row.get("reward")
    return number(row, "reward") if isinstance(value, int | float) else None
