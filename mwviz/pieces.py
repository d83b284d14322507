"""Texts of tokens that are known without their tokenizer: kept with a rollout, or of a demo."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np

from mwviz.rollout import Ints

DEMO_PIECES = Path(__file__).parent / "demo" / "pieces.json"
"""Of every token that a demo holds: `texts` by id, where a byte of no whole character is half a
surrogate pair, and the `special` ids, which no text gives."""


class Pieces:
    """The texts of the tokens that occur in a rollout."""

    def __init__(self, texts: dict[int, bytes], special: frozenset[int]) -> None:
        self._texts = texts
        self._special = special

    def piece(self, token: int) -> bytes | None:
        """UTF-8 bytes of a token; None for one that does not occur, or was not known."""
        return self._texts.get(token)

    def special(self, token: int) -> bool:
        """Whether no text ever gives the token."""
        return token in self._special

    def cover(self, parts: Iterable[Ints]) -> bool:
        """Whether the text of every token of all parts is known."""
        return all(token in self._texts for ids in parts for token in np.unique(ids).tolist())


@cache
def demo_pieces() -> Pieces:
    """The tokens of the demos, which read as text whether or not a model is installed."""
    told = json.loads(DEMO_PIECES.read_text())
    texts = {
        int(token): text.encode(errors="surrogateescape") for token, text in told["texts"].items()
    }
    return Pieces(texts, frozenset(told["special"]))
