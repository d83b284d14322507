"""One optimiser step over a batch of rollouts, and the loop of them: one loss for all arms.

A step's loss is the sum over the batch's loss terms divided by its number of targets under the arm
(theory, section 3, fact 5), plus the KL of the SDCC arms. The log-probabilities that a policy
gradient needs come from the same pass. Letters: M targets of a rollout, C calls.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from mwviz.analysis import Analysis
from mwviz.engine.losses import Floats
from mwviz.engine.steps import remaining
from mwviz.errors import ModelError, ViewError
from mwviz.policy import clipped_factors
from mwviz.sdcc import strength_at
from mwviz.training.advantage import recorded_advantages, recorded_logprobs
from mwviz.training.arms import arm_losses, arm_view, pulled_targets
from mwviz.training.learner import Learner, fitted
from mwviz.training.order import batches
from mwviz.training.recipe import Recipe
from mwviz.training.reports import StepReport
from mwviz.training.results import DIVERGED, NOT_FINITE, NOTHING
from mwviz.trie import Longs
from mwviz.wording import counted

LEARNT = 0.01
"""Nats a token below which a gradient may well be 0: there is nothing left to learn."""
LOST = 3.0
"""Nats a token by which a loss may exceed its start, and a blind guess, before it has diverged."""
MOST_NOTES = 3
"""Notes of a step that are told in words."""


def update(
    learner: Learner,
    batch: Sequence[Analysis],
    *,
    method: str,
    step: int,
    advantages: Sequence[npt.ArrayLike] | None = None,
    limit: float | None = None,
) -> StepReport:
    """One optimiser step over some rollouts.

    Args:
        learner: is changed.
        batch: in the model's tokens, as `learner.fitted` gives them.
        method: the arm.
        step: 0-based; decides the learning rate and SDCC's strength.
        advantages: for the policy objective: one a rollout, or float (C,) of each.
        limit: negative log-likelihood a token beyond which the training has diverged; None: none.

    Raises:
        ModelError: the loss or its gradient is not finite, the training diverged, or memory ran
            out; the weights are then as before the step.
        ViewError: the arm cannot lay a rollout out, or advantages are missing.
    """
    began = time.perf_counter()
    recipe, model = learner.recipe, learner.model
    if (recipe.objective == "policy") != (advantages is not None):
        raise ViewError("the objective policy needs advantages, one a rollout; nll takes none")
    views = [arm_view(analysis, model, method) for analysis in batch]
    counts = [int(np.count_nonzero(view.multiplicity)) for view in views]
    total, loss, kl, pulled = sum(counts), 0.0, 0.0, 0
    strength = strength_at(step, recipe.steps, most=recipe.strength, rise=recipe.rise)
    readings: list[_Reading] = []
    notes: dict[str, None] = {}
    learner.optimizer.zero_grad(set_to_none=True)
    for index, (analysis, view, count) in enumerate(zip(batch, views, counts, strict=True)):
        if count == 0:
            continue
        reading = _Reading(analysis, recipe, None if advantages is None else advantages[index])
        readings.append(reading)
        taught = len(pulled_targets(analysis, view)) if strength else 0
        pulled += taught
        rows = arm_losses(analysis, view, model, strength=strength, factor=reading.factor)
        for part in rows:
            part.backward(count / total)
            if not math.isfinite(part.loss.item()):
                raise ModelError(_not_finite("loss", part.loss.item(), step))
            loss += part.loss.item() * (count / total)
            kl += part.kl.item() if taught else 0.0
            notes.update(dict.fromkeys(part.notes))
    said = _summary(readings)
    if limit is not None and said.nll is not None and said.nll > limit:
        raise ModelError(
            f"step {step}: {DIVERGED}: {said.nll:.2f} nats a token, more than "
            f"{limit:.2f}; lower the learning rate"
        )
    norm = _move(learner, step, said.nll if advantages is None else None) if total else 0.0
    return StepReport(
        step=step,
        loss=loss if total else None,
        kl=kl / pulled if pulled else None,
        targets=total,
        tokens=sum(row.size for view in views for row in view.rows),
        grad_norm=norm,
        learning_rate=learner.rate(step),
        nll=said.nll,
        clipped=said.clipped,
        unknown=said.unknown,
        gap=said.gap,
        gap_max=said.gap_max,
        seconds=time.perf_counter() - began,
        eta=0.0,
        note=_in_short([*notes]),
    )


def _in_short(notes: Sequence[str]) -> str:
    """The first notes of a step, and how many more there were: each size of a row has its own."""
    more = len(notes) - MOST_NOTES
    return "; ".join((*notes[:MOST_NOTES], *([f"and {more} more"] if more > 0 else ())))


def train(
    learner: Learner, analyses: Sequence[Analysis], *, method: str, start: int = 0
) -> Iterator[StepReport]:
    """A report a step; rollouts come in the same order for every arm. To cancel, stop iterating.

    Args:
        learner: is changed; its recipe says how long and on what.
        analyses: rollouts to train on.
        method: the arm.
        start: steps taken before, by this learner or the one it was loaded from.

    Raises:
        ModelError: a step failed, or the loss has left all bounds.
        ViewError: the arm trains no token of any rollout.
        TraceError: the policy objective lacks rewards or log-probabilities.
    """
    recipe, model = learner.recipe, learner.model
    ready = fitted(analyses, model)
    if not any(arm_view(one, model, method).multiplicity.any() for one in ready):
        raise ViewError(
            f"{method} {NOTHING} {counted(len(ready), 'rollout')}: none was sampled, or "
            "the layout covers none; mwviz inspect tells what each layout covers"
        )
    gains = recorded_advantages(ready) if recipe.objective == "policy" else None
    order = batches(
        [analysis.tree.size for analysis in ready],
        steps=recipe.steps,
        batch_tokens=recipe.batch_tokens,
        seed=recipe.seed,
    )
    spent, limit = 0.0, None
    for step in range(start, recipe.steps):
        report = update(
            learner,
            [ready[index] for index in order[step]],
            method=method,
            step=step,
            advantages=None if gains is None else [gains[index] for index in order[step]],
            limit=limit,
        )
        if limit is None and report.nll is not None:
            limit = max(report.nll, math.log(model.vocabulary)) + LOST
        spent += report.seconds
        eta = remaining(spent, step + 1 - start, recipe.steps - start)
        yield replace(report, eta=eta)


class _Reading:
    """What one rollout's targets say on their way to the gradient, and what they then count."""

    def __init__(self, analysis: Analysis, recipe: Recipe, gain: npt.ArrayLike | None) -> None:
        tree = analysis.tree
        self.recipe, self.recorded = recipe, recorded_logprobs(analysis)
        self.gain = None
        if gain is not None:
            self.gain = np.broadcast_to(np.asarray(gain, np.float64), (len(tree.tip),))[tree.call]
        warm = np.array([call.temperature == 1.0 for call in analysis.rollout.calls], dtype=bool)
        self.warm = warm[tree.call]
        self.logprob = np.full(len(tree.token), np.nan)
        self.clipped = np.zeros(len(tree.token), dtype=bool)
        self.unknown = np.zeros(len(tree.token), dtype=bool)

    def factor(self, target: Longs, logprob: Floats) -> Floats:
        """Factor of each term: 1, or the advantage times the clipped importance ratio."""
        self.logprob[target] = logprob
        if self.gain is None:
            return np.ones(len(target), dtype=np.float32)
        found = clipped_factors(
            self.gain[target],
            self.logprob[target] - self.recorded[target],
            clip=self.recipe.clip,
            most=self.recipe.most,
        )
        self.clipped[target], self.unknown[target] = found.clipped, found.unknown
        return found.factor


