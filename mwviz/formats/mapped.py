"""Per-call logs whose field names the user gives: `prompt_ids=a.b,completion_ids=c,rollout=d`.

Fields that are not named keep the names of the generic per-call log. A path goes through objects by
key and through lists by number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mwviz.errors import TraceError
from mwviz.formats.calls import KEYS, PROMPT_KEYS, read_generic
from mwviz.formats.chat import Pool
from mwviz.formats.fields import FieldError, Json, Object, label_or, named, shown
from mwviz.formats.percall import ONLY_ROLLOUT, Row, gather
from mwviz.formats.records import Record, Records
from mwviz.rollout import Rollout

MAX_LISTED = 30
"""Keys that an error message lists."""


def parse_mapping(text: str) -> dict[str, str]:
    """The paths by field.

    Raises:
        TraceError: It is no list of FIELD=PATH, or names a field that a call does not have.
    """
    mapping: dict[str, str] = {}
    for item in text.split(","):
        field, sign, path = (part.strip() for part in item.partition("="))
        if not sign or not path:
            raise TraceError(f"--map: {shown(item)}, expected FIELD=PATH, several joined by commas")
        if field not in KEYS:
            raise TraceError(f"--map: no field {shown(field)}, expected one of {', '.join(KEYS)}")
        mapping[field] = path
    return mapping


def reads_mapped(records: Records, mapping: Mapping[str, str]) -> list[Rollout]:
    """The rollouts in order of their first call.

    Raises:
        TraceError: A path leads nowhere in the first records; names the keys that are there.
    """
    head = [record.value for record in records.head()]
    for field, path in mapping.items():
        _check(head, field, path, records.name)

    def rows(record: Record, pool: Pool) -> Iterator[Row]:
        if not isinstance(record.value, dict):
            raise FieldError(f"{shown(record.value)}, expected one call's object")
        mapped = _mapped(record.value, mapping)
        if not any(mapped.get(key) is not None for key in PROMPT_KEYS):
            raise FieldError("no prompt at the given path")
        yield Row(
            label_or(mapped, "rollout", ONLY_ROLLOUT), read_generic(mapped, record.line, pool)
        )

    return gather(records, rows)


def _mapped(record: Object, mapping: Mapping[str, str]) -> Object:
    return {**record, **{field: _found(record, path) for field, path in mapping.items()}}


def _found(value: Json, path: str) -> Json:
    for key in path.split("."):
        value = _step(value, key)
    return value


def _step(value: Json, key: str) -> Json:
    if isinstance(value, dict):
        return value.get(key)
    if isinstance(value, list) and key.isdigit() and int(key) < len(value):
        return value[int(key)]
    return None


def _check(head: Sequence[Json], field: str, path: str, name: str) -> None:
    if any(_found(value, path) is not None for value in head):
        return
    value: Json = next((v for v in head if isinstance(v, dict)), None)
    gone: list[str] = []
    for key in path.split("."):
        inner = _step(value, key)
        if inner is None:
            break
        value = inner
        gone.append(key)
    place = ".".join(gone) or "the top"
    raise TraceError(
        f"{name}: --map {field}={shown(path)} leads nowhere: {place} has {_keys(value)}"
    )


def _keys(value: Json) -> str:
    if isinstance(value, list):
        return f"the numbers 0 to {len(value) - 1}" if value else "an empty list"
    if not isinstance(value, dict):
        return f"no keys: it is {shown(value)}"
    names = [shown(key).strip("'") for key in value]
    return f"the keys {named(names, MAX_LISTED)}"
