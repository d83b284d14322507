"""What a training tells of itself, step by step. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one optimiser step saw, before it changed the weights. None: not known or not asked."""

    step: int
    """0-based."""
    loss: float | None
    """What was sent backward, in nats a target: terms weigh 1, or by the policy's factor. None if
    the batch trains nothing under this arm."""
    nll: float | None
    """Mean negative log-likelihood of the trained tokens, nats; lower is better."""
    kl: float | None
    """Mean KL(true context || student) over the tokens that SDCC pulls, nats; 0 is best."""
    targets: int
    """Sampled tokens that the arm trains in this batch."""
    tokens: int
    """Tokens fed to the model, the teacher's left out."""
    grad_norm: float
    """Before it was cut."""
    learning_rate: float
    clipped: float | None
    """Share of the targets that the clip keeps from training; policy only."""
    unknown: int
    """Targets without a recorded log-probability, which a policy gradient leaves out."""
    gap: float | None
    """Mean |log p under the arm - log p recorded|, nats, where sampled at temperature 1."""
    gap_max: float | None
    seconds: float
    eta: float
    """Seconds that the rest of the arm's steps takes at the speed so far; 0 outside `train`."""
    note: str = ""
    """How rows had to be run, where that was not as predicted: some notes, and how many more."""

    def to_json(self) -> dict[str, Any]:
        """The report as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class JunctionReport:
    """How far a view is from the truth on the tokens for which it gets so many evictions wrong."""

    rollout: str
    wrong: int
    """Evictions of the lineage that the view gets wrong for a token: of a later context those after
    it, of one that evicts nothing those before it; 0: none. Runs of earlier versions have `after`
    instead: the evictions before the token, for every arm."""
    targets: int
    kl: float
    """Mean KL(true context || view), nats; 0 is best."""
    tv: float
    """Mean total variation, 0 to 1."""
    bound: float
    """What the mean KL allows the mean total variation to be at most."""


@dataclass(frozen=True, slots=True)
class WatchReport:
    """What the weights say about held-out rollouts after some steps. None: not known or not asked.

    `true`: in the contexts that tokens were sampled from. `view`: as the arm lays them out. Drift
    is log p in the view minus log p in the truth. Means over sampled tokens, in nats.
    """

    step: int
    """Steps taken; 0 is before the first."""
    loss_true: float | None
    """Negative log-likelihood in the true contexts, over all sampled tokens; lower is better."""
    loss_view: float | None
    """The same in the view, over the tokens it covers."""
    gap_true: float | None
    """Mean |log p - recorded|, where sampled at temperature 1."""
    gap_view: float | None
    gap_max: float | None
    """Largest |gap| in the view."""
    drift: float | None
    """Mean |drift| over the tokens that the view covers."""
    drift_trained: float | None
    """The same, each token as often as the view trains it."""
    drift_diverging: float | None
    """Over those whose context in the view is not the true one."""
    kl: float | None
    """Mean KL(true context || view), full vocabulary; 0 is best."""
    tv: float | None
    """Mean total variation, 0 to 1."""
    bound: float | None
    """Largest mean total variation that this KL allows."""
    flips: float | None
    """Share whose most likely token differs."""
    entropy_true: float | None
    entropy_view: float | None
    coverage: float | None
    """Share of the sampled tokens that the view trains; None if nothing was sampled."""
    cosine: float | None
    """Of the arm's gradient with the exact one on a fixed rollout; 1 is best."""
    error: float | None
    """|arm's gradient - exact| / |exact| on the same; 0 is best."""
    moved: float
    """Distance of the weights from the start, over the norm of the start."""
    floor: float
    """Drift that noise alone explains: the threshold of two exact layouts that must agree."""
    targets: int
    """Sampled tokens of the held-out rollouts."""
    seconds: float
    floor_kl: float | None = None
    """What the same two exact layouts leave of `kl` on one token at most; of `tv`, `flips` (the
    share of tokens), the entropies, `cosine` and `error` likewise. None: they cannot be run."""
    floor_tv: float | None = None
    floor_flips: float | None = None
    floor_entropy: float | None = None
    floor_cosine: float | None = None
    floor_error: float | None = None
    junctions: tuple[JunctionReport, ...] = ()
    world: Mapping[str, float] = field(default_factory=dict)
    """What the caller measured beside it, by name: reward, accuracy."""
    note: str = ""
    """What the numbers mean that no chart says: that another model recorded the rollouts."""

    def to_json(self) -> dict[str, Any]:
        """The report as one flat row, what the world measured under its own names."""
        row = asdict(self)
        row.pop("junctions")
        return row | dict(row.pop("world"))
