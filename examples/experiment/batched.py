"""A training step over many small rollouts at once, and what it does to their distributions.

The views, targets, weights, clipping and schedule are those of `mwviz.training`; only the forward
pass differs: rows of many rollouts are padded into one batch, since a model of 135 M parameters
spends its time on launches otherwise. `tests/test_experiment.py` holds it to `mwviz.training`.
Letters: R rows, T tokens of the longest, E loss terms, M targets of all rollouts, H width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from mwviz.analysis import Analysis
from mwviz.engine import attention, vocabulary
from mwviz.engine.layout import Layout, layout
from mwviz.engine.model import Model
from mwviz.policy import clipped_factors
from mwviz.sdcc import strength_at
from mwviz.training.advantage import recorded_logprobs
from mwviz.training.arms import arm_view, pulled_targets
from mwviz.training.learner import Learner
from mwviz.trie import Longs
from mwviz.views import View
from mwviz.views.view import Edges

TOKENS = 3072
"""Padded tokens that are run at once; float32 keeps about 2 MB of each for the backward pass, and
ten arms share a card."""
EXACT = "packed_mask"


class Step(NamedTuple):
    """What one step saw, before it changed the weights."""

    nll: float
    """Mean over the trained targets, nats."""
    targets: int
    tokens: int
    grad_norm: float
    clipped: float
    """Share of the targets that the clip keeps from training."""
    gap: npt.NDArray[np.float64]
    """(M,): log p under the arm minus log p recorded, nats; NaN where not trained or recorded."""
    kl: float
    """Mean KL over the targets that SDCC pulls; 0 without."""


class Reading(NamedTuple):
    """A view against the true contexts, target by target; NaN where it does not cover one."""

    drift: npt.NDArray[np.float64]
    """(M,): log p under the view minus log p in the true context, nats."""
    kl: npt.NDArray[np.float64]
    """(M,): KL(true context || view), full vocabulary, nats."""
    tv: npt.NDArray[np.float64]
    """(M,): total variation."""
    nll: npt.NDArray[np.float64]
    """(M,): negative log-likelihood in the true context, nats."""
    flip: npt.NDArray[np.bool_]
    """(M,): whether the most likely token differs."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Rollouts with their targets numbered through."""

    analyses: tuple[Analysis, ...]
    starts: Longs
    """First target of each rollout, and the number of all."""

    @classmethod
    def of(cls, analyses: Sequence[Analysis]) -> Batch:
        """The rollouts in this order."""
        counts = [len(one.tree.token) for one in analyses]
        return cls(tuple(analyses), np.concatenate(([0], np.cumsum(counts))).astype(np.int64))

    @property
    def size(self) -> int:
        """M."""
        return int(self.starts[-1])

    @property
    def ids(self) -> Longs:
        """int64 (M,): the sampled tokens."""
        return np.concatenate([a.tree.ids[a.tree.token] for a in self.analyses]).astype(np.int64)

    @property
    def recorded(self) -> npt.NDArray[np.float64]:
        """(M,): log-probabilities when sampled."""
        return np.concatenate([recorded_logprobs(a) for a in self.analyses])

    @property
    def owner(self) -> Longs:
        """int64 (M,): the rollout of each target."""
        return np.repeat(np.arange(len(self.analyses)), np.diff(self.starts))

    def views(self, model: Model, method: str) -> list[View]:
        """Each rollout under a method."""
        return [arm_view(analysis, model, method) for analysis in self.analyses]

    def rows(self, model: Model, views: Sequence[View]) -> list[Layout]:
        """The rows of all views that train something, their targets numbered through."""
        found = []
        for analysis, view, start in zip(self.analyses, views, self.starts, strict=False):
            for row in view.rows:
                part = layout(analysis.tree, row, limit=model.max_positions)
                query, target, weight = part.edges
                if len(query):
                    edges = Edges(query, target + start, weight)
                    found.append(replace(part, edges=edges))
        return found


