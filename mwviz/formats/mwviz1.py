"""Reads `mwviz/1`, mwviz's own call log: message pool, calls that refer to it, token deltas.

JSON Lines with a `t` that says what a record is: `header`, `msg`, `call`, `tok`, `rollout`. Keys it
does not know are tolerated. The schema is `mwviz-1.schema.json`; the writer is `mwviz1_writer.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast, get_args

from mwviz.formats.call_fields import read_call
from mwviz.formats.chat import canonical
from mwviz.formats.fields import (
    FieldError,
    Json,
    Object,
    child,
    chosen,
    count,
    label_or,
    members,
    number,
    objects,
    required,
    shown,
    string,
)
from mwviz.formats.mwviz1_pool import MessagePool, read_pooled
from mwviz.formats.mwviz1_tokens import Key, Tokens, read_tokens, resolve
from mwviz.formats.records import Record, Records
from mwviz.rollout import (
    Call,
    ContentFidelity,
    Hint,
    Hole,
    Message,
    Rollout,
    Semantics,
    TokenFidelity,
    Usage,
)

VERSION = 1
KINDS = ("header", "msg", "call", "tok", "rollout")
ONLY_ROLLOUT = "rollout"
"""Id of the rollout of calls that name none."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A call as its record says it, its messages and tokens still unresolved."""

    call: Call
    index: int
    """Place within the rollout."""
    prompt: list[Json] | None
    completion: list[Json] | None
    expected: int | None
    """Messages the prompt must come out at."""
    tokens: TokenFidelity | None
    record: Record


@dataclass
class _File:
    """What was read so far."""

    tokenizer: str | None = None
    pool: dict[str, Message] = field(default_factory=dict)
    drafts: dict[Key, _Draft] = field(default_factory=dict)
    tokens: list[Tokens] = field(default_factory=list)
    rollouts: dict[str, Rollout] = field(default_factory=dict)
    latest: dict[str, str] = field(default_factory=dict)
    """Rollout of the latest call of each id, for token records that name no rollout."""


def detects(head: Sequence[Record]) -> bool:
    """Whether a record is a header of this version, a message or a call of this log."""
    return any(isinstance(record.value, dict) and _is_own(record.value) for record in head)


def _is_own(value: Object) -> bool:
    kind = value.get("t")
    if kind == "header":
        return "v" in value
    needed = {"msg": {"id", "role"}, "call": {"id"}, "tok": {"call"}, "rollout": {"id"}}
    return isinstance(kind, str) and kind in needed and needed[kind] <= value.keys()


def reads(records: Records) -> list[Rollout]:
    """The rollouts in order of their first record."""
    file = _File()
    for record in records:
        try:
            _take(file, record)
        except FieldError as error:
            records.drop(record, str(error))
    tokens = resolve(file.tokens, list(file.drafts), records)
    pool = MessagePool(file.pool)
    calls: dict[str, list[Call]] = {name: [] for name in file.rollouts}
    for key, draft in sorted(file.drafts.items(), key=lambda item: item[1].index):
        call = _with_messages(draft, pool, records)
        if key in tokens:
            call = tokens[key].added_to(call)
        call = replace(call, tokens=draft.tokens or call.tokens)
        if call.prompt is None and call.prompt_ids is None:
            records.drop(draft.record, "a call without a prompt, expected messages or tokens")
        else:
            calls[key.rollout].append(call)
    return [
        replace(
            rollout,
            calls=tuple(calls[name]),
            tokenizer=file.tokenizer if rollout.tokenizer is None else rollout.tokenizer,
        )
        for name, rollout in file.rollouts.items()
    ]


