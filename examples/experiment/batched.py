"""A training step over many small rollouts at once, and what it does to their distributions.

The views, targets, weights, clipping and schedule are those of `mwviz.training`; only the forward
pass differs: rows of many rollouts are padded into one batch, since a model of 135 M parameters
spends its time on launches otherwise. `tests/test_experiment.py` holds it to `mwviz.training`.
Letters: R rows, T tokens of the longest, E loss terms, M targets of all rollouts, H width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from examples.experiment.batch import Batch
from examples.search_world.room import Room
from mwviz.engine import attention, vocabulary
from mwviz.engine.layout import Layout
from mwviz.engine.model import Model
from mwviz.errors import ModelError
from mwviz.policy import clipped_factors
from mwviz.sdcc import strength_at
from mwviz.training.arms import pulled_targets
from mwviz.training.learner import Learner
from mwviz.trie import Longs
from mwviz.views import View

TOKENS, LEAST_TOKENS = 3072, 128
"""Padded tokens that are run at once; float32 keeps about 2 MB of each for the backward pass, and
ten arms share a card. Memory that runs out halves them, down to the second."""
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


def step(
    mine: Learner,
    batch: Batch,
    *,
    method: str,
    number: int,
    advantages: Sequence[float] | None = None,
    room: Room | None = None,
) -> Step:
    """One optimiser step; as `mwviz.training.loop.update`.

    Args:
        mine: is changed.
        batch: in the model's tokens.
        method: the arm.
        number: of the step, from 0.
        advantages: one a rollout, for the policy objective.
        room: padded tokens at once; the gradient is made anew if they do not fit.

    Raises:
        ModelError: the gradient is not finite, or memory ran out; the weights are as before.
    """
    gain = None if advantages is None else np.asarray(advantages, np.float64)[batch.owner]
    found = (room or tokens_at_once()).fit(
        lambda tokens: gradient(mine, batch, method, number, gain, tokens)
    )
    limit = mine.recipe.grad_clip or float("inf")
    norm = float(torch.nn.utils.clip_grad_norm_(mine.parameters, limit))
    if not math.isfinite(norm):
        raise ModelError(f"step {number}: the gradient is {norm}; the weights stay as they were")
    for one in mine.optimizer.param_groups:
        one["lr"] = mine.rate(number)
    mine.optimizer.step()
    return found._replace(grad_norm=norm)


def tokens_at_once() -> Room:
    """Padded tokens that are run at once."""
    return Room(TOKENS, least=LEAST_TOKENS, what="padded tokens")


def gradient(
    mine: Learner,
    batch: Batch,
    method: str,
    number: int,
    gain: npt.NDArray[np.float64] | None,
    most: int,
) -> Step:
    """What a step sees, and its gradient in the learner; the norm is not known yet.

    Args:
        mine: gets the gradient in place of its last one.
        batch: in the model's tokens.
        method: the arm.
        number: of the step, from 0.
        gain: float64 (M,): advantage of each target; None for the likelihood.
        most: padded tokens at once.
    """
    recipe, model = mine.recipe, mine.model
    views = batch.views(model, method)
    total = sum(int(np.count_nonzero(view.multiplicity)) for view in views)
    strength = strength_at(number, recipe.steps, most=recipe.strength, rise=recipe.rise)
    pulled = pulled_of(batch, views) if strength else np.empty(0, dtype=np.int64)
    taught = Taught(model, batch, pulled, most)
    recorded, ids = batch.recorded, batch.ids
    said = np.full(batch.size, np.nan)
    clipped, kl, tokens = 0, 0.0, 0
    mine.optimizer.zero_grad(set_to_none=True)
    head = vocabulary.head(model)
    for group in groups(batch.rows(model, views), most):
        tokens += sum(len(part.ids) for part in group)
        hidden = hidden_states(model, group)
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
    read = ~np.isnan(said)
    return Step(
        nll=float(-said[read].mean()),
        targets=total,
        tokens=tokens,
        grad_norm=float("nan"),
        clipped=clipped / max(int(read.sum()), 1),
        gap=said - recorded,
        kl=kl / len(pulled) if len(pulled) else 0.0,
    )


def read(model: Model, batch: Batch, method: str, *, room: Room | None = None) -> Reading:
    """A method's view of every target against its true context, with the weights as they are."""
    return (room or tokens_at_once()).fit(lambda tokens: _read(model, batch, method, tokens))


@torch.no_grad()
def _read(model: Model, batch: Batch, method: str, most: int) -> Reading:
    true = _states(model, batch, EXACT, most)
    seen = _states(model, batch, method, most)
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


def _states(model: Model, batch: Batch, method: str, most: int) -> _States:
    """Final hidden state at the query of every target that a method covers; zeros elsewhere."""
    width = vocabulary.head(model).weight.shape[1]
    hidden = torch.zeros(batch.size, width, dtype=model.dtype, device=model.device)
    covered = np.zeros(batch.size, dtype=bool)
    for group in groups(batch.rows(model, batch.views(model, method)), most):
        target = np.concatenate([part.edges.target for part in group])
        hidden[_index(target, model)] = hidden_states(model, group)
        covered[target] = True
    return _States(hidden, covered)


class Taught:
    """What the true contexts say about the targets that SDCC pulls, without a graph."""

    def __init__(self, model: Model, batch: Batch, pulled: Longs, most: int) -> None:
        self._model = model
        self._hidden: torch.Tensor | None = None
        if len(pulled):
            with torch.no_grad():
                self._hidden = _states(model, batch, EXACT, most).hidden

    def kl(self, student: torch.Tensor, target: Longs) -> torch.Tensor:
        """(E,): KL(true context || student) in nats; no gradient reaches the true side."""
        assert self._hidden is not None
        with torch.no_grad():
            head = vocabulary.head(self._model)
            taught = head.log_softmax(self._hidden[_index(target, self._model)])
        return (taught.exp() * (taught - student)).sum(1)


def pulled_of(batch: Batch, views: Sequence[View]) -> Longs:
    """int64: C of all rollouts; empty under a method that pulls nothing."""
    found = [
        pulled_targets(analysis, view) + start
        for analysis, view, start in zip(batch.analyses, views, batch.starts, strict=False)
    ]
    return np.concatenate(found)


def groups(rows: Sequence[Layout], most: int) -> Iterator[list[Layout]]:
    """Rows of like lengths, so many that their padded tokens do not exceed `most`."""
    group: list[Layout] = []
    for part in sorted(rows, key=lambda part: len(part.ids)):
        if group and (len(group) + 1) * len(part.ids) > most:
            yield group
            group = []
        group.append(part)
    if group:
        yield group


def hidden_states(model: Model, group: Sequence[Layout]) -> torch.Tensor:
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
