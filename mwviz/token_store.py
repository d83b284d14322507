"""Keeps the tokens that a model reads a rollout in, so that who shows them needs no tokenizer.

One .npz a key beside the scores, without pickles. A file that cannot be read counts as absent.
Letters: C calls, S spans of all calls, V different token ids.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mwviz import store
from mwviz.decoder import Decoder
from mwviz.encoding import CallTokens, Encoding
from mwviz.pieces import Pieces
from mwviz.prefix import common_prefix
from mwviz.rollout import Message, Rollout, Span

VERSION = 1
"""Raised when the meaning of a file changes; other versions count as absent."""

Arrays = dict[str, Any]
_KINDS = {
    "ids": np.int32,
    "shared": np.int64,
    "sizes": np.int64,
    "spans": np.int64,
    "vocabulary": np.int32,
    "ends": np.int64,
    "special": np.bool_,
    "text": np.uint8,
}
"""Arrays of a file: ids that a call does not share with the one before, how many it does, tokens
(C, 2) of prompt and completion; spans (S, 6) as call, start, end and places in the list of words;
ids (V,) that occur, where the text of each ends, whether it is special, and all texts."""


class TokenKey(NamedTuple):
    """What a rollout's tokens depend on; the app and the worker both know it."""

    words: str
    """Digest of what the messages say: see `words`."""
    model: str
    """Name and revision, as `Scores.model` has them."""
    trace: str
    """`Analysis.digest` of the tokens, as the keys of scores have it."""


def words(rollout: Rollout) -> str:
    """Hex digest of all that a template is given: the messages of each call, and how it ended."""
    digest = hashlib.blake2b(digest_size=16)
    known: dict[int, bytes] = {}
    for call in rollout.calls:
        for part in (call.prompt, call.completion):
            digest.update(b"-" if part is None else str(len(part)).encode())
            for message in part or ():
                if id(message) not in known:
                    known[id(message)] = _key(message)
                digest.update(known[id(message)])
        digest.update(f"{call.finish!r}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _key(message: Message) -> bytes:
    about = f"{message.id!r} {message.mark!r}\n".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(message.content_key + about, digest_size=16).digest()


def save(key: TokenKey, encoding: Encoding) -> Path:
    """Writes tokens under a key; the file appears whole or not at all.

    Raises:
        SetupError: The cache folder cannot be written.
    """
    path = _path(key)
    with store.replaced(path) as stream:
        _write(stream, key, encoding)
    return path


def load(key: TokenKey) -> Encoding | None:
    """The tokens kept under a key; None if there are none that can be read."""
    path = _path(key)
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as archive:
            meta = json.loads(archive["meta"].tobytes())
            held: Arrays = {name: archive[name] for name in _KINDS}
        if meta["version"] != VERSION or meta["key"] != key._asdict():
            return None
        return _encoding(meta, held)
    except store.DAMAGE:
        return None


def _path(key: TokenKey) -> Path:
    return store.path_of(key, ".tokens.npz")


def _write(stream: IO[bytes], key: TokenKey, encoding: Encoding) -> None:
    named = dict.fromkeys(
        text for call in encoding.calls for span in call.spans for text in span[2:]
    )
    place = {text: at for at, text in enumerate(named)}
    spans = [
        (at, span.start, span.end, *(place[text] for text in span[2:]))
        for at, call in enumerate(encoding.calls)
        for span in call.spans
    ]
    shared, rests = _apart(encoding.calls)
    sizes = [(call.prompt_length, len(call.completion)) for call in encoding.calls]
    ids = np.concatenate([np.empty(0, dtype=np.int32), *rests])
    arrays: Arrays = {
        "ids": ids,
        "shared": np.array(shared, dtype=np.int64),
        "sizes": np.array(sizes, dtype=np.int64).reshape(-1, 2),
        "spans": np.array(spans, dtype=np.int64).reshape(-1, 6),
        **_texts(encoding, np.unique(ids)),
    }
    meta = {
        "version": VERSION,
        "key": key._asdict(),
        "tokenizer": encoding.tokenizer,
        "rendering": encoding.rendering,
        "warnings": list(encoding.warnings),
        "words": list(named),
    }
    told = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    np.savez_compressed(stream, meta=told, **arrays)


def _apart(calls: Iterable[CallTokens]) -> tuple[list[int], list[npt.NDArray[np.int32]]]:
    """Tokens that each call shares with the one before at the start, and those that follow."""
    before = np.empty(0, dtype=np.int32)
    shared, rests = [], []
    for call in calls:
        context = call.context
        same = common_prefix(before, context)
        shared.append(same)
        rests.append(context[same:])
        before = context
    return shared, rests


def _texts(encoding: Encoding, ids: npt.NDArray[np.int32]) -> Arrays:
    decoder = Decoder(encoding)
    known = decoder.vocabulary
    texts = [] if known is None else [known.piece(token) for token in ids.tolist()]
    told = [at for at, text in enumerate(texts) if text is not None]
    parts = [text for text in texts if text is not None]
    special = [known is not None and known.special(int(ids[at])) for at in told]
    return {
        "vocabulary": ids[told],
        "ends": np.array(list(accumulate(map(len, parts))), dtype=np.int64),
        "special": np.array(special, dtype=np.bool_),
        "text": np.frombuffer(b"".join(parts), dtype=np.uint8),
    }


def _encoding(meta: dict[str, Any], held: Arrays) -> Encoding:
    """Tokens from the two halves of a file; what does not fit together raises ValueError."""
    for name, kind in _KINDS.items():
        if held[name].dtype != kind:
            raise ValueError(f"{name} is {held[name].dtype}, expected {kind.__name__}")
    warnings = tuple(str(warning) for warning in meta["warnings"])
    tokenizer, rendering = str(meta["tokenizer"]), str(meta["rendering"])
    calls = tuple(_calls(held, [str(word) for word in meta["words"]]))
    return Encoding(calls, tokenizer, rendering, warnings, pieces=_pieces(held))


def _calls(held: Arrays, named: list[str]) -> Iterator[CallTokens]:
    spans: list[list[Span]] = [[] for _ in held["shared"]]
    for call, start, end, *places in held["spans"].tolist():
        spans[call].append(Span(start, end, *(named[at] for at in places)))
    before, at = np.empty(0, dtype=np.int32), 0
    for shared, (prompt, completion), own in zip(
        held["shared"].tolist(), held["sizes"].tolist(), spans, strict=True
    ):
        rest = held["ids"][at : at + prompt + completion - shared]
        before = np.concatenate((before[:shared], rest))
        if len(before) != prompt + completion:
            raise ValueError(f"{len(before)} ids of a call, expected {prompt + completion}")
        at += len(rest)
        yield CallTokens((before[:prompt],), before[prompt:], tuple(own))


def _pieces(held: Arrays) -> Pieces:
    text, ends = held["text"].tobytes(), held["ends"].tolist()
    ids, special = held["vocabulary"].tolist(), held["special"].tolist()
    starts = [0, *ends][: len(ends)]
    texts = {token: text[start:end] for token, start, end in zip(ids, starts, ends, strict=True)}
    return Pieces(texts, frozenset(t for t, one in zip(ids, special, strict=True) if one))
