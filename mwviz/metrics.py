"""Numbers that say how far a view's predictions are from a reference, each on a named token set.

`d = log p_view - log p_reference` per target, in nats; `r = exp(d)`. Definitions: the theory,
section 7. Letters: M targets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mwviz.tree import EvictionTree
from mwviz.views.view import View

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
    """`lower`, `higher`, `zero` (nearer to zero), or `none` where neither is better."""
    of: Callable[[Doubles], float]
    """Takes float64 (M,): the column of every target in the set, none missing, at least one."""
    summary: str
    column: str = "drift"
    """Column of a comparison that it is computed from: `drift` or `gap`, else the one named."""


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


def _mean(values: Doubles) -> float:
    return float(values.mean())


def _mean_size(values: Doubles) -> float:
    return float(np.abs(values).mean())


OF_COLUMNS: tuple[Metric, ...] = (
    Metric(
        "probability_difference",
        "probability",
        "lower",
        _mean_size,
        "mean |p_view - p_reference| of the sampled tokens",
        "probability_change",
    ),
    Metric(
        "probability_difference_max",
        "probability",
        "lower",
        lambda p: float(np.abs(p).max()),
        "largest |p_view - p_reference|",
        "probability_change",
    ),
    Metric("entropy", "nats", "none", _mean, "mean entropy under the view", "entropy_view"),
    Metric(
        "entropy_change",
        "nats",
        "zero",
        _mean,
        "mean entropy under the view minus that in the true context",
        "entropy_change",
    ),
    Metric(
        "rank", "tokens", "lower", _mean, "mean rank of the sampled token, 0 the first", "rank_view"
    ),
    Metric("kl", "nats", "lower", _mean, "mean KL(reference || view), full vocabulary", "kl"),
    Metric("kl_reverse", "nats", "lower", _mean, "mean KL(view || reference)", "kl_reverse"),
    Metric("tv", "probability", "lower", _mean, "mean total variation", "tv"),
    Metric("js", "nats", "lower", _mean, "mean Jensen-Shannon divergence", "js"),
    Metric("flip_rate", "share", "lower", _mean, "share whose most likely token differs", "flip"),
)
"""Metrics of other columns than d; those of distances need the model: `Analysis.divergence`."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A metric that a trainer logs, and ours that says the same."""

    trainer: str
    name: str
    """As the trainer logs it."""
    ours: str
    """Name of a metric, of the gap: trainers compare with what the sampler recorded."""
    differs: str = ""
    """Where it is not the same number."""


FOREIGN = (
    Foreign("verl", "rollout_corr/kl", "k1"),
    Foreign("verl", "rollout_corr/k3_kl", "k3"),
    Foreign("verl", "rollout_corr/ppl_ratio", "perplexity_ratio", "mean of ratios a sequence"),
    Foreign("verl", "rollout_corr/rollout_is_eff_sample_size", "ess", "of ratios clamped first"),
    Foreign("verl", "rollout_corr/rollout_is_ratio_fraction_high", "clip_high"),
    Foreign("verl", "rollout_corr/rollout_is_ratio_fraction_low", "clip_low"),
    Foreign("verl", "training/rollout_probs_diff_mean", "probability_difference"),
    Foreign("verl", "training/rollout_probs_diff_max", "probability_difference_max"),
    Foreign(
        "verl", "actor/pg_clipfrac", "ppo_clip", "only ratios that the advantage pushes outwards"
    ),
    Foreign("verl", "actor/entropy", "entropy"),
    Foreign("prime-rl", "mismatch_kl", "k3"),
    Foreign("prime-rl", "log_importance_ratio", "mean", "one value a token"),
    Foreign("prime-rl", "prob_delta", "probability_difference", "one signed value a token"),
    Foreign("prime-rl", "is_masked", "ppo_clip", "its own limits, by probability or by ratio"),
    Foreign("prime-rl", "entropy", "entropy"),
)
"""What verl and prime-rl call our metrics; `mwviz.gap` splits what they mix."""


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


def measure_columns(columns: Mapping[str, npt.ArrayLike]) -> dict[str, float]:
    """The metrics of the columns that are there; a value is missing where it is NaN or a rank -1.

    Args:
        columns: of a comparison, by name, one entry a target of the set.
    """
    found = {}
    for metric in OF_COLUMNS:
        if metric.column in columns:
            values = np.asarray(columns[metric.column], dtype=np.float64)
            known = ~np.isnan(values) & ((values >= 0) | (metric.column != "rank_view"))
            if known.any():
                found[metric.name] = metric.of(values[known])
    return found


@dataclass(frozen=True, slots=True)
class Structure:
    """Numbers of a view that need no model; over all sampled tokens of the rollout."""

    coverage: float | None
    """Share of them that the view trains; higher is better. None if there are none."""
    multiplicity: dict[int, int]
    """How many targets train how many times; must be {1: all}."""
    tree_ratio: float
    """Tree tokens over branch tokens: what packing saves; lower saves more."""


def structure(tree: EvictionTree, view: View) -> Structure:
    """Coverage, multiplicity and sharing of one view of one tree."""
    times, targets = np.unique(view.multiplicity, return_counts=True)
    budget = tree.budget
    return Structure(
        coverage=view.coverage,
        multiplicity=dict(zip(times.tolist(), targets.tolist(), strict=True)),
        tree_ratio=budget["tree"] / budget["branches"] if budget["branches"] else 1.0,
    )


def _effective_share(ratios: Doubles) -> float:
    """1 / mean(w^2) of the ratios scaled to mean one: 1 if all are equal."""
    weights = ratios / ratios.mean()
    return float(1 / (weights**2).mean())
