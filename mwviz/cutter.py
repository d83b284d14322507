"""Text to the ids that a model's tokenizer gives it, with the place of each.

Calls repeat one another's text. Where the tokenizer cuts at special tokens first, what stands
between two of them is cut once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from mwviz.rollout import Ints

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Longs = npt.NDArray[np.int64]
TRIED = 3
"""Texts that are cut both ways before cutting between special tokens is trusted."""


class Cut(NamedTuple):
    """One text in tokens."""

    pieces: Sequence[Ints]
    """int32 each, joined all ids; texts that share a piece share its array."""
    starts: Longs
    """int64 (T,): character at which each token begins."""

    @property
    def ids(self) -> Ints:
        """int32 (T,): of all tokens."""
        return np.concatenate((np.empty(0, dtype=np.int32), *self.pieces), dtype=np.int32)


class Cutter:
    """One tokenizer; equal pieces are cut once."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self._known: dict[str, tuple[Ints, Longs]] = {}
        self._border = _borders(tokenizer)
        self._tried = 0

    def cut(self, text: str) -> Cut:
        """The tokens of a text."""
        if self._border is None or self._tried < TRIED:
            whole = self._piece(text)
            if self._border is not None:
                self._tried += 1
                if not np.array_equal(whole[0], self._parted(text).ids):
                    self._border = None
            return Cut((whole[0],), whole[1])
        return self._parted(text)

    def _parted(self, text: str) -> Cut:
        """The text cut at its special tokens first."""
        assert self._border is not None
        at, pieces, starts = 0, [], [np.empty(0, dtype=np.int64)]
        for part in self._border.split(text):
            if part not in self._known:
                self._known[part] = self._piece(part)
            ids, begins = self._known[part]
            pieces.append(ids)
            starts.append(begins + at)
            at += len(part)
        return Cut(pieces, np.concatenate(starts))

    def _piece(self, text: str) -> tuple[Ints, Longs]:
        if not text:
            return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64)
        found = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        starts = np.array([start for start, _ in found["offset_mapping"]], dtype=np.int64)
        return np.array(found["input_ids"], dtype=np.int32), starts


@lru_cache(maxsize=2)
def _borders(tokenizer: PreTrainedTokenizerBase) -> re.Pattern[str] | None:
    """Special tokens that are cut out before all else; None if a piece depends on its place.

    The whole tokenizer is written out to ask: large ones take a second.
    """
    fast = tokenizer.backend_tokenizer
    said = json.loads(fast.to_str())
    steps = said.get("pre_tokenizer") or {}
    if "ByteLevel" not in {step.get("type") for step in steps.get("pretokenizers", [steps])}:
        return None
    plain = [
        token.content
        for token in fast.get_added_tokens_decoder().values()
        if token.special
        and not (token.lstrip or token.rstrip or token.single_word or token.normalized)
    ]
    longest_first = sorted(filter(None, plain), key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, longest_first))})") if plain else None
