"""The messages of a rollout to tokens by the neutral rule, each message tokenised once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import eq
from typing import NamedTuple

import numpy as np

from mwviz.encoding import NO_IDS, CallTokens
from mwviz.rendering import body, distinct, header, kind
from mwviz.rollout import Call, Ints, Message, Rollout, Span
from mwviz.sharing import Shared, begins
from mwviz.tokenizer import Tokenizer


class _Piece(NamedTuple):
    """One message in tokens."""

    header: Ints
    body: Ints
    identity: str
    role: str
    kind: str

    @property
    def size(self) -> int:
        """Tokens of header and body."""
        return len(self.header) + len(self.body)


class _Prompt(NamedTuple):
    """A prompt in tokens, kept for the call that continues it."""

    messages: Sequence[Message]
    pieces: Shared[Ints]
    spans: Shared[Span]
    size: int


class Neutral:
    """The messages of one rollout in tokens."""

    def __init__(self, rollout: Rollout, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._latest: dict[str | None, _Prompt] = {}
        self.messages = messages = distinct(rollout.calls)
        headers = tokenizer.encode([header(message) for message in messages])
        bodies = tokenizer.encode([body(message) for message in messages])
        self._pieces = {
            id(message): _Piece(
                opening,
                content,
                message.id or message.content_key.hex(),
                message.role,
                kind(message),
            )
            for message, opening, content in zip(messages, headers, bodies, strict=True)
        }

    def call(self, call: Call) -> CallTokens:
        """The call: the header of its completion's first message belongs to the prompt."""
        prompt = self._prompt(call)
        after = [self._pieces[id(message)] for message in call.completion or ()]
        opening, *sampled = _arrays(after) or [NO_IDS]
        return CallTokens(
            prompt.pieces.extended([opening] if after else []),
            np.concatenate([*sampled, NO_IDS], dtype=np.int32),
            prompt.spans.extended(_spans(after, prompt.size), same=eq),
            size=prompt.size + len(opening),
        )

    def _prompt(self, call: Call) -> _Prompt:
        """The prompt in tokens; what it repeats of its lineage's call before is not made again."""
        messages = call.prompt or ()
        before = self._latest.get(call.lineage)
        if before is None or not begins(messages, before.messages):
            before = _Prompt((), Shared(), Shared(), 0)
        new = [self._pieces[id(message)] for message in messages[len(before.messages) :]]
        found = _Prompt(
            messages,
            before.pieces.extended(_arrays(new)),
            before.spans.extended(_spans(new, before.size), same=eq),
            before.size + sum(piece.size for piece in new),
        )
        self._latest[call.lineage] = found
        return found


def _arrays(pieces: Iterable[_Piece]) -> list[Ints]:
    return [array for piece in pieces for array in (piece.header, piece.body)]


def _spans(pieces: Iterable[_Piece], start: int) -> list[Span]:
    found: list[Span] = []
    for piece in pieces:
        end = start + piece.size
        found.append(Span(start, end, piece.identity, piece.role, piece.kind))
        start = end
    return found
