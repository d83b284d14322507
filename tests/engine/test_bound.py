"""Measured total variation against its bound, on tiny models and on recorded rollouts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedConfig

import mwviz
from mwviz.bound import broken, mean_bound, target_bound
from mwviz.compare import COLUMNS, DISTANCES
from mwviz.engine.divergence import diverge
from mwviz.engine.model import Model
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz.views import build_view
from tests.engine import tiny
from tests.engine.test_recorded import COMMITTED, rollouts

T1 = Path(__file__).parents[1] / "data" / "cases" / "vector-1-running-example" / "calls.jsonl"
CONFIGS = {"llama": tiny.llama_config(), "gpt2": tiny.gpt2_config()}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("method", ["rightmost", "replay", "union_mask", "logit_tree"])
def test_no_measured_distance_of_a_tiny_model_exceeds_its_bound(
    config: PreTrainedConfig, method: str
) -> None:
    tree, model = tiny.tree_of(tiny.RUNNING_EXAMPLE), tiny.model_of(config)
    reference, view = (
        finish(score(tree, build_view(tree, name), model)) for name in ("packed_mask", method)
    )
    found = finish(diverge(reference, view, model))
    assert len(broken(found.kl, found.tv)) == 0
    mean = mean_bound(found.kl, found.tv)
    assert mean.measured <= mean.value + 1e-4
    if method != "logit_tree":
        assert np.nanmax(found.tv) > 0.1
        assert len(broken(found.kl / 8, found.tv)) > 0


@pytest.mark.embedded
@pytest.mark.parametrize(
    ("name", "method"), [("train-summary-0", "rightmost"), ("held-window-0", "replay")]
)
def test_no_measured_distance_of_a_recorded_rollout_exceeds_its_bound(
    smollm2: Model, name: str, method: str
) -> None:
    """About 10 s each."""
    tree = rollouts(COMMITTED)[name]
    reference, view = (
        finish(score(tree, build_view(tree, layout), smollm2)) for layout in ("packed_mask", method)
    )
    found = finish(diverge(reference, view, smollm2))
    assert len(broken(found.kl, found.tv)) == 0
    mean = mean_bound(found.kl, found.tv)
    assert 0.01 < mean.measured <= mean.value


def test_an_analysis_gives_distances_and_joins_them_to_a_comparison() -> None:
    analysis = mwviz.load(T1).analyses[0]
    model = tiny.llama()
    comparison = analysis.comparison("rightmost", model=model)
    found = analysis.divergence("rightmost")
    joined = comparison.with_distances(found)
    assert set(joined.table.columns) == {*COLUMNS, *DISTANCES}
    assert set(comparison.table.columns) == set(COLUMNS)
    table = joined.table[joined.table["covered"]]
    assert (table["tv"] <= table["tv_bound"] + 1e-4).all()
    assert np.allclose(table["tv_bound"], target_bound(table["kl"]), atol=1e-5)
    metrics = joined.metrics("diverging")
    chosen = table[table["diverging"]]
    assert metrics["kl"] == pytest.approx(chosen["kl"].mean())
    assert metrics["flip_rate"] == pytest.approx(chosen["flip"].mean())
    change = np.exp(table["logprob_view"]) - np.exp(table["logprob_true"])
    assert np.allclose(table["probability_change"], change, atol=1e-6)
    assert np.allclose(table["entropy_change"], table["entropy_view"] - table["entropy_true"])
    assert joined.metrics("control")["kl"] < 1e-4 < metrics["kl"]
