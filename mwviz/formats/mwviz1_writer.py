"""Writes `mwviz/1`: each message once, token ids as deltas, so a long rollout stays linear in size.

Every record is a line of its own, and calls refer only to lines before theirs: a log can be
appended to while it grows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np

from mwviz.formats.fields import Json, Object
from mwviz.formats.mwviz1_tokens import sha
from mwviz.prefix import common_prefix
from mwviz.rollout import Call, Floats, Ints, Message, Part, Rollout, Usage

LONE_SURROGATES = "backslashreplace"
"""How they are encoded in a file: as the escapes that JSON has for them."""
VERSION = 1
SCALARS = ("lineage", "temperature", "model", "weights", "finish", "time", "reward")
BASES = 8
"""Latest calls among which the base of a token delta is looked for, beside the lineage's last."""


def write(rollouts: Iterable[Rollout], target: str | Path | TextIO) -> None:
    """Write the rollouts as one `mwviz/1` file."""
    if isinstance(target, str | Path):
        with Path(target).open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            write(rollouts, file)
        return
    for record in _file(rollouts):
        target.write(line(record))


def line(record: Object) -> str:
    """A record as its line of the file."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


def header() -> Object:
    """The first record of a file."""
    return {"t": "header", "v": VERSION, "tool": "mwviz"}


def _file(rollouts: Iterable[Rollout]) -> Iterator[Object]:
    yield header()
    journal = Journal()
    for rollout in rollouts:
        yield rollout_record(rollout)
        for call in rollout.calls:
            yield from journal.call(rollout.id, call)
        journal.end(rollout.id)


class Journal:
    """What a file holds so far, so that a call adds only what is new.

    It keeps digests of messages and, of each rollout that goes on, a few calls.
    """

    def __init__(self, *, messages: int = 0, calls: Mapping[str, int] | None = None) -> None:
        """Goes on with a file that has so many messages, and calls by rollout."""
        self._pool = _Pool(messages)
        self._calls = dict(calls or {})
        self._bases: dict[str, _Bases] = {}

    def call(self, rollout: str, call: Call) -> Iterator[Object]:
        """Records of a call of the rollout, those of its new messages first."""
        index = self._calls.get(rollout, 0)
        self._calls[rollout] = index + 1
        yield from self._pool.new((*(call.prompt or ()), *(call.completion or ())))
        yield _call(rollout, index, call, self._pool)
        if call.prompt_ids is not None or call.completion_ids is not None:
            bases = self._bases.setdefault(rollout, _Bases())
            yield _tokens(rollout, call, bases.best(call))
            bases.add(call)

    def restart(self) -> None:
        """Writes every message and all tokens anew: what was given last may not be in the file."""
        self._pool = _Pool(self._pool.written)
        self._bases.clear()

    def end(self, rollout: str) -> None:
        """Lets go of the rollout's calls and messages; one more costs only time and space."""
        self._bases.pop(rollout, None)
        self._pool.forget()


class _Base(NamedTuple):
    """An earlier call, and how many of its tokens a prompt starts with."""

    call: Call | None
    keep: int


NO_BASE = _Base(None, 0)


class _Pool:
    """Which messages were written, under which ids."""

    def __init__(self, written: int) -> None:
        self.written = written
        self._ids: dict[int, str] = {}
        self._kept: dict[tuple[bytes, str | None, str | None], str] = {}
        self._alive: list[Message] = []

    def new(self, messages: Iterable[Message]) -> Iterator[Object]:
        """Records of the messages that were not written yet."""
        for message in messages:
            if id(message) in self._ids:
                continue
            key = (message.content_key, message.id, message.mark)
            if key not in self._kept:
                self._kept[key] = f"m{self.written}"
                self.written += 1
                yield _message(message, self._kept[key])
            self._ids[id(message)] = self._kept[key]
            self._alive.append(message)

    def forget(self) -> None:
        """Keeps digests only."""
        self._ids.clear()
        self._alive.clear()

    def references(self, messages: Sequence[Message]) -> list[Json]:
        """Ids of the messages, runs in pool order as `[first, last]`."""
        places = [int(self._ids[id(message)][1:]) for message in messages]
        runs: list[list[int]] = []
        for place in places:
            if runs and place == runs[-1][1] + 1:
                runs[-1][1] = place
            else:
                runs.append([place, place])
        return [f"m{a}" if a == b else [f"m{a}", f"m{b}"] for a, b in runs]