def step(
    mine: Learner,
    batch: Batch,
    *,
    method: str,
    number: int,
    advantages: Sequence[float] | None = None,
) -> Step:
    """One optimiser step; as `mwviz.training.loop.update`.

    Args:
        mine: is changed.
        batch: in the model's tokens.
        method: the arm.
        number: of the step, from 0.
        advantages: one a rollout, for the policy objective.
    """
    recipe, model = mine.recipe, mine.model
    views = batch.views(model, method)
    total = sum(int(np.count_nonzero(view.multiplicity)) for view in views)
    strength = strength_at(number, recipe.steps, most=recipe.strength, rise=recipe.rise)
    pulled = _pulled(batch, views) if strength else np.empty(0, dtype=np.int64)
    taught = _Taught(model, batch, pulled)
    gain = None if advantages is None else np.asarray(advantages, np.float64)[batch.owner]
    recorded, ids = batch.recorded, batch.ids
    said = np.full(batch.size, np.nan)
    clipped, kl, tokens = 0, 0.0, 0
    mine.optimizer.zero_grad(set_to_none=True)
    head = vocabulary.head(model)
    for group in _groups(batch.rows(model, views)):
        tokens += sum(len(part.ids) for part in group)
        hidden = _hidden(model, group)
        target = np.concatenate([part.edges.target for part in group])
        weight = np.concatenate([part.edges.weight for part in group])
        known = head.log_softmax(hidden)
        chosen = known.gather(1, _index(ids[target], model)[:, None])[:, 0]
        said[target] = chosen.detach().double().cpu().numpy()
        if gain is not None:
            found = clipped_factors(
                gain[target], said[target] - recorded[target], clip=recipe.clip, most=recipe.most
            )
            weight = weight * found.factor
            clipped += int(found.clipped.sum())
        loss = -(_tensor(weight, chosen) * chosen).sum()
        here = np.flatnonzero(np.isin(target, pulled))
        if len(here):
            pull = taught.kl(known[_index(here, model)], target[here]).sum()
            kl += float(pull.detach())
            loss = loss + strength * pull
        (loss / total).backward()  # type: ignore[no-untyped-call]  # torch's
    limit = recipe.grad_clip or float("inf")
    norm = float(torch.nn.utils.clip_grad_norm_(mine.parameters, limit))
    for one in mine.optimizer.param_groups:
        one["lr"] = mine.rate(number)
    mine.optimizer.step()
    read = ~np.isnan(said)
    return Step(
        nll=float(-said[read].mean()),
        targets=total,
        tokens=tokens,
        grad_norm=norm,
        clipped=clipped / max(int(read.sum()), 1),
        gap=said - recorded,
        kl=kl / len(pulled) if len(pulled) else 0.0,
    )


