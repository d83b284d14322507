"""Numbers that say how far a view's predictions are from a reference, each on a named token set.

`d = log p_view - log p_reference` per target, in nats; `r = exp(d)`. Definitions: the theory,
section 7. Letters: M targets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
CLIP_RATIO = 2.0
"""Importance ratio beyond which truncated importance sampling clips."""
PPO_RANGE = (0.8, 1.28)
"""Ratios that asymmetric PPO clipping leaves alone."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a set of differences."""

    name: str
    unit: str
    better: str
    """`lower`, `higher`, or `zero`: nearer to zero."""
    of: Callable[[Doubles], float]
    """Takes float64 (M,): d of every target in the set, none missing, at least one."""
    summary: str


METRICS: tuple[Metric, ...] = (
    Metric("mean_abs", "nats", "lower", lambda d: float(np.abs(d).mean()), "mean |d|"),
    Metric("mean", "nats", "zero", lambda d: float(d.mean()), "mean d, with its sign"),
    Metric("max_abs", "nats", "lower", lambda d: float(np.abs(d).max()), "largest |d|"),
    Metric(
        "p99_abs", "nats", "lower", lambda d: float(np.quantile(np.abs(d), 0.99)), "99th percentile"
    ),
    Metric("k1", "nats", "zero", lambda d: float(-d.mean()), "mean of -d: KL estimate, unbiased"),
    Metric(
        "k3",
        "nats",
        "lower",
        lambda d: float((np.expm1(d) - d).mean()),
        "mean of r - 1 - d: estimates KL(reference || view) for tokens drawn from the reference",
    ),
    Metric("perplexity_ratio", "ratio", "lower", lambda d: float(np.exp(-d.mean())), "exp(k1)"),
    Metric(
        "ess",
        "share",
        "higher",
        lambda d: _effective_share(np.exp(d)),
        "effective sample size, as a share of the targets",
    ),
    Metric(
        "clip_high",
        "share",
        "lower",
        lambda d: float((np.exp(d) > CLIP_RATIO).mean()),
        f"share with r > {CLIP_RATIO:g}",
    ),
    Metric(
        "clip_low",
        "share",
        "lower",
        lambda d: float((np.exp(d) < 1 / CLIP_RATIO).mean()),
        f"share with r < 1/{CLIP_RATIO:g}",
    ),
    Metric(
        "ppo_clip",
        "share",
        "lower",
        lambda d: float(((np.exp(d) < PPO_RANGE[0]) | (np.exp(d) > PPO_RANGE[1])).mean()),
        f"share with r outside [{PPO_RANGE[0]}, {PPO_RANGE[1]}]",
    ),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """All metrics of one token set."""

    token_set: str
    """`all` covered targets, `diverging` or `control` (covered and not diverging)."""
    targets: int
    values: dict[str, float]
    """By metric name; empty if the set is empty."""


def measure(difference: npt.ArrayLike, token_set: str) -> Measured:
    """All metrics of the differences that are known (not NaN)."""
    d = np.asarray(difference, dtype=np.float64)
    d = d[~np.isnan(d)]
    if len(d) == 0:
        return Measured(token_set, 0, {})
    return Measured(token_set, len(d), {metric.name: metric.of(d) for metric in METRICS})


def _effective_share(ratios: Doubles) -> float:
    """1 / mean(w^2) of the ratios scaled to mean one: 1 if all are equal."""
    weights = ratios / ratios.mean()
    return float(1 / (weights**2).mean())
