"""For which cache semantics a view is exact on a rollout, and why not for the others.

Counted, not looked up: a view is exact if each sampled token that can be trained is trained once,
with equal weight, and sees just what it saw when it was sampled, at the true distances, in states
computed from the true contexts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from mwviz.analysis import Analysis
from mwviz.judging import CLASSES
from mwviz.pairs import Pairs, count_pairs
from mwviz.semantics import NOTES
from mwviz.tree import EvictionTree
from mwviz.views import METHODS
from mwviz.views.cache import cache_refusal, held_rows
from mwviz.views.view import View

Level = Literal["exact", "first_order", "naive"]

WORDS = {
    "re_prefill": "re-prefill",
    "kv_orig": "kept caches",
    "mixed": "caches kept and filled anew as the log says",
}
"""The semantics that a view can be exact for, in words."""
OTHERS = (*(name for name in CLASSES if name != "agree"), "duplicate")
"""Classes and flags of pairs that change what is seen, not only where or in which state."""


@dataclass(frozen=True, slots=True)
class Badge:
    """What may be claimed of a view on one rollout."""

    label: str
    """A few words for a table or a chip."""
    exact_for: tuple[str, ...]
    """Cache semantics under which it is exact on this rollout: `re_prefill`, `kv_orig`, or `mixed`
    for a rollout of both."""
    why: str
    """Why it is not exact under the rollout's own semantics, in sentences; "" if it is."""
    level: Level
    """`exact` under the rollout's own semantics. `first_order`: every token is trained and sees
    the right tokens, but in states, or at distances, that are not the true ones. Else `naive`."""


def badge(analysis: Analysis, view: str) -> Badge:
    """The badge of a method or of a trainer's batch, for the rollout's own semantics.

    Raises:
        ViewError: no view has this name, or it cannot lay the rollout out.
    """
    tree, laid = analysis.tree, analysis.view(view)
    pairs, own = analysis.pairs(view), analysis.batches.get(view)
    faults = _faults(tree, laid)
    if own is not None and own.unaligned:
        faults.append(f"Its tokens that are in no context of the rollout: {own.unaligned:,}.")
    exact_for = () if faults else _exact_for(tree, laid, pairs)
    if tree.semantics in exact_for:
        return Badge("exact", exact_for, "", "exact")
    right = not faults and not _other(pairs).any()
    level: Level = "first_order" if right else "naive"
    note = unknown_caches(tree) or NOTES[tree.semantics] * (tree.semantics not in WORDS)
    if note:
        return Badge("structure only", exact_for, f"{note[0].upper()}{note[1:]}.", level)
    told = [*faults, *_departures(pairs)]
    told += [method.why_not for method in METHODS if method.name == view and method.why_not]
    return Badge(_label(exact_for, pairs, right=right), exact_for, " ".join(told), level)


def unknown_caches(tree: EvictionTree) -> str:
    """Why what the caches held cannot be said though entries were kept; "" if it can."""
    refusal = cache_refusal(tree) if tree.keeps_entries else ""
    return refusal and (
        f"the cache kept entries, but pairs are counted as if contexts were encoded anew: {refusal}"
    )


def _label(exact_for: tuple[str, ...], pairs: Pairs, *, right: bool) -> str:
    if right:
        tainted = pairs.totals["tainted"] > 0
        return f"first order perfect, {'tainted' if tainted else 'shifted'}"
    words = " and ".join(WORDS[word] for word in exact_for)
    return f"exact for {words} only" if words else "not exact"


def _faults(tree: EvictionTree, view: View) -> list[str]:
    """What is wrong with the weights of the loss terms, whatever they see."""
    weight = np.zeros(view.targets)
    for row in view.rows:
        np.add.at(weight, row.edges.target, row.edges.weight)
    times = view.multiplicity
    trainable = tree.query >= 0
    missing = int(np.count_nonzero(trainable & (times == 0)))
    repeated = int(np.count_nonzero(times > 1))
    trained = weight[times > 0]
    found = []
    if missing:
        total = int(np.count_nonzero(trainable))
        found.append(f"Sampled tokens that it does not train: {missing:,} of {total:,}.")
    if repeated:
        found.append(f"Tokens that it trains more than once: {repeated:,}.")
    elif len(trained) and not np.allclose(trained, trained[0]):
        found.append("It trains tokens with different weights.")
    return found


def _exact_for(tree: EvictionTree, view: View, pairs: Pairs) -> tuple[str, ...]:
    """The semantics under which every pair agrees, at its place and untainted."""
    anew = _pairs(tree, view, "re_prefill") if tree.keeps_entries else pairs
    found = ["re_prefill"] if _true(anew) else []
    if not len(tree.junction_calls):
        # Nothing ever left a context, so a cache held what encoding anew gives.
        return ("re_prefill", "kv_orig") if found else ()
    if tree.keeps_entries:
        own = not cache_refusal(tree) and _true(pairs)
        return (*found, tree.semantics) if own else tuple(found)
    kept = not cache_refusal(tree) and _in_place(tree, view)
    kept = kept and _true(_pairs(tree, view, "kv_orig"))
    return (*found, "kv_orig") if kept else tuple(found)


def _in_place(tree: EvictionTree, view: View) -> bool:
    """Whether every row hides evicted entries and stands as some agent's cache did."""
    rows = held_rows(tree)
    places = np.full((len(rows), tree.size), -1, dtype=np.int64)
    for place, held in zip(places, rows, strict=True):
        place[tree.origin[held.nodes]] = held.positions
    for row in view.rows:
        apart = row.positions - places[:, tree.origin[row.nodes]]
        if row.mask == "causal" or (np.diff(apart) != 0).any(axis=1).all():
            return False
    return True


def _pairs(tree: EvictionTree, view: View, word: Literal["re_prefill", "kv_orig"]) -> Pairs:
    return count_pairs(replace(tree, semantics=word), view)


def _true(pairs: Pairs) -> bool:
    return not pairs.diverging.any() and not pairs.totals["tainted"]


def _other(pairs: Pairs) -> npt.NDArray[np.bool_]:
    """Bool (M,): targets that see or miss other tokens than the true ones, or some twice."""
    other = np.zeros(len(pairs.diverging), dtype=bool)
    for name in OTHERS:
        other |= pairs.of(name) > 0
    return other


def _departures(pairs: Pairs) -> list[str]:
    """How many trained tokens see something else than the truth, in sentences."""
    other = _other(pairs)
    counted = (
        (other, "Trained tokens that see or miss other text than when they were sampled"),
        (
            ~other & (pairs.of("shifted") > 0),
            "Trained tokens that see the right text at other distances",
        ),
        (
            ~other & (pairs.of("tainted") > 0),
            "Trained tokens that see the right text in states computed from other contexts",
        ),
    )
    return [f"{what}: {int(at.sum()):,}." for at, what in counted if at.any()]
