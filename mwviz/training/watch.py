"""What held-out rollouts say of the weights, in their true contexts and as an arm lays them out.

Scores are made here and never kept on disk: the weights change from one look to the next. A look
pauses between its passes through the model: whoever runs it may stop there. Letters: M targets of
a rollout.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mwviz.analysis import Analysis
from mwviz.bound import mean_bound
from mwviz.engine.divergence import diverge
from mwviz.engine.model import Model
from mwviz.engine.score import score
from mwviz.engine.scores import Scores
from mwviz.scorer import EXACT
from mwviz.training.arms import arm_view
from mwviz.training.evictions import wrong_evictions
from mwviz.training.known import known_largest, known_mean
from mwviz.training.learner import Learner
from mwviz.training.noise import Noise, measure_noise
from mwviz.training.pauses import Pausing, paused
from mwviz.training.probe import Angle, Gradient, angle, gradient, probe_of
from mwviz.training.reports import JunctionReport, WatchReport
from mwviz.training.world import World

Doubles = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """What the true contexts say with some weights: the same for every arm that has them."""

    scores: tuple[Scores, ...]
    """Of each held-out rollout, under the exact layout that it takes."""
    probe: Analysis | None
    """As `probe_of` picks it, to compare gradients on; None without one."""
    layout: str
    """Of its exact gradient; "" without."""
    gradient: Gradient | None
    """Of the probe; None if it does not fit in memory."""
    noise: Noise


def true_contexts(learner: Learner, held_out: Sequence[Analysis]) -> Pausing[Truth]:
    """Scores, gradient and floors in the true contexts, with the weights as they are.

    Args:
        learner: whose weights.
        held_out: rollouts in the model's tokens, as `learner.fitted` gives them.
    """
    model = learner.model
    scores = []
    for one in held_out:
        scores.append((yield from paused(score(one.tree, arm_view(one, model, EXACT), model))))
    place = probe_of(held_out)
    if place is None:
        noise = yield from measure_noise(learner, None, None, None)
        return Truth(tuple(scores), None, "", None, noise)
    probe, exact = held_out[place], gradient(learner, held_out[place], EXACT)
    yield
    noise = yield from measure_noise(learner, probe, scores[place], exact)
    return Truth(tuple(scores), probe, scores[place].method, exact, noise)


def watch(
    learner: Learner,
    held_out: Sequence[Analysis],
    *,
    method: str,
    step: int,
    world: World | None = None,
    truth: Truth | None = None,
) -> Pausing[WatchReport]:
    """Everything that is watched, after `step` steps.

    Args:
        learner: its weights as they are.
        held_out: rollouts in the model's tokens, as `learner.fitted` gives them.
        method: the arm.
        step: steps taken.
        world: measured beside it; None measures nothing.
        truth: as `true_contexts` gave it for the same rollouts and weights; None measures it here.
    """
    began = time.perf_counter()
    truth = truth or (yield from true_contexts(learner, held_out))
    looks = []
    for analysis, true in zip(held_out, truth.scores, strict=True):
        looks.append((yield from _look(learner.model, analysis, true, method)))
    all_of = _Look.joined(looks)
    lies, noise = _turned(learner, truth, method), truth.noise
    covered, drift = all_of.multiplicity > 0, np.abs(all_of.view - all_of.true)
    bound = mean_bound(all_of.kl, all_of.tv)
    return WatchReport(
        step=step,
        loss_true=known_mean(-all_of.true),
        loss_view=known_mean(-all_of.view),
        gap_true=known_mean(np.abs(all_of.true - all_of.recorded)),
        gap_view=known_mean(np.abs(all_of.view - all_of.recorded)),
        gap_max=known_largest(np.abs(all_of.view - all_of.recorded)),
        drift=known_mean(drift),
        drift_trained=known_mean(np.repeat(drift, all_of.multiplicity)),
        drift_diverging=known_mean(drift[all_of.diverging & covered]),
        kl=known_mean(all_of.kl),
        tv=known_mean(all_of.tv),
        bound=_known(bound.value),
        flips=known_mean(all_of.flip),
        entropy_true=known_mean(all_of.entropy_true),
        entropy_view=known_mean(all_of.entropy_view),
        coverage=float(covered.mean()) if len(covered) else None,
        cosine=lies.cosine,
        error=lies.error,
        moved=learner.moved,
        floor=noise.drift,
        floor_kl=noise.kl,
        floor_tv=noise.tv,
        floor_flips=noise.flips,
        floor_entropy=noise.entropy,
        floor_cosine=noise.cosine,
        floor_error=noise.error,
        targets=len(covered),
        seconds=time.perf_counter() - began,
        junctions=tuple(
            report
            for analysis, look in zip(held_out, looks, strict=True)
            for report in _junctions(analysis, look)
        ),
        world={} if world is None else world(learner.model),
    )


def _turned(learner: Learner, truth: Truth, method: str) -> Angle:
    """How an arm's gradient lies to the exact one; that of an exact layout is known by now."""
    if truth.probe is None or truth.gradient is None:
        return Angle(None, None)
    own = arm_view(truth.probe, learner.model, method).method
    if own == truth.noise.layout:
        return Angle(truth.noise.cosine, truth.noise.error)
    same = own == truth.layout
    return angle(truth.gradient, truth.gradient if same else gradient(learner, truth.probe, method))