def _take(file: _File, record: Record) -> None:
    value = record.value
    if not isinstance(value, dict):
        raise FieldError(f"{shown(value)}, expected a record with a t")
    kind = chosen(value, "t", KINDS)
    if kind == "header":
        if value.get("v") != VERSION:
            raise FieldError(f"version {shown(value.get('v'))}, expected {VERSION}")
        file.tokenizer = string(value, "tokenizer") or file.tokenizer
    elif kind == "msg":
        _take_message(file, value, record.line)
    elif kind == "call":
        _take_call(file, value, record)
    elif kind == "tok":
        file.tokens.append(read_tokens(value, record, latest=file.latest))
    elif kind == "rollout":
        rollout = _rollout(value)
        file.rollouts[rollout.id] = rollout
    else:
        raise FieldError(f"no t, expected one of {', '.join(KINDS)}")


def _take_message(file: _File, value: Object, line: int) -> None:
    name = required(value, "id")
    message = read_pooled(value, name, line)
    first = file.pool.setdefault(name, message)
    if first.content_key != message.content_key:
        raise FieldError(f"message {shown(name)} again with other content; the first is kept")


def _take_call(file: _File, value: Object, record: Record) -> None:
    rollout = label_or(value, "rollout", ONLY_ROLLOUT)
    key = Key(rollout, required(value, "id"))
    if key in file.drafts:
        raise FieldError(f"call {shown(key.call)} again; the first is kept")
    file.drafts[key] = _draft(value, key.call, record, index=len(file.drafts))
    file.latest[key.call] = rollout
    file.rollouts.setdefault(rollout, Rollout(rollout, ()))


def _draft(value: Object, name: str, record: Record, *, index: int) -> _Draft:
    own = count(value, "i")
    fidelity = chosen(value, "fidelity", get_args(ContentFidelity)) or "exact"
    call = replace(
        read_call({**value, "usage": None}, id=name, line=record.line),
        usage=_usage(child(value, "usage")),
        content=cast("ContentFidelity", fidelity),
        tokens="rendered",
        holes=tuple(_hole(hole) for hole in objects(value, "holes") or ()),
        hints=tuple(_hint(hint) for hint in objects(value, "hints") or ()),
    )
    return _Draft(
        call,
        index if own is None else own,
        members(value, "prompt"),
        members(value, "completion"),
        count(value, "prompt_messages"),
        cast("TokenFidelity | None", chosen(value, "tokens", get_args(TokenFidelity))),
        record,
    )


def _usage(value: Object | None) -> Usage | None:
    if value is None:
        return None
    return Usage(count(value, "prompt"), count(value, "completion"), count(value, "cached"))


def _hole(value: Object) -> Hole:
    return Hole(string(value, "why") or "", string(value, "after"), count(value, "tokens"))


def _hint(value: Object) -> Hint:
    kind = string(value, "type") or required(value, "kind")
    detail = string(value, "detail")
    if detail is None:
        rest = {key: held for key, held in value.items() if key not in ("kind", "type", "detail")}
        detail = canonical(rest) if rest else ""
    return Hint(kind, detail)


def _rollout(value: Object) -> Rollout:
    semantics = chosen(value, "semantics", get_args(Semantics)) or "unknown"
    warnings = members(value, "warnings") or []
    meta = child(value, "meta") or {}
    return Rollout(
        required(value, "id"),
        (),
        semantics=cast("Semantics", semantics),
        tokenizer=string(value, "tokenizer"),
        reward=number(value, "reward"),
        warnings=tuple(text for text in warnings if isinstance(text, str)),
        meta={
            key: held if isinstance(held, str) else canonical(held) for key, held in meta.items()
        },
    )


def _with_messages(draft: _Draft, pool: MessagePool, records: Records) -> Call:
    """The call with its messages; without them, and reported, if the pool lacks one."""
    try:
        prompt = pool.listed(draft.prompt)
        completion = pool.listed(draft.completion)
        if prompt is not None and draft.expected not in (None, len(prompt)):
            raise FieldError(f"prompt has {len(prompt)} messages, expected {draft.expected}")
    except FieldError as error:
        records.drop(draft.record, str(error), kept="its tokens, if recorded")
        return replace(draft.call, content="unknown")
    return replace(draft.call, prompt=prompt, completion=completion)
