"""What a comparison comes to: told from its last shared look, and nothing that noise explains."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from mwviz.training.outcome import outcome


def looks(*rows: tuple[str, int, float, float], floor: float = 1e-6) -> pd.DataFrame:
    """Arm, step, drift and loss in the true contexts of each look."""
    names = ("arm", "step", "drift", "loss_true")
    return pd.DataFrame([{**dict(zip(names, row, strict=True)), "floor": floor} for row in rows])


START = (("rightmost", 0, 1.0, 4.0), ("packed_mask", 0, 0.0, 4.0), ("replay", 0, 0.5, 4.0))


def test_the_last_look_that_all_arms_had_decides() -> None:
    told = outcome(
        looks(
            *START,
            ("rightmost", 5, 2.5, 3.0),
            ("packed_mask", 5, 2e-6, 0.25),
            ("replay", 5, 0.5, 1.0),
            ("rightmost", 9, 9.0, 0.01),
        )
    )
    assert told == [
        "Trained on what was sampled: packed_mask. Trained on other contexts than the agent had: "
        "replay (drift 0.5 nats a token) and rightmost (drift 2.5 nats a token).",
        "In the true contexts packed_mask ends lowest, at 0.25 nats a token, 4 before; replay 1 "
        "and rightmost 3. One seed, 5 steps: another may order close arms otherwise.",
    ]


def test_arms_that_differ_by_noise_are_not_ordered() -> None:
    told = outcome(
        looks(*START[:2], ("rightmost", 1, 1.0, 0.5), ("packed_mask", 1, 0.0, 0.5000001))
    )
    assert "In the true contexts rightmost and packed_mask end lowest, at 0.5 nats" in told[1]
    assert "1 step:" in told[1]


@pytest.mark.parametrize("floor", [1e-2, math.nan])
def test_a_drift_within_its_floor_is_none(floor: float) -> None:
    rows = (*START[:2], ("rightmost", 1, 2e-2, 0.5), ("packed_mask", 1, 0.0, 0.25))
    told = outcome(looks(*rows, floor=floor))[0]
    if math.isnan(floor):
        assert "other contexts than the agent had: rightmost (drift 0.02 nats a token)" in told
    else:
        assert told.startswith("Every arm trains on what was sampled")


def test_nothing_is_concluded_before_the_arms_can_be_compared() -> None:
    assert outcome(pd.DataFrame()) == []
    assert outcome(looks(*START)) == []
    assert outcome(looks(START[0], ("rightmost", 5, 1.0, 3.0))) == []
    assert outcome(looks(*START[:2], ("rightmost", 5, 1.0, 3.0))) == []
    other = ("rightmost", 5, 1.0, 3.0), ("packed_mask", 4, 0.0, 3.0)
    assert outcome(looks(*START[:2], *other)) == []


def test_an_arm_that_failed_before_its_second_look_is_left_out() -> None:
    told = outcome(looks(*START, ("packed_mask", 5, 0.0, 0.25), ("replay", 5, 0.5, 1.0)))
    assert "replay (drift 0.5 nats a token)" in told[0]
    assert "rightmost" not in " ".join(told)


def test_an_arm_without_a_loss_is_left_out() -> None:
    rows = (*START[:2], ("rightmost", 1, 1.0, math.nan), ("packed_mask", 1, 0.0, math.nan))
    assert outcome(looks(*rows))[1] == "No loss in the true contexts is known."


def test_few_tokens_that_diverge_are_not_hidden_by_the_mean() -> None:
    table = looks(*START[:2], ("rightmost", 1, 1e-6, 0.5), ("packed_mask", 1, 0.0, 0.25))
    table["drift_diverging"] = [2.0, math.nan, 2.0, math.nan]
    assert outcome(table)[0] == (
        "Trained on what was sampled: packed_mask. Trained on other contexts than the agent had: "
        "rightmost (drift 2 nats a diverging token)."
    )


@pytest.mark.parametrize("known", [0.0, math.nan])
def test_an_arm_without_a_drift_is_not_said_to_be_exact(known: float) -> None:
    rows = (*START[:2], ("rightmost", 1, math.nan, 0.5), ("packed_mask", 1, known, 0.25))
    told = outcome(looks(*rows))[0]
    arms = "rightmost and packed_mask" if math.isnan(known) else "rightmost"
    assert told.endswith(f"Not known of {arms}: no drift was measured.")
    assert "Every arm" not in told
