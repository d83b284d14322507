"""The parts of a gap, distances and clipped shares of one method, against planted causes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mwviz
from mwviz.account import Advantages, account, pooled, residuals_of
from mwviz.analysis import Analysis
from mwviz.compare import Comparison
from mwviz.engine.divergence import diverge
from mwviz.engine.model import Model
from mwviz.engine.steps import finish
from mwviz.errors import ViewError
from mwviz.gap import Weights
from mwviz.policy import CLIP
from tests.engine import tiny
from tests.reference import Calls
from tests.strategies import encoded

TAIL: Calls = [
    ("m", [0, 1], [2]),
    ("m", [0, 1, 2, 3], [4, 9]),
    ("m", [0, 1, 2, 3, 4, 9, 5, 6], [7]),
    ("m", [0, 1, 7, 4, 9, 5], [8, 10, 11]),
]
"""Theory, T3 with longer answers: 4 and 9 see 7 from the future, 7 lost what it summarises."""
STALE = 0.05
"""Nats that a step of training has moved the trainer by."""
ROUNDING = 1e-4


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny.model_of(tiny.llama_config())


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def sampled_by(model: Model) -> Analysis:
    """The rollout, with what the model itself says in the true contexts as recorded."""
    rollout = replace(encoded(TAIL)[0], semantics="re_prefill")
    said = mwviz.analyse(rollout).score(model, "call_by_call").logprob
    sizes = np.cumsum([len(completion) for _, _, completion in TAIL])[:-1]
    calls = tuple(
        replace(call, logprobs=part, temperature=1.0)
        for call, part in zip(rollout.calls, np.split(said, sizes), strict=True)
    )
    return mwviz.analyse(replace(rollout, calls=calls))


def batch_of(analysis: Analysis, model: Model, path: Path, shift: float) -> str:
    """The last call as a trainer's batch, with the log-probabilities of a later model."""
    view = analysis.score(model, "rightmost").logprob
    row = analysis.view("rightmost").rows[0]
    logprobs = np.zeros(row.size)
    logprobs[row.edges.query + 1] = view[row.edges.target] + shift
    weight = np.zeros(row.size)
    weight[row.edges.query + 1] = 1
    told = {
        "input_ids": row.token_ids(analysis.tree).tolist(),
        "loss_mask": weight.tolist(),
        "trainer_logprobs": logprobs.tolist(),
        "advantages": [2.0] * row.size,
    }
    path.write_text(json.dumps(told))
    return analysis.add_batch(path).view.method


def no_advantages() -> Advantages:
    raise ViewError("none")


def compared(analysis: Analysis, model: Model, method: str) -> Comparison:
    return analysis.comparison(method, "logit_tree", model=model)


def told_of(analysis: Analysis, model: Model, method: str, weights: Weights) -> dict[str, Any]:
    found = compared(analysis, model, method)
    return account(
        analysis,
        found,
        finish(diverge(found.reference, found.view, model)),
        weights=weights,
        advantages=no_advantages,
    )


def parts(told: dict[str, Any]) -> dict[str, float]:
    return {part["name"]: part["mean"] for part in told["parts"]}


def test_the_gap_of_a_method_is_its_drift_where_the_sampler_had_the_same_weights(
    model: Model,
) -> None:
    analysis = sampled_by(model)
    found = compared(analysis, model, "rightmost")
    told = told_of(analysis, model, "rightmost", "same")
    split = parts(told["gap"])
    assert split["conditioning"] == pytest.approx(found.drift().values["mean"], abs=ROUNDING)
    assert abs(split["conditioning"]) > 0.1
    assert abs(split["floor"]) < ROUNDING
    assert set(split) == {"conditioning", "floor"}


def test_the_gap_of_a_batch_is_the_trainers_own(model: Model, tmp_path: Path) -> None:
    analysis = sampled_by(model)
    name = batch_of(analysis, model, tmp_path / "batch.jsonl", STALE)
    told = told_of(analysis, model, name, "sampler")
    split = parts(told["gap"])
    drift = compared(analysis, model, "rightmost").drift().values["mean"]
    assert split["staleness"] == pytest.approx(STALE, abs=ROUNDING)
    assert split["conditioning"] == pytest.approx(drift, abs=ROUNDING)
    assert abs(split["floor"]) < ROUNDING
    assert told["gap"]["gap"] == pytest.approx(drift + STALE, abs=ROUNDING)


def test_clipped_targets_are_those_that_the_advantage_pushes_outwards(
    model: Model, tmp_path: Path
) -> None:
    analysis = sampled_by(model)
    name = batch_of(analysis, model, tmp_path / "batch.jsonl", STALE)
    found = compared(analysis, model, name)
    ratio = np.exp(found.table["logprob_view"] + STALE - analysis.tree.logprob).to_numpy()
    for gain, out in ((2.0, ratio > CLIP[1]), (-2.0, ratio < CLIP[0])):
        worth = Advantages(np.full(len(ratio), gain), "batch")
        told = account(
            analysis,
            found,
            finish(diverge(found.reference, found.view, model)),
            weights="unknown",
            advantages=iter([worth]).__next__,
        )["policy"]
        assert told["ratios"] == "trainer"
        assert told["targets"] == int(np.isfinite(ratio).sum())
        assert told["clipped"] == int(out[np.isfinite(ratio)].sum())


def test_junctions_have_their_tokens_and_no_distance_above_its_bound(model: Model) -> None:
    analysis = sampled_by(model)
    told = told_of(analysis, model, "rightmost", "unknown")
    (one,) = told["junctions"]
    assert (one["call"], one["kind"]) == (3, "summary_tail")
    assert one["targets"] == int(analysis.pairs("rightmost").diverging.sum())
    assert 0.01 < one["tv"] <= one["tv_bound"]
    replayed = told_of(analysis, model, "replay", "unknown")["junctions"]
    diverging = int(analysis.pairs("replay").diverging.sum())
    assert [each["targets"] for each in replayed] == [diverging]
    assert told["policy"] == {"refused": "none"}
    assert told["distances"]["broken"] == 0


def test_exact_methods_have_nothing_to_tell(model: Model) -> None:
    told = told_of(sampled_by(model), model, "packed_mask", "same")
    assert set(parts(told["gap"])) == {"floor"}
    assert told["junctions"] == []
    assert told["distances"]["kl"] < 1e-6


def test_an_estimate_needs_many_branches_of_many_rollouts(model: Model) -> None:
    analysis = sampled_by(model)
    found = compared(analysis, model, "rightmost")
    one, told = residuals_of(analysis, found), told_of(analysis, model, "rightmost", "same")
    assert "refused" in pooled([one], [told])["estimate"]
    whole = pooled([one] * 40, [told] * 40)
    drift = found.table["drift"][analysis.pairs("rightmost").diverging].mean()
    assert whole["estimate"]["mean"] == pytest.approx(-drift, abs=ROUNDING)
    assert whole["estimate"]["label"] == "recorded minus student"
    assert "no bound" in whole["trajectory"]["label"]
