"""Gaps of tokens that were sampled at other temperatures than 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

import mwviz
from mwviz.analysis import Analysis
from mwviz.engine.model import Model
from tests.engine import tiny
from tests.reference import Calls
from tests.strategies import encoded

CALLS: Calls = [
    ("m", [0], [1, 2, 3, 4, 5]),
    ("m", [0, 1, 2, 3, 5], [6, 7]),
    ("m", [0, 1, 2, 3, 5, 6, 7], [8]),
]
WARM = (0.5, 1.7, 1.0)
"""Temperature of each call."""
ROUNDING = 2e-5


@pytest.fixture
def model(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> Model:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tiny.llama()


@torch.no_grad()
def sampled(model: Model, call: int, warm: float) -> np.ndarray:
    """What a sampler would record: log-softmax of the model's own logits over the temperature."""
    _, prompt, completion = CALLS[call]
    logits = model.module(input_ids=torch.tensor([prompt + completion])).logits[0].double()
    said = (logits / warm).log_softmax(-1)
    places = range(len(prompt) - 1, len(prompt) + len(completion) - 1)
    chosen = [said[place, token] for place, token in zip(places, completion, strict=True)]
    return torch.stack(chosen).float().numpy()


def recorded(model: Model, warm: Sequence[float | None]) -> Analysis:
    rollout = replace(encoded(CALLS)[0], semantics="re_prefill")
    calls = tuple(
        replace(call, temperature=said, logprobs=sampled(model, index, said or 1.0))
        for index, (call, said) in enumerate(zip(rollout.calls, warm, strict=True))
    )
    return mwviz.analyse(replace(rollout, calls=calls))


@pytest.mark.parametrize("method", ["packed_mask", "logit_tree", "call_by_call"])
def test_exact_methods_have_no_gap_at_the_temperature_that_sampled(
    method: str, model: Model
) -> None:
    found = recorded(model, WARM).comparison(method, model=model)
    assert found.gap().targets == 8
    assert found.gap().values["max_abs"] < ROUNDING
    naive = recorded(model, WARM).comparison("rightmost", model=model)
    assert naive.gap("diverging").values["max_abs"] > 0.1


def test_drift_stays_at_temperature_1(model: Model) -> None:
    warm = recorded(model, WARM).comparison("rightmost", model=model).table
    plain = recorded(model, (1.0, 1.0, 1.0)).comparison("rightmost", model=model).table
    assert np.allclose(warm["drift"], plain["drift"], atol=ROUNDING, equal_nan=True)
    assert not np.allclose(warm["gap"], plain["gap"], atol=0.01, equal_nan=True)


def test_without_a_temperature_above_0_there_is_no_gap(model: Model) -> None:
    table = recorded(model, (None, 0.0, 0.5)).comparison("packed_mask", model=model).table
    known = ~table["gap"].isna()
    assert known.tolist() == [False] * 7 + [True]


def test_kept_scores_of_one_temperature_are_not_those_of_another(model: Model) -> None:
    half, double = recorded(model, (0.5,) * 3), recorded(model, (2.0,) * 3)
    assert half.digest != double.digest
    assert recorded(model, (1.0,) * 3).digest == recorded(model, (None,) * 3).digest
    for analysis in (half, double):
        for _ in range(2):  # the second time from disk
            fresh = mwviz.analyse(analysis.rollout)
            found = fresh.comparison("logit_tree", model=model)
            assert found.gap().values["max_abs"] < ROUNDING
