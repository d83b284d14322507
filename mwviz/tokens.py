"""Messages to token ids, with each message's span; recorded ids are passed through untouched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import InitVar, dataclass, field, replace
from operator import eq
from typing import NamedTuple

import numpy as np

from mwviz.decoder import Decoder
from mwviz.errors import SetupError
from mwviz.rendering import NEUTRAL, RECORDED, RENDERED, body, header, kind
from mwviz.rollout import Call, Ints, Message, Rollout, Span
from mwviz.sharing import Shared, begins
from mwviz.tokenizer import (
    EMBEDDED,
    EMBEDDED_NAMES,
    UNKNOWN,
    WORDS,
    Tokenizer,
    Vocabulary,
    WordTokenizer,
    embedded_tokenizer,
    tokenizer_for,
)

__all__ = ["CallTokens", "Decoder", "Encoding", "encode", "tokenizer_for", "without_ids"]

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


def encode(rollout: Rollout, tokenizer: str | Tokenizer | None = None) -> Encoding:
    """Token ids of all calls: as recorded, else of the messages in one neutral rendering.

    Args:
        rollout: Its recorded ids win; messages are used if some call has no ids.
        tokenizer: Name or tokenizer.json for messages, and the name of recorded ids that the log
            does not name; or a tokenizer itself. None takes the embedded model's, or the built-in
            one for messages.

    Raises:
        SetupError: The named tokenizer is not here.
    """
    recorded = [_is_recorded(call) for call in rollout.calls]
    written = [call.prompt is not None for call in rollout.calls]
    if all(recorded) or not all(written):
        name = tokenizer if isinstance(tokenizer, str | None) else tokenizer.name
        return _recorded(rollout, name, missing=recorded.count(False))
    own = None if isinstance(tokenizer, str | None) else tokenizer
    rendering = _Rendering(rollout, _chosen(tokenizer))
    warnings: tuple[str, ...] = ()
    if any(recorded):
        text = (
            f"{recorded.count(False)} of {len(recorded)} calls have no recorded token ids: all "
            "calls are rendered from their messages, so that they share one vocabulary"
        )
        warnings = (text,)
    warnings += placeholders(rendering.messages)
    calls = tuple(rendering.call(call) for call in rollout.calls)
    used = rendering.tokenizer
    words = used.words if isinstance(used, WordTokenizer) else ()
    return Encoding(calls, used.name, NEUTRAL, warnings, words, pieces=own)


def placeholders(messages: Iterable[Message]) -> tuple[str, ...]:
    """A warning if messages hold what no text stands for."""
    parts = [part for message in messages for part in message.parts]
    unread = sum(part.kind in ("image", "file") and not part.text for part in parts)
    if not unread:
        return ()
    return (
        f"{unread} images or files stand as a placeholder each: their own tokens are in no count",
    )


def without_ids(rollout: Rollout) -> Rollout:
    """The rollout as if no token had been recorded, to be rendered from its messages."""
    calls = tuple(
        replace(
            call,
            prompt_ids=None,
            completion_ids=None,
            logprobs=None,
            spans=None,
            kept=None,
            tokens="rendered",
        )
        for call in rollout.calls
    )
    return replace(rollout, calls=calls, tokenizer=None)


def _is_recorded(call: Call) -> bool:
    return call.prompt_ids is not None and (call.completion_ids is not None or not call.completion)


def _recorded(rollout: Rollout, tokenizer: str | None, *, missing: int) -> Encoding:
    chosen = tokenizer if tokenizer != WORDS else None
    named = rollout.tokenizer or chosen or _named_by_model(rollout.calls)
    warnings: list[str] = []
    if missing:
        warnings.append(
            f"{missing} calls have neither token ids nor messages for all of their text and count "
            "as empty"
        )
    if tokenizer and rollout.tokenizer and tokenizer != rollout.tokenizer:
        warnings.append(
            f"the ids were recorded with {rollout.tokenizer!r}, so {tokenizer!r} is not used"
        )
    calls = tuple(_call_tokens(call) for call in rollout.calls)
    made = any(c.prompt_ids is not None and c.tokens == "rendered" for c in rollout.calls)
    rendering = RENDERED if made else RECORDED
    return Encoding(calls, named or UNKNOWN, rendering, tuple(warnings))


def _call_tokens(call: Call) -> CallTokens:
    if not _is_recorded(call) or call.prompt_ids is None:
        return CallTokens((), NO_IDS, ())
    completion = NO_IDS if call.completion_ids is None else call.completion_ids
    return CallTokens((call.prompt_ids,), completion, call.spans or ())


def _named_by_model(calls: Iterable[Call]) -> str | None:
    """The embedded model's tokenizer where every call names that model."""
    models = {call.model or "" for call in calls}
    return EMBEDDED if all(EMBEDDED_NAMES.search(model) for model in models) else None


