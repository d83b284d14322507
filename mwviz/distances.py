"""How far whole distributions are apart under a view: numbers and points of one comparison.

As the worker tells them: small, because only the targets that differ most come with their values.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mwviz.analysis import Analysis
from mwviz.bound import Bound, broken, mean_bound, trajectory_bound
from mwviz.engine.steps import Step
from mwviz.quantise import Sent, sent
from mwviz.scorer import EXACT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mwviz.engine.divergence import Divergence
    from mwviz.engine.model import Model
    from mwviz.engine.scores import Scores

PART = 100
"""Steps that each third of the work counts as."""
LEAST = 1e-5
"""Nats; smaller KL are sums of rounding errors in float32."""
MOST_POINTS = 2_000
"""Targets that come with their values: those with the largest KL."""


class Point(NamedTuple):
    """One target."""

    target: int
    kl: float
    """KL(true context || view), nats."""
    tv: float
    """Measured total variation, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Distances:
    """One view against the true contexts, over the targets that both cover."""

    targets: int
    kl: float
    """Mean, nats."""
    kl_reverse: float
    """Mean of KL(view || true context), nats."""
    js: float
    """Mean, nats."""
    flips: int
    """Targets whose most likely token differs."""
    mean: Bound
    """Mean total variation, and what the mean KL allows."""
    trajectory: Bound
    broken: int
    """Targets whose measured total variation exceeds their bound: always a bug."""
    points: tuple[Point, ...]
    tokens: Sent | None = None
    """KL(true context || view) of every target, in nats, to colour by."""

    def to_json(self) -> dict[str, Any]:
        """As the worker tells it."""
        return asdict(self)

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Distances:
        """What `to_json` wrote."""
        bounds = {name: Bound(**told[name]) for name in ("mean", "trajectory")}
        points = tuple(Point(*point) for point in told["points"])
        tokens = Sent(*told["tokens"]) if told.get("tokens") else None
        return cls(**{**told, **bounds, "points": points, "tokens": tokens})


def kl_floor(floor: float) -> float:
    """Largest KL in nats that noise alone explains, where log p moves by at most `floor` nats.

    If every token's log-probability moves by at most f, the KL is at most f^2 / 2 (Hoeffding's
    lemma); below `LEAST` it is rounding.
    """
    return max(floor**2 / 2, LEAST)


def measuring(analysis: Analysis, view: str, model: Model) -> Iterator[Step[Distances]]:
    """Steps of scoring a view and the true contexts and comparing them; the last has the summary.

    Args:
        analysis: shares the model's tokenizer.
        view: a method's name.
        model: scores both; scores on disk are taken from there.

    Raises:
        ModelError: the model cannot score one of them.
        ViewError: the rollout cannot be laid out so.
    """
    from mwviz.engine.divergence import diverge

    scored: list[Scores] = []
    whole = 3 * PART
    for part, name in enumerate((EXACT, view)):
        for step in analysis.scoring(model, name):
            done = PART * part + int(PART * step.done / max(step.total, 1))
            yield Step(done, whole, step.eta * (3 - part))
            if step.result is not None:
                scored.append(step.result)
    reference, judged = scored
    for apart in diverge(reference, judged, model):
        found = None
        if apart.result is not None:
            floor = kl_floor(max(reference.floor.threshold, judged.floor.threshold))
            summary = distances(analysis, apart.result, view)
            found = replace(summary, tokens=sent(apart.result.kl, floor))
        yield Step(2 * PART + int(PART * apart.done / max(apart.total, 1)), whole, apart.eta, found)


def distances(analysis: Analysis, found: Divergence, view: str) -> Distances:
    """The summary of a divergence.

    Args:
        analysis: of the rollout.
        found: between the true contexts and the view.
        view: its method.
    """
    known = np.flatnonzero(~np.isnan(found.kl))
    future = analysis.pairs(view).of("future") > 0
    order = known[np.argsort(-found.kl[known], kind="stable")][:MOST_POINTS]
    return Distances(
        targets=len(known),
        kl=_mean(found.kl[known]),
        kl_reverse=_mean(found.kl_reverse[known]),
        js=_mean(found.js[known]),
        flips=int(found.flip[known].sum()),
        mean=mean_bound(found.kl, found.tv),
        trajectory=trajectory_bound([float(found.kl[known].sum())], future=bool(future.any())),
        broken=len(broken(found.kl[known], found.tv[known])),
        points=tuple(Point(int(t), float(found.kl[t]), float(found.tv[t])) for t in order),
    )


def _mean(values: np.ndarray) -> float:
    return float(values.astype(np.float64).mean()) if len(values) else float("nan")
