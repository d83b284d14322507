"""The engine of trainer rows: token ids with a mask of sampled ones, to calls.

A run of sampled tokens is a call on everything before it in the row. Rows of one rollout share
their beginnings; a call that an earlier row holds already is not counted again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mwviz.formats.fields import FieldError, Object, members
from mwviz.formats.fields import logprobs as read_logprobs
from mwviz.rollout import Call, Floats, Ints

BY_MASK = (
    "its calls are the runs of trained tokens: calls with nothing between them count as one, and "
    "sampled tokens that the trainer masked count as context"
)


FILLED = "its log-probabilities are all 0, which no model gives: taken as not recorded"


class TokenRow(NamedTuple):
    """One sequence of a trainer."""

    ids: Ints
    """int32 (T,)."""
    sampled: npt.NDArray[np.bool_]
    """bool (T,): True where the trainer takes the token as the model's own."""
    logprobs: Floats | None
    """float32 (T,): in nats, NaN where not sampled; None if the row has none."""
    filled: bool = False
    """Whether zeros stand in for the logprobs of all sampled tokens: none were recorded."""


def token_row(ids: Ints, sampled: npt.NDArray[np.bool_], logprobs: Floats | None) -> TokenRow:
    """The row, once its parts fit: marks and logprobs may stand for its last tokens only.

    Logprobs may also be as many as the sampled tokens, and stand for those.

    Raises:
        FieldError: There are more marks or logprobs than tokens.
    """
    size = len(ids)
    for what, given in (("marks", sampled), ("logprobs", logprobs)):
        if given is not None and len(given) > size:
            raise FieldError(f"a row of {size} tokens has {len(given)} {what}")
    marks = np.zeros(size, dtype=np.bool_)
    marks[size - len(sampled) :] = sampled
    if logprobs is None:
        return TokenRow(ids, marks, None)
    values = np.full(size, np.nan, dtype=np.float32)
    if len(logprobs) == marks.sum() != len(sampled):
        values[marks] = logprobs
    else:
        values[size - len(logprobs) :] = logprobs
    known = values[marks][~np.isnan(values[marks])]
    if not known.any():
        return TokenRow(ids, marks, None, filled=bool(known.size))
    return TokenRow(ids, marks, values)


def row_calls(row: TokenRow, seen: set[bytes], line: int) -> Iterator[Call]:
    """The calls of the row that no earlier row of its rollout holds."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], row.sampled, [False]))))
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        context = row.ids[:end].tobytes() + start.to_bytes(8, "little")
        if context in seen:
            continue
        seen.add(context)
        yield Call(
            "",
            prompt_ids=row.ids[:start],
            completion_ids=row.ids[start:end],
            logprobs=None if row.logprobs is None else row.logprobs[start:end],
            content="rebuilt",
            line=line,
        )


def marks(record: Object, key: str) -> npt.NDArray[np.bool_] | None:
    """A mask of numbers or truth values as bool (T,), None if it is absent or null.

    Raises:
        FieldError: It holds something else.
    """
    given = members(record, key)
    if given is None:
        return None
    if not all(isinstance(mark, bool | int | float) for mark in given):
        raise FieldError(f"{key} holds something else than numbers and truth values")
    return np.array([bool(mark) for mark in given], dtype=np.bool_)


def row_logprobs(record: Object, key: str) -> Floats | None:
    """float32: all values of the field, in nats; None if it is absent or empty.

    Zeros that stand where nothing was sampled are no probabilities and do no harm there.
    """
    given = members(record, key)
    if not given:
        return None
    return read_logprobs(record, key, np.zeros(len(given), dtype=np.int32))