def _chosen(tokenizer: str | Tokenizer | None) -> Tokenizer:
    if tokenizer is None:
        return embedded_tokenizer() or WordTokenizer()
    if not isinstance(tokenizer, str):
        return tokenizer
    found = tokenizer_for(tokenizer)
    if found is None:
        raise SetupError(
            f"tokenizer {tokenizer!r} is not here; give a tokenizer.json, or set up {EMBEDDED} "
            "with `mwviz doctor --install-model`"
        )
    return found


class _Piece(NamedTuple):
    """One message in tokens."""

    header: Ints
    body: Ints
    identity: str
    role: str
    kind: str

    @property
    def size(self) -> int:
        """Tokens of header and body."""
        return len(self.header) + len(self.body)


class _Prompt(NamedTuple):
    """A prompt in tokens, kept for the call that continues it."""

    messages: Sequence[Message]
    pieces: Shared[Ints]
    spans: Shared[Span]
    size: int


class _Rendering:
    """The messages of a rollout in tokens, each one tokenised once."""

    def __init__(self, rollout: Rollout, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._latest: dict[str | None, _Prompt] = {}
        self.messages = messages = distinct(rollout.calls)
        headers = tokenizer.encode([header(message) for message in messages])
        bodies = tokenizer.encode([body(message) for message in messages])
        self._pieces = {
            id(message): _Piece(
                opening,
                content,
                message.id or message.content_key.hex(),
                message.role,
                kind(message),
            )
            for message, opening, content in zip(messages, headers, bodies, strict=True)
        }

    def call(self, call: Call) -> CallTokens:
        """The call: the header of its completion's first message belongs to the prompt."""
        prompt = self._prompt(call)
        after = [self._pieces[id(message)] for message in call.completion or ()]
        opening, *sampled = _arrays(after) or [NO_IDS]
        return CallTokens(
            prompt.pieces.extended([opening] if after else []),
            np.concatenate([*sampled, NO_IDS], dtype=np.int32),
            prompt.spans.extended(_spans(after, prompt.size), same=eq),
            size=prompt.size + len(opening),
        )

    def _prompt(self, call: Call) -> _Prompt:
        """The prompt in tokens; what it repeats of its lineage's call before is not made again."""
        messages = call.prompt or ()
        before = self._latest.get(call.lineage)
        if before is None or not begins(messages, before.messages):
            before = _Prompt((), Shared(), Shared(), 0)
        new = [self._pieces[id(message)] for message in messages[len(before.messages) :]]
        found = _Prompt(
            messages,
            before.pieces.extended(_arrays(new)),
            before.spans.extended(_spans(new, before.size), same=eq),
            before.size + sum(piece.size for piece in new),
        )
        self._latest[call.lineage] = found
        return found


def distinct(calls: Sequence[Call]) -> list[Message]:
    """Message objects in order of their first appearance; repeated prompts are not walked again."""
    found: dict[int, Message] = {}
    latest: dict[str | None, Sequence[Message]] = {}
    for call in calls:
        prompt = call.prompt or ()
        before = latest.get(call.lineage, ())
        new = prompt[len(before) :] if begins(prompt, before) else prompt
        for message in (*new, *(call.completion or ())):
            found.setdefault(id(message), message)
        latest[call.lineage] = prompt
    return list(found.values())


def _arrays(pieces: Iterable[_Piece]) -> list[Ints]:
    return [array for piece in pieces for array in (piece.header, piece.body)]


def _spans(pieces: Iterable[_Piece], start: int) -> list[Span]:
    found: list[Span] = []
    for piece in pieces:
        end = start + piece.size
        found.append(Span(start, end, piece.identity, piece.role, piece.kind))
        start = end
    return found
