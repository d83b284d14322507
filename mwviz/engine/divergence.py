"""How far two views' predictions are apart at each target: KL both ways, TV, JS, top-1 flips.

Works from the hidden states that scores keep (final norm already applied): torch in, numpy out.
Letters: M targets, H width, V vocabulary.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from mwviz.engine import vocabulary
from mwviz.engine.model import Model
from mwviz.engine.scores import Scores
from mwviz.engine.steps import Step, remaining
from mwviz.engine.vocabulary import Head
from mwviz.errors import ModelError

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Divergence:
    """Distances between the reference's and a view's distributions; lower is closer, 0 is equal."""

    kl: Floats
    """float32 (M,): KL(reference || view) in nats; NaN where either does not cover the target."""
    kl_reverse: Floats
    """float32 (M,): KL(view || reference) in nats."""
    tv: Floats
    """float32 (M,): total variation, 0 to 1."""
    js: Floats
    """float32 (M,): Jensen-Shannon divergence in nats, 0 to log 2."""
    flip: npt.NDArray[np.bool_]
    """bool (M,): the most likely token differs; False where not covered."""


class Alternatives(NamedTuple):
    """The most likely tokens at one place, best first."""

    ids: npt.NDArray[np.int64]
    """int64 (k,)."""
    logprobs: Floats
    """float32 (k,): nats."""


def diverge(reference: Scores, view: Scores, model: Model) -> Iterator[Step[Divergence]]:
    """Steps of comparing two scored views, counted in targets; the last one carries the result.

    Args:
        reference: Scores of the true contexts.
        view: Scores of the view to judge, by the same model.
        model: The model that scored both.

    Raises:
        ModelError: The scores are not this model's, or were kept without hidden states.
    """
    for scores in (reference, view):
        if scores.model != model.label:
            raise ModelError(f"scores of {scores.model} cannot be compared with {model.label}")
    if reference.hidden is None or view.hidden is None:
        raise ModelError("scores without hidden states cannot be compared; score again")
    both = ~np.isnan(reference.logprob) & ~np.isnan(view.logprob)
    return _steps(reference.hidden, view.hidden, np.flatnonzero(both), vocabulary.head(model))


def top(model: Model, hidden: Floats, *, k: int) -> Alternatives:
    """The k most likely tokens after one final hidden state, float32 (H,)."""
    out = vocabulary.head(model)
    with torch.inference_mode():
        logprobs = out.log_softmax(_tensor(hidden[None], out))[0]
        best = logprobs.topk(min(k, len(logprobs)))
    return Alternatives(best.indices.cpu().numpy(), best.values.float().cpu().numpy())


def _steps(
    reference: Floats, view: Floats, targets: npt.NDArray[np.int64], out: Head
) -> Iterator[Step[Divergence]]:
    began = time.perf_counter()
    table = np.full((4, len(reference)), np.nan, dtype=np.float32)
    flip = np.zeros(len(reference), dtype=bool)
    for chunk in out.chunks(len(targets)):
        some = targets[chunk]
        distances, flipped = _compare(out, _tensor(reference[some], out), _tensor(view[some], out))
        table[:, some] = distances.float().cpu().numpy()
        flip[some] = flipped.cpu().numpy()
        done = min(chunk.stop, len(targets))
        if done < len(targets):
            eta = remaining(time.perf_counter() - began, done, len(targets))
            yield Step(done, len(targets), eta)
    kl, kl_reverse, tv, js = table
    found = Divergence(kl=kl, kl_reverse=kl_reverse, tv=tv, js=js, flip=flip)
    yield Step(len(targets), len(targets), 0.0, found)


def _tensor(hidden: Floats, out: Head) -> torch.Tensor:
    return torch.from_numpy(hidden).to(out.weight.device)


@torch.inference_mode()
def _compare(
    out: Head, reference: torch.Tensor, view: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """(4, E): KL, reverse KL, TV and JS; bool (E,): whether the most likely token differs."""
    # Ruled-out tokens (probability 0) must add 0, not NaN.
    log_p, log_q = (out.log_softmax(side).clamp_min(-1e30) for side in (reference, view))
    p, q = log_p.exp(), log_q.exp()
    log_middle = torch.logaddexp(log_p, log_q) - math.log(2)
    kl = (p * (log_p - log_q)).sum(1)
    kl_reverse = (q * (log_q - log_p)).sum(1)
    js = ((p * (log_p - log_middle)).sum(1) + (q * (log_q - log_middle)).sum(1)) / 2
    tv = (p - q).abs().sum(1) / 2
    # Rounding can push a distance of equal distributions a little below 0.
    distances = torch.stack((kl, kl_reverse, tv, js)).clamp_min(0)
    return distances, log_p.argmax(1) != log_q.argmax(1)
