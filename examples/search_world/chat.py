"""Messages to token ids and back, by the chat markup that many small models share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np
from tokenizers import Tokenizer

from mwviz.engine import embedded
from mwviz.errors import SetupError
from mwviz.rollout import Ints


class Codec(Protocol):
    """What turns text into ids; `tokenizers.Tokenizer` behind `Chat.embedded`, a toy in tests."""

    def encode(self, text: str) -> Sequence[int]:
        """Ids of a text, without any that mark its start or end."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text again, marks left out."""


class Chat:
    """`<start>role`, a line end, the content, `<stop>`, a line end."""

    def __init__(self, codec: Codec, *, start: int, stop: int) -> None:
        self._codec = codec
        self._start = start
        self.stop = stop
        """The id with which a completion ends."""
        self.closing = self._array([stop, *codec.encode("\n")])

    @classmethod
    def embedded(cls) -> Chat:
        """The chat of the embedded model.

        Raises:
            SetupError: it is not installed.
        """
        file = embedded.tokenizer_file()
        if file is None:
            raise SetupError(
                f"{embedded.EMBEDDED} is not installed; run: mwviz doctor --install-model"
            )
        return _embedded(str(file))

    def header(self, role: str) -> Ints:
        """What opens a message."""
        return self._array([self._start, *self._codec.encode(f"{role}\n")])

    def encode(self, text: str) -> Ints:
        """Ids of a content."""
        return self._array(self._codec.encode(text))

    def decode(self, ids: Ints) -> str:
        """A content from its ids."""
        return self._codec.decode([int(token) for token in ids])

    def _array(self, ids: Sequence[int]) -> Ints:
        return np.array(ids, dtype=np.int32)


class _Tokenizers:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str) -> Sequence[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return text


@lru_cache(maxsize=1)
def _embedded(file: str) -> Chat:
    tokenizer = Tokenizer.from_file(file)
    start, stop = (tokenizer.token_to_id(mark) for mark in ("<|im_start|>", "<|im_end|>"))
    assert start is not None
    assert stop is not None
    return Chat(_Tokenizers(tokenizer), start=start, stop=stop)
