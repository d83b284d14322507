"""Rollouts from a trainer's own arrays: token ids in, token ids out, no file between."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, cast, get_args

import numpy as np
import numpy.typing as npt

from mwviz.errors import TraceError
from mwviz.formats.fields import MAX_ID, ROUNDING, FieldError, chosen, nats, token_ranges
from mwviz.rollout import Call, Floats, Ints, Rollout, Semantics

KEYS = frozenset(
    (
        *("rollout", "order", "prompt_ids", "completion_ids", "logprobs"),
        *("reward", "lineage", "temperature", "weights", "semantics", "kept"),
    )
)


def from_token_rows(
    rows: Iterable[Mapping[str, Any]], *, tokenizer: str | None = None
) -> tuple[Rollout, ...]:
    """The rollouts of a trainer's calls, one row a call.

    Args:
        rows: each with `prompt_ids` (P,) and `completion_ids` (O,), arrays or lists; and, where the
            trainer has them, `logprobs` (O,) in nats as sampled (NaN: not recorded), `rollout` (id;
            all rows without one are one rollout), `order` (number of the call within it; else the
            rows' order), `lineage` (the agent), `temperature`, `weights` (version that sampled),
            `reward` (of the call), `semantics` (how the cache was treated at the junction before
            the call; else as re-prefilled), `kept` (`[start, end)` ranges of the lineage's context
            before, in tokens, that the cache kept).
        tokenizer: Name of the tokenizer that made the ids.

    Returns:
        The rollouts in order of their first row; `mwviz.analyse` takes each.

    Raises:
        TraceError: A row lacks its ids, an array has another shape or type, a log-probability is
            above 0 by more than rounding, or a number is not finite; says which row and token.
    """
    found: dict[str, list[tuple[float, Call]]] = {}
    if isinstance(rows, str | Mapping) or not isinstance(rows, Iterable):
        raise TraceError(
            f"rows is a {type(rows).__name__}, expected a list with a dict for each call"
        )
    for at, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TraceError(
                f"row {at}: is a {type(row).__name__}, expected a dict with prompt_ids"
            )
        if unknown := row.keys() - KEYS:
            raise TraceError(f"row {at}: unknown key {min(unknown)!r}, expected {sorted(KEYS)}")
        calls = found.setdefault(str(row.get("rollout", "rollout")), [])
        try:
            given = _number(row, "order")
            order = float(len(calls)) if given is None else given
            calls.append((order, _call(row, f"row-{at}")))
        except FieldError as error:
            raise TraceError(f"row {at}: {error}") from None
    rollouts = []
    for name, ordered in found.items():
        calls_in_order = [call for _, call in sorted(ordered, key=lambda pair: pair[0])]
        rollouts.append(
            Rollout(name, tuple(calls_in_order), semantics="re_prefill", tokenizer=tokenizer)
        )
    return tuple(rollouts)


def _call(row: Mapping[str, Any], name: str) -> Call:
    completion = _ids(row, "completion_ids")
    lineage, weights = row.get("lineage"), row.get("weights")
    return Call(
        name,
        prompt_ids=_ids(row, "prompt_ids"),
        completion_ids=completion,
        logprobs=_logprobs(row, size=len(completion)),
        lineage=None if lineage is None else str(lineage),
        temperature=_number(row, "temperature"),
        weights=None if weights is None else str(weights),
        reward=_number(row, "reward"),
        semantics=cast("Semantics | None", chosen(row, "semantics", get_args(Semantics))),
        kept=_kept(row),
    )


def _kept(row: Mapping[str, Any]) -> tuple[tuple[int, int], ...] | None:
    if row.get("kept") is None:
        return None
    return token_ranges({"kept": _array(row, "kept").tolist()}, "kept")


def _ids(row: Mapping[str, Any], key: str) -> Ints:
    if row.get(key) is None:
        raise FieldError(f"no {key}, expected token ids")
    found = _array(row, key)
    if found.size == 0:
        return np.empty(0, np.int32)
    whole = found.ndim == 1 and found.dtype.kind in "iu"
    if not whole or int(found.min()) < 0 or int(found.max()) > MAX_ID:
        raise FieldError(
            f"{key} has shape {found.shape} of {found.dtype}, expected whole numbers "
            f"of 0 to {MAX_ID} in one dimension"
        )
    return found.astype(np.int32)


def _array(row: Mapping[str, Any], key: str) -> npt.NDArray[Any]:
    try:
        return np.asarray(row[key])
    except (TypeError, ValueError):
        raise FieldError(f"{key} is not one flat list of numbers") from None


def _logprobs(row: Mapping[str, Any], *, size: int) -> Floats | None:
    if row.get("logprobs") is None:
        return None
    found = _array(row, "logprobs")
    if found.shape != (size,) or (size and found.dtype.kind not in "fiu"):
        raise FieldError(
            f"logprobs has shape {found.shape} of {found.dtype}, expected numbers, one "
            f"for each of {size} completion ids"
        )
    high = np.flatnonzero(found > ROUNDING)
    if len(high):
        at = int(high[0])
        raise FieldError(
            f"logprobs[{at}] is {found[at]:g}, expected a number of at most 0, or NaN for none"
        )
    return nats(found)


def _number(row: Mapping[str, Any], key: str) -> float | None:
    value = row.get(key)
    if value is None:
        return None
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise FieldError(f"{key} is {value!r:.60}, expected a finite number")
    return found
