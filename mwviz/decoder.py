"""Token ids back to text that a reader can see."""

from __future__ import annotations

from collections.abc import Sequence

from mwviz.encoding import Encoding
from mwviz.pieces import demo_pieces
from mwviz.rendering import RECORDED, RENDERED
from mwviz.rollout import Ints
from mwviz.tokenizer import (
    EMBEDDED_NAMES,
    WORDS,
    Tokenizer,
    Vocabulary,
    WordTokenizer,
    tokenizer_for,
)


class Decoder:
    """Ids of an encoding to what a reader sees; without a tokenizer, the ids themselves."""

    def __init__(self, encoding: Encoding, *, tokenizer: str | None = None) -> None:
        """`tokenizer` is the user's choice: only that, never a name in a trace, may be a path."""
        found: Tokenizer | None = None
        if encoding.vocabulary:
            found = WordTokenizer(encoding.vocabulary)
        elif encoding.pieces is None and encoding.tokenizer != WORDS:
            own = encoding.rendering not in (RECORDED, RENDERED) or encoding.tokenizer == tokenizer
            found = tokenizer_for(encoding.tokenizer, paths=own)
        self._tokenizer = found
        self._vocabulary: Vocabulary | None = encoding.pieces or found or _of_demos(encoding)
        self._shown: dict[int, str] = {}

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer of the ids; None if it is not here."""
        return self._tokenizer

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The texts of the tokens; None if they are not here."""
        return self._vocabulary

    @property
    def known(self) -> bool:
        """Whether the texts of the tokens are here."""
        return self._vocabulary is not None

    def decode(self, ids: Sequence[int] | Ints) -> list[str]:
        """One display text a token; bytes of a part of a character are escaped."""
        return [self._one(int(token)) for token in ids]

    def piece(self, token: int) -> bytes:
        """UTF-8 bytes of one token, which may be a part of a character; its number if not known."""
        piece = self._vocabulary.piece(token) if self._vocabulary else None
        return _number(token) if piece is None else piece

    def text(self, ids: Sequence[int] | Ints) -> str:
        """The text of all ids together, so that characters split over tokens come out whole."""
        return b"".join(self.piece(int(token)) for token in ids).decode("utf-8", "replace")

    def _one(self, token: int) -> str:
        if token not in self._shown:
            self._shown[token] = self.piece(token).decode("utf-8", "backslashreplace")
        return self._shown[token]


def _of_demos(encoding: Encoding) -> Vocabulary | None:
    """The texts of a demo's tokens, where the embedded model is not set up."""
    if not EMBEDDED_NAMES.search(encoding.tokenizer):
        return None
    known = demo_pieces()
    parts = (ids for call in encoding.calls for ids in (*call.prompt, call.completion))
    return known if known.cover(parts) else None


def _number(token: int) -> bytes:
    return f"\u2039{token}\u203a".encode()
