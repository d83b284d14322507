"""The calls of a rollout as token ids, each prompt in pieces that calls share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field

import numpy as np

from mwviz.rollout import Ints, Span
from mwviz.sharing import Shared
from mwviz.tokenizer import Vocabulary

NO_IDS = np.empty(0, dtype=np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class CallTokens:
    """The tokens of one call. Calls that repeat a message share its array."""

    prompt: Sequence[Ints]
    """int32 pieces (header and body of each message where rendered) that joined are the prompt."""
    completion: Ints
    """int32 (O,)."""
    spans: Sequence[Span]
    """Messages within prompt + completion, by token; empty if the log knows no messages."""
    prompt_length: int = field(init=False)
    """P: tokens of the prompt."""
    size: InitVar[int | None] = None
    """P where it is known; None counts the pieces."""

    def __post_init__(self, size: int | None) -> None:
        counted = sum(map(len, self.prompt)) if size is None else size
        object.__setattr__(self, "prompt_length", counted)

    @property
    def context(self) -> Ints:
        """int32 (P + O,): prompt and completion in one array."""
        return np.concatenate((*self.prompt, self.completion), dtype=np.int32)

    def shared_with(self, other: CallTokens) -> int:
        """Tokens that both start with, as far as that is known without looking at any."""
        if not (isinstance(self.prompt, Shared) and self.prompt.shares(other.prompt)):
            return 0
        return min(self.prompt_length, other.prompt_length)

    def behind(self, size: int) -> Ints:
        """int32: the context without its first `size` tokens, which are of the prompt."""
        rest = (self.prompt_tail(self.prompt_length - size), self.completion)
        return np.concatenate(rest, dtype=np.int32)

    def head(self, size: int) -> Ints:
        """int32: the first `size` tokens of the context, without joining all of it."""
        pieces: list[Ints] = []
        for piece in (*self.prompt, self.completion):
            if size <= 0:
                break
            pieces.append(piece[:size])
            size -= len(pieces[-1])
        return np.concatenate(pieces, dtype=np.int32) if pieces else NO_IDS

    def prompt_tail(self, size: int) -> Ints:
        """int32: the last `size` tokens of the prompt."""
        pieces: list[Ints] = []
        for piece in reversed(self.prompt):
            if size <= 0:
                break
            pieces.append(piece[-size:])
            size -= len(pieces[-1])
        return np.concatenate(pieces[::-1], dtype=np.int32) if pieces else NO_IDS


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """All calls of one rollout as token ids."""

    calls: tuple[CallTokens, ...]
    tokenizer: str
    """Name of the tokenizer the ids belong to; `unknown` for recorded ids of no named one."""
    rendering: str
    """`recorded`, or the name of the rule that turned messages into text, `rendered` if the log
    holds the ids of a rendering."""
    warnings: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] = ()
    """Words of the built-in tokenizer by id; empty for every other one."""
    pieces: Vocabulary | None = None
    """Texts of the tokens, where the tokenizer is not one that its name finds again."""
