from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from mwviz.compare import COLUMNS, DISTANCES
from mwviz.demos import DEMOS, open_demo
from mwviz.metrics import (
    CLIP_RATIO,
    FOREIGN,
    METRICS,
    OF_COLUMNS,
    measure,
    measure_columns,
    structure,
)
from mwviz.views import build_view
from tests.engine import tiny

ROOT = Path(__file__).parents[1]
KNOWN = {metric.name for metric in (*METRICS, *OF_COLUMNS)}


def test_column_metrics_match_their_definitions_on_three_tokens() -> None:
    columns = {
        "probability_change": np.array([0.5, -0.25, np.nan]),
        "entropy_view": np.array([1.0, 3.0, np.nan]),
        "entropy_change": np.array([-1.0, 0.5, np.nan]),
        "rank_view": np.array([0, 6, -1]),
        "flip": np.array([True, False, False]),
        "tv": np.array([0.5, 0.1, np.nan]),
    }
    assert measure_columns(columns) == pytest.approx(
        {
            "probability_difference": 0.375,
            "probability_difference_max": 0.5,
            "entropy": 2.0,
            "entropy_change": -0.25,
            "rank": 3.0,
            "flip_rate": 1 / 3,
            "tv": 0.3,
        }
    )


def test_every_metric_reads_a_documented_column_and_says_unit_and_direction() -> None:
    documented = {"drift", "gap", *COLUMNS, *DISTANCES}
    for metric in (*METRICS, *OF_COLUMNS):
        assert metric.column in documented, metric.name
        assert metric.better in {"lower", "higher", "zero", "none"}, metric.name
        assert metric.unit, metric.name


def test_every_trainers_name_stands_for_a_metric_of_ours() -> None:
    assert {foreign.trainer for foreign in FOREIGN} == {"verl", "prime-rl"}
    assert {foreign.ours for foreign in FOREIGN} <= KNOWN
    names = [(foreign.trainer, foreign.name) for foreign in FOREIGN]
    assert len(set(names)) == len(names)


def test_trainers_formulas_give_the_number_they_are_mapped_to() -> None:
    """What verl and prime-rl compute from (trainer, rollout) logprobs, written out here."""
    random = np.random.default_rng(1)
    rollout = -random.exponential(1.0, 500)
    trainer = rollout + random.normal(0, 0.6, 500)
    ratio = np.exp(trainer - rollout)
    theirs = {
        "rollout_corr/kl": (rollout - trainer).mean(),
        "rollout_corr/k3_kl": (ratio - np.log(ratio) - 1).mean(),
        "rollout_corr/ppl_ratio": np.exp(-trainer.mean()) / np.exp(-rollout.mean()),
        "rollout_corr/rollout_is_ratio_fraction_high": (ratio > CLIP_RATIO).mean(),
        "rollout_corr/rollout_is_ratio_fraction_low": (ratio < 1 / CLIP_RATIO).mean(),
        "training/rollout_probs_diff_mean": np.abs(np.exp(trainer) - np.exp(rollout)).mean(),
        "training/rollout_probs_diff_max": np.abs(np.exp(trainer) - np.exp(rollout)).max(),
        "mismatch_kl": (ratio - np.log(ratio) - 1).mean(),
        "log_importance_ratio": (trainer - rollout).mean(),
    }
    ours = measure(trainer - rollout, "all").values | measure_columns(
        {"probability_change": np.exp(trainer) - np.exp(rollout)}
    )
    mapped = {foreign.name: foreign.ours for foreign in FOREIGN}
    for name, value in theirs.items():
        assert ours[mapped[name]] == pytest.approx(value), name


def test_the_mean_over_all_hides_the_diverging_tokens_by_their_share() -> None:
    (analysis,) = open_demo(DEMOS[3]).analyses
    comparison = analysis.compared(analysis.scores["replay"], analysis.scores["logit_tree"])
    whole, diverging, control = (comparison.drift(name) for name in ("all", "diverging", "control"))
    share = diverging.targets / whole.targets
    assert 0 < share < 1
    mixed = share * diverging.values["mean_abs"] + (1 - share) * control.values["mean_abs"]
    assert whole.values["mean_abs"] == pytest.approx(mixed)
    assert control.values["mean_abs"] < 1e-4 < diverging.values["mean_abs"]
    assert comparison.metrics("control")["probability_difference"] < 1e-4
    assert comparison.metrics("diverging")["probability_difference"] > 1e-3


def test_structure_of_a_view_needs_no_model() -> None:
    tree = tiny.tree_of(tiny.RUNNING_EXAMPLE)
    right, packed = (structure(tree, build_view(tree, m)) for m in ("rightmost", "packed_mask"))
    assert right.coverage == pytest.approx(10 / 13)
    assert (right.multiplicity, packed.multiplicity) == ({0: 3, 1: 10}, {1: 13})
    assert packed.tree_ratio == pytest.approx(19 / 40)


def test_the_committed_page_is_what_the_command_makes() -> None:
    made = runpy.run_path(str(ROOT / "bench" / "metrics_table.py"))["page"]()
    assert (ROOT / "docs" / "metrics.md").read_text() == made
    for metric in (*METRICS, *OF_COLUMNS):
        assert f"`{metric.name}`" in made
