"""What a comparison says beyond drift: causes of the gap, distances and bounds, clipped factors.

Everything is of one method, ready for JSON; numbers that cannot be had say why.
Letters: M targets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mwviz.analysis import Analysis
from mwviz.bound import mean_bound, trajectory_bound
from mwviz.compare import Comparison
from mwviz.distances import distances
from mwviz.errors import ViewError
from mwviz.gap import GapSplit, Scored, Weights, retokenised_targets, split_gap, touched_by
from mwviz.policy import CLIP, clipped_factors
from mwviz.sdcc import Residuals, estimate, residuals
from mwviz.temperature import sampled_logprob

if TYPE_CHECKING:
    from mwviz.engine.divergence import Divergence

Floats = npt.NDArray[np.float32]
Report = dict[str, Any]
TAKEN_AS_1 = "no temperature is recorded for some of these tokens: taken as 1"


@dataclass(frozen=True, slots=True)
class Advantages:
    """What each target was worth to the trainer."""

    value: npt.NDArray[np.float64]
    """float64 (M,): NaN where not known."""
    source: str
    """`batch` or `rewards`."""


def gap_of(analysis: Analysis, comparison: Comparison, weights: Weights) -> GapSplit:
    """The measured gap of a view in parts.

    Of a trainer's batch that carries log-probabilities it is the trainer's own gap; of any other
    view the model stands for the trainer, over targets whose temperature is recorded.

    Args:
        analysis: of the rollout.
        comparison: of the view with the true contexts.
        weights: whose weights the model has.
    """
    pairs, tree = analysis.pairs(comparison.view.method), analysis.tree
    trained, recorded = trainers(analysis, comparison), sampler(analysis, comparison)
    own = _own_logprob(analysis, comparison) is not None
    warm = np.where(np.isnan(analysis.temperature), 1.0, analysis.temperature)
    known = warm.astype(np.float32) if own else analysis.temperature
    split = split_gap(
        tree,
        trained,
        diverging=pairs.diverging,
        retokenised=retokenised_targets(tree, analysis.junction_list, pairs),
        scored=Scored(
            sampled_logprob(comparison.reference, known),
            sampled_logprob(comparison.view, known),
            weights if own or weights != "sampler" else "same",
        ),
        recorded=recorded,
    )
    guessed = own and np.isnan(analysis.temperature[~np.isnan(trained + recorded)]).any()
    notes = (*split.notes, TAKEN_AS_1) if guessed else split.notes
    return GapSplit(split.gap, split.targets, split.parts, notes)


def residuals_of(analysis: Analysis, comparison: Comparison) -> Residuals:
    """What one rollout adds to SDCC's estimate from recorded log-probabilities."""
    method = comparison.view.method
    return residuals(
        analysis.tree,
        analysis.rollout,
        view=analysis.view(method),
        pairs=analysis.pairs(method),
        student=comparison.view.logprob,
    )


def pooled(parts: Sequence[Residuals], reports: Sequence[Report]) -> Report:
    """What several rollouts say of one method together, and one alone cannot.

    Args:
        parts: from `residuals_of`, one a rollout.
        reports: from `account`, one a rollout.
    """
    sums = [told["distances"]["targets"] * told["distances"]["kl"] for told in reports]
    future = any(part.future for part in parts)
    return {
        "estimate": _told(lambda: asdict(estimate(parts))),
        "trajectory": asdict(trajectory_bound(np.nan_to_num(sums), future=future)),
    }


def trainers(analysis: Analysis, comparison: Comparison) -> Floats:
    """float32 (M,): the trainer's log-probabilities, nats: the batch's own, else the model's."""
    own = _own_logprob(analysis, comparison)
    if own is not None:
        return own.astype(np.float32)
    return sampled_logprob(comparison.view, analysis.temperature)


def sampler(analysis: Analysis, comparison: Comparison) -> Floats:
    """float32 (M,): the sampler's log-probabilities, nats: of the log, else of the batch."""
    own = analysis.batches.get(comparison.view.method)
    logged = analysis.tree.logprob
    if own is None:
        return logged
    return np.where(np.isnan(logged), own.sampled, logged).astype(np.float32)


def _own_logprob(analysis: Analysis, comparison: Comparison) -> npt.NDArray[np.float64] | None:
    own = analysis.batches.get(comparison.view.method)
    return None if own is None or np.isnan(own.logprob).all() else own.logprob


def account(
    analysis: Analysis,
    comparison: Comparison,
    divergence: Divergence,
    *,
    weights: Weights,
    advantages: Callable[[], Advantages],
) -> Report:
    """All of it, as `mwviz score --details --json` prints it.

    Args:
        analysis: of the rollout.
        comparison: of a method with the true contexts.
        divergence: between the two.
        weights: whose weights the model has.
        advantages: of the method's targets; raises `ViewError` where there are none.
    """
    return {
        "gap": _gap(gap_of(analysis, comparison, weights)),
        "distances": _distances(analysis, comparison, divergence),
        "junctions": _junctions(analysis, comparison, divergence),
        "policy": _told(lambda: _policy(analysis, comparison, advantages())),
    }


def _told(found: Callable[[], Report]) -> Report:
    try:
        return found()
    except ViewError as error:
        return {"refused": str(error)}


def _gap(split: GapSplit) -> Report:
    if not split.targets:
        return {"refused": "; ".join(split.notes)}
    return asdict(split)


def _distances(analysis: Analysis, comparison: Comparison, divergence: Divergence) -> Report:
    told = distances(analysis, divergence, comparison.view.method).to_json()
    del told["points"], told["trajectory"], told["tokens"]
    return told


def _junctions(
    analysis: Analysis, comparison: Comparison, divergence: Divergence
) -> list[dict[str, Any]]:
    """Of each junction the diverging targets that it can be the reason of."""
    pairs = analysis.pairs(comparison.view.method)
    known = pairs.diverging & ~np.isnan(divergence.kl)
    found = []
    for junction in analysis.junction_list:
        some = known & touched_by(analysis.tree, junction, pairs)
        if some.any():
            bound = mean_bound(divergence.kl[some], divergence.tv[some])
            found.append(
                {
                    "call": junction.call,
                    "kind": junction.kind,
                    "targets": int(some.sum()),
                    "kl": float(divergence.kl[some].astype(np.float64).mean()),
                    "tv": bound.measured,
                    "tv_bound": bound.value,
                    "flips": int(divergence.flip[some].sum()),
                }
            )
    return found


def _policy(analysis: Analysis, comparison: Comparison, advantages: Advantages) -> Report:
    """The clipped share of the targets that have an advantage and both log-probabilities."""
    trained = trainers(analysis, comparison).astype(np.float64)
    difference = trained - sampler(analysis, comparison)
    used = ~np.isnan(advantages.value) & ~np.isnan(trained)
    found = clipped_factors(advantages.value[used], difference[used])
    known = ~found.unknown
    if not known.any():
        raise ViewError("no covered target has an advantage and a recorded log-probability")
    return {
        "advantages": advantages.source,
        "ratios": "trainer" if _own_logprob(analysis, comparison) is not None else "model",
        "clip": list(CLIP),
        "targets": int(known.sum()),
        "unknown": int(found.unknown.sum()),
        "clipped": int(found.clipped.sum()),
        "clipped_share": float(found.clipped[known].mean()),
        "mean_abs_factor": float(np.abs(found.factor[known]).mean()),
    }
