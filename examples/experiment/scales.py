"""How much of each part is run unless the command line says otherwise."""

from __future__ import annotations

from typing import NamedTuple


class Scale(NamedTuple):
    """Of one part."""

    seeds: int
    steps: int
    rate: float
    """Learning rate."""
    last: int | None = None
    """Step after which its arms stop, where those of an earlier call did; None after all."""


SCALES = {
    "sft": Scale(3, 300, 2e-3),
    "grpo-prune": Scale(2, 30, 5e-4),
    "grpo-summary": Scale(2, 30, 5e-4),
}
HELD_OUT = 256
"""Fixed questions that every trained model answers."""
