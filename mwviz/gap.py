"""The gap between trainer and sampler, split into what causes it, as far as the data allows.

Takes what a trainer recorded of its own log-probabilities, and what a model says in the true
contexts and under the trainer's rows. Parts add up to the gap, target by target.
Letters: M targets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from mwviz.junctions import Junction
from mwviz.pairs import Pairs
from mwviz.tree import EvictionTree

Doubles = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Weights = Literal["same", "sampler", "trainer", "unknown"]
"""Whose weights the model has: `same` if those of sampler and trainer were equal."""

FLOOR = "floor"
CONDITIONING = "conditioning"
RETOKENISATION = "retokenisation"
STALENESS = "staleness"
MIXED = "floor and staleness"


class Scored(NamedTuple):
    """What a model says about the targets; both from the same weights."""

    true: npt.NDArray[np.float32]
    """float32 (M,): log-probability in the true context, nats."""
    view: npt.NDArray[np.float32]
    """float32 (M,): log-probability in the trainer's rows."""
    weights: Weights


@dataclass(frozen=True, slots=True)
class GapPart:
    """One cause of the gap."""

    name: str
    mean: float
    """Nats a target, signed; the parts add up to the mean gap. 0 is best."""
    mean_abs: float
    """Nats a target; sizes do not add up."""
    targets: int
    """Targets that it touches."""


@dataclass(frozen=True, slots=True)
class GapSplit:
    """The gap of one view in parts, over covered targets with both log-probabilities recorded."""

    gap: float
    """Mean of `log p_trainer - log p_sampler`, nats a target."""
    targets: int
    parts: tuple[GapPart, ...]
    notes: tuple[str, ...]
    """What could not be separated, and why."""


def split_gap(
    tree: EvictionTree,
    trained: npt.NDArray[np.float32],
    *,
    diverging: Bools,
    retokenised: Bools,
    scored: Scored | None,
    recorded: npt.NDArray[np.float32] | None = None,
) -> GapSplit:
    """The trainer's gap to the recorded log-probabilities in parts.

    Args:
        tree: has the sampler's log-probabilities.
        trained: float32 (M,): the trainer's, nats; NaN where it trains or records nothing.
        diverging: bool (M,): targets whose context in the trainer's rows is not the true one.
        retokenised: bool (M,): those of them that only other ids for the same text set apart.
        scored: None where no model was run; then the control stands for what is not conditioning.
        recorded: float32 (M,): the sampler's, nats; None takes those of the tree.
    """
    sampled = (tree.logprob if recorded is None else recorded).astype(np.float64)
    gap = trained.astype(np.float64) - sampled
    known = ~np.isnan(gap)
    if scored is not None:
        known &= ~np.isnan(scored.true) & ~np.isnan(scored.view)
    count = int(known.sum())
    if count == 0:
        note = "no target has the log-probabilities of both trainer and sampler"
        return GapSplit(float("nan"), 0, (), (note,))
    changed = diverging & known
    notes = [] if not changed[retokenised].any() else [_RETOKENISED]
    if scored is None:
        moved = _excess(gap, known, changed)
        rest = {MIXED: gap - moved}
        notes.append(_NO_MODEL if (known & ~changed).any() else _NO_CONTROL)
    else:
        moved = np.where(changed, scored.view.astype(np.float64) - scored.true, 0.0)
        rest, note = _unexplained(sampled, trained, scored, moved)
        notes += [note] if note else []
    parts = {
        CONDITIONING: (moved, changed & ~retokenised),
        RETOKENISATION: (moved, changed & retokenised),
        **{name: (values, known) for name, values in rest.items()},
    }
    return GapSplit(
        float(gap[known].mean()),
        count,
        tuple(_part(name, *held, count) for name, held in parts.items() if held[1].any()),
        tuple(notes),
    )


_RETOKENISED = "tokens with other ids for the same text are judged where their ids still align"
_NO_MODEL = (
    "no model was run: what the control shows counts as floor and staleness together, and only the "
    "excess of the diverging tokens as conditioning"
)
_NO_CONTROL = "no model was run and every token diverges: nothing can be separated"
_STALE = "the sampler's weights scored it: the trainer's own noise counts as staleness"
_STALE_SAMPLER = "the trainer's weights scored it: the sampler's own noise counts as staleness"
_UNKNOWN = "it is not known whose weights scored it: floor and staleness cannot be separated"


def _excess(gap: Doubles, known: Bools, changed: Bools) -> Doubles:
    """What diverging targets have beyond the mean of the control; nothing without a control."""
    control = known & ~changed
    if not control.any():
        return np.zeros_like(gap)
    return np.where(changed, gap - gap[control].mean(), 0.0)


def _unexplained(
    sampled: Doubles, trained: npt.NDArray[np.float32], scored: Scored, moved: Doubles
) -> tuple[dict[str, Doubles], str]:
    """What is not conditioning, by cause, and what had to stay together."""
    rest = trained.astype(np.float64) - sampled - moved
    match scored.weights:
        case "same":
            return {FLOOR: rest}, ""
        case "sampler":
            floor = scored.true.astype(np.float64) - sampled
            return {FLOOR: floor, STALENESS: rest - floor}, _STALE
        case "trainer":
            floor = trained.astype(np.float64) - scored.view
            return {FLOOR: floor, STALENESS: rest - floor}, _STALE_SAMPLER
        case "unknown":
            return {MIXED: rest}, _UNKNOWN


def _part(name: str, values: Doubles, chosen: Bools, count: int) -> GapPart:
    held = values[chosen]
    return GapPart(name, float(held.sum()) / count, float(np.abs(held).sum()) / count, len(held))


def retokenised_targets(tree: EvictionTree, junctions: tuple[Junction, ...], pairs: Pairs) -> Bools:
    """Diverging targets that only re-tokenised text sets apart from the truth, bool (M,).

    All junctions that they are the work of must be `retokenise`.
    """
    found = pairs.diverging.copy()
    responsible = np.zeros_like(found)
    for junction in junctions:
        touched = touched_by(tree, junction, pairs)
        responsible |= touched
        if junction.kind != "retokenise":
            found &= ~touched
    return found & responsible


def touched_by(tree: EvictionTree, junction: Junction, pairs: Pairs) -> Bools:
    """Targets of its lineage whose pairs a junction can be the reason of, bool (M,).

    A target that misses or foresees text is the work of later junctions, one that sees old text
    that of earlier ones, one that only sees it elsewhere of both.
    """
    later = (pairs.of("erased") + pairs.of("future") + pairs.of("lost")) > 0
    earlier = (pairs.of("stale") + pairs.of("foreign")) > 0
    both = ~later & ~earlier
    own = tree.lineage[tree.call] == tree.lineage[junction.call]
    after = tree.call >= junction.call
    touched: Bools = own & (((later | both) & ~after) | ((earlier | both) & after))
    return touched
