"""How a rollout's cache was treated at junctions, as the log says it, and what follows for scores.

Under `re_prefill` a changed prompt is encoded from scratch. Under `kv_orig` the entries that stay
keep what they saw and where they stood; under `kv_reindex` they keep what they saw and move.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from mwviz.rollout import Rollout

Taken = Literal["re_prefill", "kv_orig", "kv_reindex", "mixed"]

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
        "the log says kv_orig or kv_reindex for some junctions and not for others: no single row "
        "can express that, so only structure is shown and nothing is scored"
    ),
}
UNKNOWN = "the log does not say how the cache was treated at junctions; taken as re-prefill"
RECOMPUTE = "recompute: the cache kept entries, but this encodes each context anew"


class Semantics(NamedTuple):
    """What the log's word is taken for."""

    taken: Taken
    note: str
    """What a reader must know; "" if nothing."""


def semantics(rollout: Rollout) -> Semantics:
    """How the cache of a rollout is taken to have been treated.

    A call's own word counts for the junction before it; `unknown` counts as re-prefill.
    """
    said = {call.semantics or rollout.semantics for call in rollout.calls[1:]}
    said = said or {rollout.semantics}
    counted = {"re_prefill" if word == "unknown" else word for word in said}
    if len(counted) > 1:
        return Semantics("mixed", NOTES["mixed"])
    (word,) = counted
    note = UNKNOWN if "unknown" in said else NOTES[word]
    return Semantics(word, note)
