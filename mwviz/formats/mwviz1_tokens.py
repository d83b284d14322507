"""Token records of `mwviz/1`: deltas against an earlier call, resolved to whole prompts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mwviz.formats.fields import (
    FieldError,
    Json,
    Object,
    count,
    label,
    logprobs,
    members,
    shown,
    string,
    token_ids,
    token_ranges,
)
from mwviz.formats.records import Record, Records
from mwviz.rollout import Call, Floats, Ints, Span

SHA_NAME = "blake2b:"
MESSAGES_KEPT = "its messages, if recorded"
SPAN_FIELDS = 5
"""start, end, message id, role, kind."""


class Key(NamedTuple):
    """A call within a file."""

    rollout: str
    call: str


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """One token record, its prompt still a delta."""

    rollout: str | None
    """None if neither the record nor a call before it names one."""
    call: str
    base: str | None
    keep: int
    prompt_add: Ints | None
    completion: Ints | None
    logprobs: Floats | None
    spans: tuple[Span, ...] | None
    kept: tuple[tuple[int, int], ...] | None
    prompt_len: int | None
    prompt_sha: str | None
    record: Record


@dataclass(frozen=True, slots=True, eq=False)
class Resolved:
    """The token ids of one call."""

    prompt: Ints | None
    tokens: Tokens

    def head(self, size: int) -> Ints:
        """int32: the first `size` tokens of prompt + completion."""
        pieces = [piece for piece in (self.prompt, self.tokens.completion) if piece is not None]
        whole = np.concatenate([*pieces, np.empty(0, np.int32)], dtype=np.int32)
        if size > len(whole):
            raise FieldError(f"keep is {size}, expected at most the {len(whole)} tokens of base")
        return whole[:size]

    def added_to(self, call: Call) -> Call:
        """The call with these tokens."""
        return replace(
            call,
            prompt_ids=self.prompt,
            completion_ids=self.tokens.completion,
            logprobs=self.tokens.logprobs,
            spans=self.tokens.spans,
            kept=self.tokens.kept,
            tokens="recorded",
        )


def read_tokens(value: Object, record: Record, *, latest: Mapping[str, str]) -> Tokens:
    """The token record of a call; `latest` names the rollout of the calls before it.

    Raises:
        FieldError: A field has another type or count than expected.
    """
    call = label(value, "call")
    if call is None:
        raise FieldError("tokens without a call, expected its id")
    completion = token_ids(value, "completion")
    rollout = label(value, "rollout")
    return Tokens(
        latest.get(call) if rollout is None else rollout,
        call,
        label(value, "base"),
        count(value, "keep") or 0,
        token_ids(value, "prompt_add"),
        completion,
        logprobs(value, "logprobs", completion),
        _spans(value),
        token_ranges(value, "kept"),
        count(value, "prompt_len"),
        string(value, "prompt_sha"),
        record,
    )


def resolve(
    tokens: Sequence[Tokens], calls: Sequence[Key], records: Records
) -> dict[Key, Resolved]:
    """Whole token ids by call; what cannot be resolved is reported as damage."""
    pending = _by_call(tokens, calls, records)
    done: dict[Key, Resolved] = {}
    while ready := [
        k for k, item in pending.items() if item.base is None or _base(k, item) in done
    ]:
        for key in ready:
            item = pending.pop(key)
            try:
                done[key] = Resolved(_prompt(key, item, done), item)
            except FieldError as error:
                records.drop(item.record, str(error), kept=MESSAGES_KEPT)
    for item in pending.values():
        what = f"tokens relative to call {shown(item.base)}, whose tokens are missing"
        records.drop(item.record, what, kept=MESSAGES_KEPT)
    return done


def _by_call(tokens: Sequence[Tokens], calls: Sequence[Key], records: Records) -> dict[Key, Tokens]:
    """The first token record of each call of the file."""
    named = {key.call: key.rollout for key in reversed(calls)}
    known = set(calls)
    found: dict[Key, Tokens] = {}
    for item in tokens:
        key = Key(named.get(item.call, "") if item.rollout is None else item.rollout, item.call)
        if key not in known:
            what = f"tokens of call {shown(item.call)}, which is not in the file"
            records.drop(item.record, what)
        elif found.setdefault(key, item) is not item:
            records.drop(item.record, f"tokens of call {shown(item.call)} again")
    return found


def sha(prompt: Ints) -> str:
    """Digest of token ids as `prompt_sha` writes it."""
    return SHA_NAME + hashlib.blake2b(prompt.astype("<i4").tobytes()).hexdigest()


def _base(key: Key, item: Tokens) -> Key:
    return Key(key.rollout, item.base or "")


def _prompt(key: Key, item: Tokens, done: Mapping[Key, Resolved]) -> Ints | None:
    if item.prompt_add is None:
        return None
    prompt = item.prompt_add
    if item.base is not None:
        prompt = np.concatenate((done[_base(key, item)].head(item.keep), prompt), dtype=np.int32)
    elif item.keep:
        raise FieldError(f"keep is {item.keep} without a base, expected 0")
    if item.prompt_len not in (None, len(prompt)):
        raise FieldError(
            f"prompt_len is {item.prompt_len}, but the prompt has {len(prompt)} tokens"
        )
    if item.prompt_sha is not None and not _matches(prompt, item.prompt_sha):
        raise FieldError("prompt_sha does not match the prompt's token ids")
    return prompt


def _matches(prompt: Ints, digest: str) -> bool:
    given = digest.removeprefix(SHA_NAME).lower()
    size = len(given) // 2
    if not 1 <= size <= hashlib.blake2b.MAX_DIGEST_SIZE:
        return False
    data = prompt.astype("<i4").tobytes()
    return hashlib.blake2b(data, digest_size=size).hexdigest() == given


def _spans(value: Object) -> tuple[Span, ...] | None:
    listed = members(value, "spans")
    return None if listed is None else tuple(sorted(_span(item) for item in listed))


def _span(item: Json) -> Span:
    if isinstance(item, list) and len(item) == SPAN_FIELDS:
        start, end, message, role, kind = item
        if (
            type(start) is int
            and type(end) is int
            and 0 <= start <= end
            and isinstance(message, str)
            and isinstance(role, str)
            and isinstance(kind, str)
        ):
            return Span(start, end, message, role, kind)
    raise FieldError(f"span {shown(item)}, expected [start, end, message id, role, kind]")
