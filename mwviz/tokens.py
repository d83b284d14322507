"""Messages to token ids, with each message's span; recorded ids are passed through untouched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mwviz.decoder import Decoder
from mwviz.encoding import NO_IDS, CallTokens, Encoding
from mwviz.errors import SetupError
from mwviz.neutral import Neutral
from mwviz.rendering import NEUTRAL, RECORDED, RENDERED, placeholders
from mwviz.rollout import Call, Rollout
from mwviz.tokenizer import (
    EMBEDDED,
    EMBEDDED_NAMES,
    UNKNOWN,
    WORDS,
    Tokenizer,
    WordTokenizer,
    embedded_tokenizer,
    tokenizer_for,
)

__all__ = ["CallTokens", "Decoder", "Encoding", "encode", "tokenizer_for", "without_ids"]


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
    rendering = Neutral(rollout, _chosen(tokenizer))
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
