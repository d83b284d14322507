"""Messages to token ids, with each message's span; recorded ids are passed through untouched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mwviz.rollout import Ints, Span


@dataclass(frozen=True, slots=True, eq=False)
class CallTokens:
    """The tokens of one call. Calls that repeat a message share its array."""

    prompt: tuple[Ints, ...]
    """int32 pieces (one a message where rendered) that joined are the prompt."""
    completion: Ints
    """int32 (O,)."""
    spans: tuple[Span, ...]
    """Messages within prompt + completion, by token; empty if the log knows no messages."""

    @property
    def context(self) -> Ints:
        """int32 (P + O,): prompt and completion in one array."""
        return np.concatenate((*self.prompt, self.completion), dtype=np.int32)

    def head(self, size: int) -> Ints:
        """int32: the first `size` tokens of the context, without joining all of it."""
        pieces: list[Ints] = []
        for piece in (*self.prompt, self.completion):
            if size <= 0:
                break
            pieces.append(piece[:size])
            size -= len(pieces[-1])
        return np.concatenate(pieces, dtype=np.int32) if pieces else np.empty(0, dtype=np.int32)

    def prompt_tail(self, size: int) -> Ints:
        """int32: the last `size` tokens of the prompt."""
        pieces: list[Ints] = []
        for piece in reversed(self.prompt):
            if size <= 0:
                break
            pieces.append(piece[-size:])
            size -= len(pieces[-1])
        return (
            np.concatenate(pieces[::-1], dtype=np.int32) if pieces else np.empty(0, dtype=np.int32)
        )

    @property
    def prompt_length(self) -> int:
        """P: tokens of the prompt."""
        return sum(len(piece) for piece in self.prompt)


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """All calls of one rollout as token ids."""

    calls: tuple[CallTokens, ...]
    tokenizer: str
    """Name of the tokenizer the ids belong to; `unknown` for recorded ids of no named one."""
    rendering: str
    """`recorded`, or the name of the rule that turned messages into text."""
    warnings: tuple[str, ...] = ()