@dataclass(frozen=True, slots=True, eq=False)
class _Look:
    """What one rollout's targets say; float64 (M,) unless named otherwise, NaN where unknown."""

    true: Doubles
    view: Doubles
    recorded: Doubles
    kl: Doubles
    tv: Doubles
    flip: Doubles
    entropy_true: Doubles
    entropy_view: Doubles
    multiplicity: npt.NDArray[np.int64]
    diverging: Bools
    wrong: npt.NDArray[np.int64]

    @classmethod
    def joined(cls, looks: Sequence[_Look]) -> _Look:
        """All rollouts' targets one after another."""
        return cls(
            *(np.concatenate([getattr(one, name) for one in looks]) for name in cls.__slots__)
        )


def _look(model: Model, analysis: Analysis, true: Scores, method: str) -> Pausing[_Look]:
    tree, view = analysis.tree, arm_view(analysis, model, method)
    same = view.method == true.method
    own = true if same else (yield from paused(score(tree, view, model)))
    apart = yield from paused(diverge(true, own, model))
    warm = np.array([call.temperature == 1.0 for call in analysis.rollout.calls], dtype=bool)
    covered, pairs = ~np.isnan(apart.kl), analysis.pairs(view.method)
    return _Look(
        true=true.logprob.astype(np.float64),
        view=own.logprob.astype(np.float64),
        recorded=np.where(warm[tree.call], tree.logprob, np.nan),
        kl=apart.kl.astype(np.float64),
        tv=apart.tv.astype(np.float64),
        flip=np.where(covered, apart.flip, np.nan),
        entropy_true=true.entropy.astype(np.float64),
        entropy_view=own.entropy.astype(np.float64),
        multiplicity=view.multiplicity,
        diverging=pairs.diverging,
        wrong=wrong_evictions(analysis, pairs),
    )


def _junctions(analysis: Analysis, look: _Look) -> list[JunctionReport]:
    """One report for every number of evictions that the arm gets wrong for a covered target."""
    known, reports = ~np.isnan(look.kl), []
    for count in np.unique(look.wrong[known]).tolist():
        chosen = known & (look.wrong == count)
        bound = mean_bound(look.kl[chosen], look.tv[chosen])
        reports.append(
            JunctionReport(
                rollout=analysis.rollout.id,
                wrong=count,
                targets=int(chosen.sum()),
                kl=float(look.kl[chosen].mean()),
                tv=bound.measured,
                bound=bound.value,
            )
        )
    return reports


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value