class _Bases:
    """Calls whose tokens later ones can be written relative to."""

    def __init__(self) -> None:
        self._latest: dict[str | None, Call] = {}
        self._recent: list[Call] = []

    def add(self, call: Call) -> None:
        """Remember a call that was written."""
        self._latest[call.lineage] = call
        self._recent = [*self._recent[1 - BASES :], call]

    def best(self, call: Call) -> _Base:
        """The call that shares the longest prefix with this prompt."""
        prompt = call.prompt_ids
        if prompt is None:
            return NO_BASE
        near = [*self._recent, *self._latest.values()]
        shared = [_Base(base, common_prefix(_context(base), prompt)) for base in near]
        longest = max(shared, key=lambda base: base.keep, default=NO_BASE)
        return longest if longest.keep else NO_BASE


def _tokens(rollout: str, call: Call, base: _Base) -> Object:
    prompt = call.prompt_ids
    record: Object = {
        "t": "tok",
        "rollout": rollout,
        "call": call.id,
        "base": base.call.id if base.call else None,
        "keep": base.keep,
        "prompt_add": None if prompt is None else id_list(prompt[base.keep :]),
        "completion": id_list(call.completion_ids),
    }
    if call.logprobs is not None:
        record["logprobs"] = logprob_list(call.logprobs)
    if call.spans is not None:
        record["spans"] = [list(span) for span in call.spans]
    if call.kept is not None:
        record["kept"] = [list(bounds) for bounds in call.kept]
    if prompt is not None:
        record |= {"prompt_len": len(prompt), "prompt_sha": sha(prompt)}
    return record


def _call(rollout: str, index: int, call: Call, pool: _Pool) -> Object:
    has_ids = call.prompt_ids is not None or call.completion_ids is not None
    record: Object = {
        "t": "call",
        "id": call.id,
        "rollout": rollout,
        "i": index,
        "prompt": None if call.prompt is None else pool.references(call.prompt),
        "prompt_messages": None if call.prompt is None else len(call.prompt),
        "completion": None if call.completion is None else pool.references(call.completion),
        "usage": None if call.usage is None else _usage(call.usage),
        "holes": [{"why": h.why, "after": h.after, "tokens": h.tokens} for h in call.holes] or None,
        "hints": [{"kind": hint.kind, "detail": hint.detail} for hint in call.hints] or None,
        "semantics": call.semantics,
        "fidelity": call.content,
        "tokens": None if has_ids == (call.tokens == "recorded") else call.tokens,
    }
    return _present(record | {key: getattr(call, key) for key in SCALARS})


def rollout_record(rollout: Rollout) -> Object:
    """What a rollout is called, and what is known of it as a whole."""
    return _present(
        {
            "t": "rollout",
            "id": rollout.id,
            "semantics": rollout.semantics,
            "tokenizer": rollout.tokenizer,
            "reward": rollout.reward,
            "warnings": list(rollout.warnings) or None,
            "meta": dict(rollout.meta) or None,
        }
    )


def _usage(usage: Usage) -> Object:
    return _present(
        {"prompt": usage.prompt, "completion": usage.completion, "cached": usage.cached}
    )


def _present(record: Object) -> Object:
    """The record without what was not recorded."""
    return {key: value for key, value in record.items() if value is not None}


def _message(message: Message, name: str) -> Object:
    record: Object = {"t": "msg", "id": name, "role": message.role, "uid": message.id}
    plain = message.parts[0] if len(message.parts) == 1 else None
    if plain and plain == Part("text", plain.text) and plain.text and message.role != "tool":
        record["content"] = plain.text
    else:
        record["content"] = [_block(part) for part in message.parts]
    return _present(record | {"name": message.name, "mark": message.mark}) | {"uid": message.id}


def _block(part: Part) -> Object:
    return _present({"type": part.kind, "text": part.text, "name": part.name, "id": part.id})


def _context(call: Call) -> Ints:
    pieces = [piece for piece in (call.prompt_ids, call.completion_ids) if piece is not None]
    return np.concatenate(pieces, dtype=np.int32)


def id_list(ids: Ints | None) -> Json:
    """Token ids as JSON; null for None."""
    return None if ids is None else [int(token) for token in ids]


def logprob_list(values: Floats | None) -> Json:
    """Shortest decimals that read back as the same float32; null for none, and for None."""
    if values is None:
        return None
    return [float(str(value)) if math.isfinite(value) else None for value in values]
