"""What the per-call formats say of a call beside its prompt and completion, in one spelling."""

from __future__ import annotations

from datetime import datetime
from typing import cast, get_args

from mwviz.formats.fields import FieldError, Object, child, chosen, count, label, number, shown
from mwviz.formats.fields import string as text
from mwviz.rollout import Call, Semantics, Usage

PROMPT = ("prompt", "prompt_tokens")
COMPLETION = ("completion", "completion_tokens", "output_tokens")
CACHED = ("cached", "cached_tokens", "cache_read_input_tokens")
DETAILS = ("prompt_tokens_details", "input_tokens_details")
PROMPT_PARTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def read_call(record: Object, *, id: str, line: int) -> Call:
    """The call without its prompt and completion.

    Raises:
        FieldError: A field has another type than expected.
    """
    semantics = chosen(record, "semantics", get_args(Semantics))
    return Call(
        id,
        lineage=label(record, "lineage"),
        usage=read_usage(child(record, "usage")),
        temperature=number(record, "temperature"),
        model=text(record, "model"),
        weights=label(record, "weights"),
        finish=text(record, "finish"),
        time=moment(record, "time"),
        reward=number(record, "reward"),
        semantics=cast("Semantics | None", semantics),
        line=line,
    )


def read_usage(usage: Object | None) -> Usage | None:
    """Token counts in any provider's spelling; None if there are none or all are zero."""
    if usage is None:
        return None
    prompt = _first(usage, PROMPT)
    cached = _first(usage, CACHED)
    for key in DETAILS:
        if cached is None and (details := child(usage, key)):
            cached = count(details, "cached_tokens")
    if prompt is None:
        parts = [found for key in PROMPT_PARTS if (found := count(usage, key)) is not None]
        prompt = sum(parts) if parts else None
    completion = _first(usage, COMPLETION)
    if not (prompt or completion or cached):
        return None
    return Usage(prompt, completion, cached)


def read_shared_usage(usage: Object | None, *, choices: int, prompts: int = 1) -> Usage | None:
    """Token counts of one choice of a request; a sum over several is nobody's count."""
    found = read_usage(usage)
    if found is None:
        return None
    of_one = Usage(
        found.prompt if prompts == 1 else None,
        found.completion if choices == 1 else None,
        found.cached if prompts == 1 else None,
    )
    return None if of_one == Usage() else of_one


def moment(record: Object, key: str) -> float | None:
    """Seconds since the epoch, from a number or an ISO 8601 text; None if absent or null."""
    value = record.get(key)
    if not isinstance(value, str):
        return number(record, key)
    try:
        return datetime.fromisoformat(value).timestamp()
    except (ValueError, OverflowError, OSError):
        raise FieldError(f"{key} is {shown(value)}, expected ISO 8601 or seconds") from None


def _first(usage: Object, keys: tuple[str, ...]) -> int | None:
    return next((found for key in keys if (found := count(usage, key)) is not None), None)
