"""What a model said about a view: one number a target, on the tree's targets. No torch here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Floor:
    """Drift between two methods that must agree exactly, in nats: what noise alone looks like."""

    p50: float
    p999: float
    targets: int
    """How many targets it was measured on."""

    @property
    def threshold(self) -> float:
        """Smallest |drift| that may be highlighted: max(p99.9, 3 x median, 1e-5) nats."""
        return max(self.p999, 3 * self.p50, 1e-5)


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Log-probabilities of one rollout's targets under one view. Letters: M targets, H width."""

    method: str
    model: str
    """Name and revision of the model, and of its adapter if it has one."""
    kernel: str
    dtype: str
    device: str
    logprob: npt.NDArray[np.float32]
    """float32 (M,): nats; NaN where the view does not cover the target."""
    entropy: npt.NDArray[np.float32]
    """float32 (M,): of the predicted distribution, in nats; NaN where not covered."""
    rank: npt.NDArray[np.int32]
    """int32 (M,): 0 = the sampled token is the most likely one; -1 where not covered."""
    hidden: npt.NDArray[np.float32] | None
    """float32 (M, H): final hidden state at each query, the input of the vocabulary product."""
    floor: Floor
    seconds: float
    tempered: npt.NDArray[np.float32] | None = None
    """float32 (M,): log-probability at the temperature that sampled the target, nats; NaN where
    none above 0 is recorded. None where all that are recorded are 1, which `logprob` is."""
    notes: tuple[str, ...] = ()
    """What a reader of these numbers must know (other model than recorded, truncated context)."""
