"""What a training tells of itself, step by step. No torch here."""

from __future__ import annotations

from dataclasses import asdict, dataclass
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
    """Seconds still to go at the speed so far; 0 outside `train`."""

    def to_json(self) -> dict[str, Any]:
        """The report as JSON."""
        return asdict(self)
