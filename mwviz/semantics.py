"""How the caches of a rollout were treated at junctions, as the log says, and what follows of it.

Under `re_prefill` a changed prompt is encoded from scratch. Under `kv_orig` the entries that stay
keep what they saw and where they stood; under `kv_reindex` they keep what they saw and move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, cast, get_args

from mwviz.errors import TraceError
from mwviz.rollout import Call, Rollout, Semantics

Taken = Literal["re_prefill", "kv_orig", "kv_reindex", "mixed"]
"""One word for all junctions; `mixed` where some kept entries and others encoded anew."""
KEEPING: tuple[Taken, ...] = ("kv_orig", "mixed")
"""Those under which `union_mask` is the truth."""

NOTES: dict[Taken, str] = {
    "re_prefill": "",
    "kv_orig": (
        "the cache kept entries at their positions: union_mask is the reference, and layouts that "
        "encode each context anew (logit_tree, packed_mask, ...) are a recompute, not the truth"
    ),
    "kv_reindex": (
        "the cache kept entries and moved them (kv_reindex): no position ids can express that, so "
        "only structure is shown and nothing is scored"
    ),
    "mixed": (
        "the cache kept entries at some junctions and was filled anew at others: union_mask, with "
        "a row from each re-prefill to the next, is the reference, and layouts that encode each "
        "context anew (logit_tree, packed_mask, ...) are a recompute behind what was kept"
    ),
}
UNKNOWN = "the log does not say how the cache was treated at junctions; taken as re-prefill"
UNKNOWN_SOME = "where the log does not say how the cache was treated, it is taken as re-prefill"
RECOMPUTE = "recompute: the cache kept entries, but this encodes each context anew"


def word_of(call: Call, rollout: Rollout) -> Semantics:
    """How the cache was treated at the junction before a call; `unknown` counts as re-prefill."""
    word = said_of(call, rollout)
    return "re_prefill" if word == "unknown" else word


def said_of(call: Call, rollout: Rollout) -> Semantics:
    """What the log says of that: the call's own word, else the rollout's."""
    return call.semantics or rollout.semantics


def words(rollout: Rollout) -> tuple[Semantics, ...]:
    """All words of a rollout's junctions, in order of their first one; its own if it has none."""
    return tuple(dict.fromkeys(said_of(call, rollout) for call in rollout.calls[1:])) or (
        rollout.semantics,
    )


def note(rollout: Rollout, taken: Taken) -> str:
    """What a reader must know of a rollout's caches; "" if nothing.

    Args:
        rollout: says how they were treated, or does not.
        taken: what that amounts to.
    """
    if "unknown" not in words(rollout):
        return NOTES[taken]
    return f"{NOTES[taken]}; {UNKNOWN_SOME}" if NOTES[taken] else UNKNOWN


def with_words(rollout: Rollout, told: Sequence[str]) -> Rollout:
    """The rollout as if its log said how the cache was treated at junctions.

    Args:
        rollout: may say otherwise; what is told here wins.
        told: `WORD` for all junctions, or `WORD:CALL,...` for those before calls, counted from 0; a
            later one wins.

    Raises:
        TraceError: a word is not known, or the rollout has no such call.
    """
    for one in told:
        word, _, places = one.partition(":")
        if word not in get_args(Semantics):
            known = ", ".join(get_args(Semantics))
            raise TraceError(f"semantics {word!r}: expected one of {known}, or WORD:CALL,...")
        said = cast("Semantics", word)
        if places:
            chosen = {_place(place, rollout) for place in places.split(",")}
            calls = tuple(
                replace(call, semantics=said) if index in chosen else call
                for index, call in enumerate(rollout.calls)
            )
        else:
            calls = tuple(replace(call, semantics=None) for call in rollout.calls)
            rollout = replace(rollout, semantics=said)
        rollout = replace(rollout, calls=calls)
    return rollout


def _place(text: str, rollout: Rollout) -> int:
    count = len(rollout.calls)
    if not (text.isascii() and text.isdigit() and int(text) < count):
        raise TraceError(
            f"rollout {rollout.id!r} has no call {text!r} whose junction could be treated so: "
            f"expected a number from 0 to {count - 1}"
        )
    return int(text)
