"""Whose tokens a rollout is in: as recorded, or as a model reads its messages.

A model that recorded ids belong to reads them as they are. Every other rollout it reads by its own
chat template, each call as it would be sent; without a template that takes the calls, by the
neutral rule in its own tokenizer.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

import tokenizers

from mwviz.encoding import Encoding
from mwviz.rendering import RECORDED
from mwviz.rollout import Call, Rollout
from mwviz.templated import templated
from mwviz.templates import RefusedError, has_template
from mwviz.tokenizer import UNKNOWN, FastTokenizer
from mwviz.tokens import encode

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Reader(Protocol):
    """What reads tokens: a loaded model, or its tokenizer alone."""

    @property
    def name(self) -> str:
        """For people."""

    @property
    def base(self) -> str:
        """Name without the adapters': whose tokenizer it has."""

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase | None:
        """None if it came without one."""


class TokenizerOnly(NamedTuple):
    """A model of which only the tokenizer is here: enough to count, not to score."""

    name: str
    base: str
    tokenizer: PreTrainedTokenizerBase | None


def reads(reader: Reader, encoding: Encoding) -> bool:
    """Whether the ids are of the reader's tokenizer, as far as their names tell."""
    name = encoding.tokenizer
    if encoding.rendering == RECORDED and name == UNKNOWN:
        return True
    return _short(name) == _short(reader.base)


def told(rollout: Rollout) -> bool:
    """Whether the text of every call is there, so that it can be rendered."""
    return all(call.prompt is not None and _answered(call) for call in rollout.calls)


def own_tokens(rollout: Rollout, reader: Reader) -> Encoding:
    """A rollout without ids as the reader would be sent it.

    Raises:
        SetupError: neither the reader nor this machine has its tokenizer.
    """
    tokenizer = reader.tokenizer
    fast = tokenizer if getattr(tokenizer, "is_fast", False) else None
    own = None if fast is None else _display(fast, reader.base)
    if not has_template(tokenizer):
        return encode(rollout, own or reader.base)
    try:
        return templated(rollout, tokenizer, reader.base, own)
    except RefusedError as error:
        found = encode(rollout, own or reader.base)
        text = f"the chat template of {reader.base} refuses a call ({error}): rendered neutrally"
        return replace(found, warnings=(*found.warnings, text))


def _answered(call: Call) -> bool:
    return call.completion is not None or call.completion_ids is None


def _short(name: str) -> str:
    return name.rsplit("/", 1)[-1].lower()


@lru_cache(maxsize=2)
def _display(tokenizer: PreTrainedTokenizerBase, name: str) -> FastTokenizer:
    """A copy that tokenises without the template; large ones take a second."""
    copy = tokenizers.Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    return FastTokenizer(copy, name)