class _Summary(NamedTuple):
    """Fields of a report that the log-probabilities of a batch give."""

    nll: float | None = None
    clipped: float | None = None
    unknown: int = 0
    gap: float | None = None
    gap_max: float | None = None


def _summary(readings: Sequence[_Reading]) -> _Summary:
    if not readings:
        return _Summary()
    logprob = np.concatenate([one.logprob for one in readings])
    clipped = np.concatenate([one.clipped for one in readings])
    read = ~np.isnan(logprob)
    gap = np.abs(np.concatenate([(one.logprob - one.recorded)[one.warm] for one in readings]))
    gap = gap[~np.isnan(gap)]
    policy = readings[0].gain is not None
    return _Summary(
        nll=float(-logprob[read].mean()) if read.any() else None,
        clipped=float(clipped[read].mean()) if policy and read.any() else None,
        unknown=int(sum(one.unknown.sum() for one in readings)),
        gap=float(gap.mean()) if len(gap) else None,
        gap_max=float(gap.max()) if len(gap) else None,
    )


def _move(learner: Learner, step: int, nll: float | None) -> float:
    """The optimiser's step; gives the norm of the gradient before it is cut.

    Args:
        learner: is changed.
        step: its number.
        nll: what the likelihood objective still has to lower, nats a token; None under another.
    """
    limit = learner.recipe.grad_clip
    parts = learner.parameters
    norm = float(torch.nn.utils.clip_grad_norm_(parts, math.inf if limit is None else limit))
    if not math.isfinite(norm):
        raise ModelError(_not_finite("gradient", norm, step))
    if norm == 0 and nll is not None and nll > LEARNT:
        raise ModelError(
            f"step {step}: {DIVERGED}: no gradient is left at {nll:.2f} nats a token; "
            "lower the learning rate"
        )
    for group in learner.optimizer.param_groups:
        group["lr"] = learner.rate(step)
    learner.optimizer.step()
    return norm


def _not_finite(what: str, value: float, step: int) -> str:
    return (
        f"step {step}: the {what} is {value}; {NOT_FINITE}. "
        "Lower the learning rate, or train with a wider dtype"
    )