@torch.no_grad()
def read(model: Model, batch: Batch, method: str) -> Reading:
    """A method's view of every target against its true context, with the weights as they are."""
    true = _states(model, batch, EXACT)
    seen = _states(model, batch, method)
    head, ids = vocabulary.head(model), batch.ids
    arrays = {name: np.full(batch.size, np.nan) for name in ("drift", "kl", "tv", "nll")}
    flips = np.zeros(batch.size, dtype=bool)
    for places in np.array_split(np.arange(batch.size), batch.size // 1024 + 1):
        at = _index(ids[places], model)[:, None]
        log_p = head.log_softmax(true.hidden[_index(places, model)])
        log_q = head.log_softmax(seen.hidden[_index(places, model)])
        p = log_p.exp()
        arrays["nll"][places] = _numpy(-log_p.gather(1, at)[:, 0])
        arrays["drift"][places] = _numpy((log_q - log_p).gather(1, at)[:, 0])
        arrays["kl"][places] = _numpy((p * (log_p - log_q)).sum(1).clamp_min(0))
        arrays["tv"][places] = _numpy((p - log_q.exp()).abs().sum(1) / 2)
        flips[places] = (log_p.argmax(1) != log_q.argmax(1)).cpu().numpy()
    for name in ("drift", "kl", "tv"):
        arrays[name][~seen.covered] = np.nan
    return Reading(flip=flips & seen.covered, **arrays)


class _States(NamedTuple):
    hidden: torch.Tensor
    """(M, H)."""
    covered: npt.NDArray[np.bool_]


def _states(model: Model, batch: Batch, method: str) -> _States:
    """Final hidden state at the query of every target that a method covers; zeros elsewhere."""
    width = vocabulary.head(model).weight.shape[1]
    hidden = torch.zeros(batch.size, width, dtype=model.dtype, device=model.device)
    covered = np.zeros(batch.size, dtype=bool)
    for group in _groups(batch.rows(model, batch.views(model, method))):
        target = np.concatenate([part.edges.target for part in group])
        hidden[_index(target, model)] = _hidden(model, group)
        covered[target] = True
    return _States(hidden, covered)


class _Taught:
    """What the true contexts say about the targets that SDCC pulls, without a graph."""

    def __init__(self, model: Model, batch: Batch, pulled: Longs) -> None:
        self._model = model
        self._hidden: torch.Tensor | None = None
        if len(pulled):
            with torch.no_grad():
                self._hidden = _states(model, batch, EXACT).hidden

    def kl(self, student: torch.Tensor, target: Longs) -> torch.Tensor:
        """(E,): KL(true context || student) in nats; no gradient reaches the true side."""
        assert self._hidden is not None
        with torch.no_grad():
            head = vocabulary.head(self._model)
            taught = head.log_softmax(self._hidden[_index(target, self._model)])
        return (taught.exp() * (taught - student)).sum(1)


def _pulled(batch: Batch, views: Sequence[View]) -> Longs:
    found = [
        pulled_targets(analysis, view) + start
        for analysis, view, start in zip(batch.analyses, views, batch.starts, strict=False)
    ]
    return np.concatenate(found)


def _groups(rows: Sequence[Layout]) -> Iterator[list[Layout]]:
    """Rows of like lengths, as many as `TOKENS` allows."""
    group: list[Layout] = []
    for part in sorted(rows, key=lambda part: len(part.ids)):
        if group and (len(group) + 1) * len(part.ids) > TOKENS:
            yield group
            group = []
        group.append(part)
    if group:
        yield group


def _hidden(model: Model, group: Sequence[Layout]) -> torch.Tensor:
    """(E, H): final hidden states at the queries of all rows, one row's after the other's."""
    longest = max(len(part.ids) for part in group)
    ids = np.zeros((len(group), longest), dtype=np.int64)
    positions = np.zeros_like(ids)
    until = np.full_like(ids, longest)
    places = []
    for row, part in enumerate(group):
        size = len(part.ids)
        ids[row, :size], positions[row, :size] = part.ids, part.positions
        if part.visible_until is not None:
            # A pad behind the row may see what it likes, but it must see something.
            until[row, :size] = np.where(part.visible_until < size, part.visible_until, longest)
        places.append(row * longest + part.edges.query)
    at = torch.arange(longest, device=model.device)
    seen = (at[None, None] <= at[:, None]) & (at[:, None] < _index(until, model)[:, None])
    mask = torch.zeros(seen.shape, dtype=model.dtype, device=model.device)
    mask.masked_fill_(~seen, torch.finfo(model.dtype).min)
    with attention.running(model, "sdpa"):
        states = model.module.base_model(
            input_ids=_index(ids, model),
            position_ids=_index(positions, model),
            attention_mask=mask[:, None],
            use_cache=False,
        ).last_hidden_state
    flat: torch.Tensor = states.flatten(0, 1)
    return flat[_index(np.concatenate(places), model)]


def _index(places: Longs, model: Model) -> torch.Tensor:
    return torch.from_numpy(places).to(model.device)


def _tensor(weight: npt.NDArray[np.float32], like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(weight).to(like.device, like.dtype)


def _numpy(values: torch.Tensor) -> npt.NDArray[np.float64]:
    return values.double().cpu().numpy()
