"""Recorded token ids against what their own text gives when it is tokenised again.

A sampled text need not be cut into tokens the way the tokenizer cuts it, so a trainer that decodes
and encodes anew trains other ids than were sampled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mwviz.encoding import Encoding
from mwviz.rendering import RECORDED
from mwviz.rollout import Ints
from mwviz.tokenizer import Tokenizer

MOST = 4_000_000
"""Prompt tokens of one rollout that are tokenised again; more are left out, and said."""


@dataclass(frozen=True, slots=True)
class Retokenised:
    """How much of a rollout would change if its text were tokenised again."""

    completions: int
    """Completions with at least one token."""
    changed_completions: int
    """Those that come back as other ids."""
    prompts: int | None
    """Prompts with at least one token; None if they are too long together to be tried."""
    changed_prompts: int | None


def retokenised(encoding: Encoding, tokenizer: Tokenizer | None) -> Retokenised | None:
    """What comes back from recorded ids; None for rendered ones or without their tokenizer.

    Special tokens stay what they are: only the text between them is tokenised again.
    """
    if encoding.rendering != RECORDED or tokenizer is None:
        return None
    again = _Again(tokenizer)
    completions = [call.completion for call in encoding.calls if len(call.completion)]
    changed = sum(not again.same(ids) for ids in completions)
    prompts = [call.head(call.prompt_length) for call in encoding.calls if call.prompt_length]
    if sum(map(len, prompts)) > MOST:
        return Retokenised(len(completions), changed, None, None)
    return Retokenised(
        len(completions), changed, len(prompts), sum(not again.same(ids) for ids in prompts)
    )


class _Again:
    """Ids to text and back; a stretch of ids that recurs is tried once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[bytes, bool] = {}

    def same(self, ids: Ints) -> bool:
        """Whether all stretches between special tokens come back as they are."""
        return all(self._stretch(stretch) for stretch in self._between(ids))

    def _between(self, ids: Ints) -> Iterator[Ints]:
        special = [at for at, token in enumerate(ids.tolist()) if self._tokenizer.special(token)]
        start = 0
        for end in (*special, len(ids)):
            if end > start:
                yield ids[start:end]
            start = end + 1

    def _stretch(self, ids: Ints) -> bool:
        key = ids.tobytes()
        if key not in self._known:
            pieces = [self._tokenizer.piece(token) for token in ids.tolist()]
            self._known[key] = None not in pieces and self._returns(
                ids, b"".join(piece for piece in pieces if piece is not None)
            )
        return self._known[key]

    def _returns(self, ids: Ints, text: bytes) -> bool:
        try:
            (found,) = self._tokenizer.encode([text.decode("utf-8")])
        except UnicodeDecodeError:
            return False
        return np.array_equal(found, ids)
