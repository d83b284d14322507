"""What the engine aims for, by model and tree; see docs/performance.md."""

from __future__ import annotations

BARS = {
    "0.6B": {"A": (1.5, 1.5), "B": (2.1, 2.0), "C": (2.2, 2.2), "D": (1.95, 1.9)},
    "1.7B": {"A": (1.5, 1.4), "B": (1.65, 1.6), "C": (1.8, 1.7), "D": (1.6, 1.5)},
}
"""Train and score times over the floor."""
STRETCH = {
    "0.6B": {"A": 1.3, "B": 1.6, "C": 1.5, "D": 1.5},
    "1.7B": {"A": 1.25, "B": 1.35, "C": 1.3, "D": 1.3},
}
"""Train time over the floor, behind the bars."""
AREAL = {"B": (1112, 946, 0.48), "C": (1723, 1284, 0.45), "D": (869, 807, 0.52)}
"""AReaL's FlexAttention tree training of the 0.6B shape, ms; the eager packed FlexAttention timed
beside it; the share of AReaL's time that is aimed for."""
AREAL_STRETCH = {"B": 0.40, "C": 0.36, "D": 0.44}
"""That share behind the bars."""
LOGIT_TREE = {"A": 1.2, "B": 3.5, "C": 4.5, "D": 3.6}
"""Least speed-up over LogitTree with compiled layers."""
TIDY = 10.0
"""Seconds of the tidy demo's four views on two cores."""
MEMORY = 0.65
"""Most of a plain causal pass's peak memory, layers not compiled."""
FLOAT32 = (2e-6, 1e-6)
"""Largest distance of log-probabilities, nats, and of gradients from LogitTree's in float32."""
RECORDED = 1e-4
"""Largest distance in nats from recorded log-probabilities in float32."""
FIRST = 60.0
"""Seconds of the first call, compilation included."""
SETUP = 0.010
"""Seconds of laying out a row and building its mask."""


def against(value: float, bar: float, digits: str = ".2f") -> str:
    """A number that should not exceed its bar."""
    return f"{value:{digits}} ({bar}{'' if value <= bar else ', missed'})"


def reached(value: float, bar: float) -> str:
    """A number that should reach its bar."""
    return f"{value:.2f} ({bar}{'' if value >= bar else ', missed'})"
