"""Text to token ids and ids to display text; it looks only at files that are already here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Protocol

import numpy as np
import tokenizers

from mwviz.errors import SetupError, refused
from mwviz.rollout import Ints

UNKNOWN = "unknown"
"""Name of the tokenizer of recorded ids that no one named."""
WORDS = "words/1"
"""Name of the built-in tokenizer."""
EMBEDDED = "SmolLM2-135M-Instruct"
"""Name of the embedded model, whose tokenizer is used where it is set up."""
EMBEDDED_NAMES = re.compile(r"smollm2[-_ ]135m([-_ ]instruct)?(?![a-z0-9])", re.IGNORECASE)
"""How logs spell it, with an organisation before or a precision behind."""
WORD = re.compile(r" ?\w{1,24}| ?[^\w\s]|\s")
"""One built-in token: a word, a sign or a white space character. Every character is in one."""
BATCH = 1 << 18
"""Characters tokenised at once: the library needs some 200 bytes for each until it is done."""
LONG = 1 << 14
"""Characters from which on a text is cut in front of a single space between two words.

Byte-level tokenizers begin a word there whatever stands before, so the ids stay the same.
"""
CUT = re.compile(rf".{{{LONG}}}.*?\S(?= \S)", re.DOTALL)


class Vocabulary(Protocol):
    """What display needs of a tokenizer."""

    def piece(self, token: int) -> bytes | None:
        """UTF-8 bytes of a token, perhaps a part of a character; None for an unknown id."""

    def special(self, token: int) -> bool:
        """Whether no text ever gives the token."""


class Tokenizer(Vocabulary, Protocol):
    """What encoding needs besides."""

    name: str

    def encode(self, texts: Sequence[str]) -> list[Ints]:
        """Ids of each text, without special tokens."""


class WordTokenizer:
    """Words, signs and spaces, numbered as they appear; needs nothing installed."""

    def __init__(self, words: Sequence[str] = ()) -> None:
        self.name = WORDS
        self._words = list(words)
        self._ids = {word: at for at, word in enumerate(words)}

    @property
    def words(self) -> tuple[str, ...]:
        """The words in order of their ids."""
        return tuple(self._words)

    def encode(self, texts: Sequence[str]) -> list[Ints]:
        """Ids of each text; new words get the next free id."""
        return [
            np.fromiter((self._id(word.group()) for word in WORD.finditer(text)), dtype=np.int32)
            for text in texts
        ]

    def piece(self, token: int) -> bytes | None:
        """The word of an id."""
        known = 0 <= token < len(self._words)
        return self._words[token].encode("utf-8", "replace") if known else None

    def special(self, token: int) -> bool:
        """Never: every word is text."""
        return not 0 <= token < len(self._words)

    def _id(self, word: str) -> int:
        found = self._ids.setdefault(word, len(self._ids))
        if found == len(self._words):
            self._words.append(word)
        return found


class FastTokenizer:
    """What a `tokenizer.json` says; text that looks like a special token stays text.

    Args:
        tokenizer: is changed, and must be nobody else's.
        name: of it.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer, name: str) -> None:
        self.name = name
        self._tokenizer = tokenizer
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._tokenizer.encode_special_tokens = True
        self._added = {
            token: added.content
            for token, added in self._tokenizer.get_added_tokens_decoder().items()
        }
        self._bytes = (
            _byte_of_char() if "ByteLevel" in _decoders(self._tokenizer.to_str()) else None
        )

    def encode(self, texts: Sequence[str]) -> list[Ints]:
        """Ids of each text, without special tokens."""
        pieces = [_cut(text) if self._bytes is not None else [text] for text in texts]
        ids = (
            np.array(encoded.ids, dtype=np.int32)
            for batch in _batches(chain.from_iterable(pieces))
            for encoded in self._tokenizer.encode_batch_fast(batch, add_special_tokens=False)
        )
        return [_joined(list(islice(ids, len(piece)))) for piece in pieces]

    def special(self, token: int) -> bool:
        """Whether the token was added to the vocabulary, so that text does not give it."""
        return token in self._added

    def piece(self, token: int) -> bytes | None:
        """UTF-8 bytes of a token."""
        if token in self._added:
            return self._added[token].encode()
        text = self._tokenizer.id_to_token(token)
        if text is None:
            return None
        if self._bytes is not None and all(char in self._bytes for char in text):
            return bytes(self._bytes[char] for char in text)
        if re.fullmatch(r"<0x[0-9A-F]{2}>", text):
            return bytes([int(text[3:5], 16)])
        return text.replace("\u2581", " ").encode()


def _cut(text: str) -> list[str]:
    """The text in pieces that a byte-level tokenizer reads as it reads the whole."""
    found: list[str] = []
    at = 0
    while len(text) - at > LONG and (match := CUT.match(text, at)):
        found.append(match.group())
        at = match.end()
    return [*found, text[at:]]


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Lists of texts of about `BATCH` characters together."""
    batch: list[str] = []
    size = 0
    for text in texts:
        if size + len(text) > BATCH and batch:
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch


def _joined(arrays: list[Ints]) -> Ints:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, dtype=np.int32)


def tokenizer_for(name: str, *, paths: bool = True) -> Tokenizer | None:
    """The tokenizer of that name, None if it is not here. Nothing is ever downloaded.

    Args:
        name: A spelling of the embedded model's name, or a tokenizer.json or the folder of one.
        paths: Whether the name may be a path: only if a user gave it, never from a trace.

    Raises:
        SetupError: The file is there but cannot be read, or holds no tokenizer.
    """
    if EMBEDDED_NAMES.search(name):
        return embedded_tokenizer()
    if name == WORDS:
        return WordTokenizer()
    if not paths:
        return None
    path = Path(name)
    with refused(SetupError, name, "a tokenizer.json of Hugging Face that can be read"):
        path = path / "tokenizer.json" if path.is_dir() else path
        return _read(path, name) if path.is_file() else None


def _read(path: Path, name: str) -> Tokenizer:
    try:
        found = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise SetupError(
            f"{path}: no tokenizer ({error}), expected a tokenizer.json of Hugging Face"
        ) from error
    return FastTokenizer(found, name)


def embedded_tokenizer() -> Tokenizer | None:
    """The embedded model's tokenizer, None if it is not set up."""
    embedded = import_module("mwviz.engine.embedded")
    path = embedded.tokenizer_file()
    return None if path is None else _embedded(path)


@lru_cache(maxsize=1)
def _embedded(path: Path) -> Tokenizer:
    return _read(path, EMBEDDED)


def _decoders(tokenizer: str) -> set[str]:
    """Types of the decoding steps that a tokenizer.json names."""
    decoder = json.loads(tokenizer).get("decoder") or {}
    steps = decoder.get("decoders", [decoder])
    return {step.get("type", "") for step in steps}


def _byte_of_char() -> dict[str, int]:
    """GPT-2's letters for bytes: printable ones stand for themselves, the rest from U+0100 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(256 + at): byte for at, byte in enumerate(others)}
