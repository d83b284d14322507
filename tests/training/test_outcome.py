"""What a comparison comes to: told from its last shared look, and nothing that is not known."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest

from mwviz.training.outcome import outcome
from mwviz.training.plan import Plan
from mwviz.training.recipe import Objective, Recipe

NONE = math.nan
"""Drift on diverging tokens where there are none."""
PLAN = Plan(files=("run.jsonl",), methods=("rightmost",))


def looks(*rows: tuple[str, int, float, float]) -> pd.DataFrame:
    """Arm, step, drift on diverging tokens and loss in the true contexts of each look."""
    return pd.DataFrame(
        [
            {
                "arm": arm,
                "step": step,
                "drift": 1e-7,
                "drift_diverging": diverging,
                "loss_true": nll,
                "floor": 1e-5,
            }
            for arm, step, diverging, nll in rows
        ]
    )


def told(*rows: tuple[str, int, float, float], objective: Objective = "nll") -> list[str]:
    return outcome(looks(*rows), replace(PLAN, recipe=Recipe(objective=objective)))


START = (("rightmost", 0, 1.0, 4.0), ("packed_mask", 0, NONE, 4.0), ("replay", 0, 0.5, 4.0))


def test_the_last_look_that_all_arms_had_decides() -> None:
    assert told(
        *START,
        ("rightmost", 5, 2.5, 3.0),
        ("packed_mask", 5, NONE, 0.25),
        ("replay", 5, 0.5, 1.0),
        ("rightmost", 9, 9.0, 0.01),
    ) == [
        "Trained on what was sampled: packed_mask. Trained on other contexts than the agent had: "
        "replay (drift 0.5 nats a diverging token) and rightmost (drift 2.5 nats a diverging "
        "token).",
        "In the true contexts packed_mask ends lowest, at 0.25 nats a token, 4 before; replay 1 "
        "and rightmost 3. One seed, 5 steps: another may order close arms otherwise.",
    ]


def test_arms_whose_losses_read_alike_are_not_ordered() -> None:
    said = told(*START[:2], ("rightmost", 1, 1.0, 0.5), ("packed_mask", 1, NONE, 0.5000001))
    assert "In the true contexts rightmost and packed_mask end lowest, at 0.5 nats" in said[1]
    assert "1 step:" in said[1]
    near = (("rightmost", 1, 1.0, 0.000165), ("packed_mask", 1, NONE, 0.000156))
    said = told(*START[:2], *near)
    assert "packed_mask and rightmost end lowest, at 0.000156 nats a token, no further" in said[1]
    assert "apart than the floor of 0.00001, 4 before" in said[1]
    said = told(*START[:2], ("rightmost", 1, 1.0, 0.51), ("packed_mask", 1, NONE, 0.5))
    assert "In the true contexts packed_mask ends lowest, at 0.5 nats" in said[1]


def test_no_arm_with_a_diverging_token_is_exact_however_little_it_drifts() -> None:
    said = told(*START[:2], ("rightmost", 1, 1e-6, 0.5), ("packed_mask", 1, NONE, 0.25))[0]
    assert said.startswith("Trained on what was sampled: packed_mask.")
    assert "other contexts than the agent had: rightmost" in said


def test_arms_without_a_diverging_token_are_all_exact() -> None:
    said = told(*START[:2], ("logit_tree", 1, NONE, 0.5), ("packed_mask", 1, NONE, 0.5))[0]
    assert said.startswith("Every arm trains on what was sampled")


def test_rollouts_in_which_nothing_differs_make_no_layout_exact() -> None:
    rows = ("last_call", 1, NONE, 0.5), ("rightmost", 1, NONE, 0.5)
    alone = "No context differs under last_call and rightmost in the watched rollouts, which says "
    assert told(*START[:2], *rows)[0] == alone + "nothing of others."
    said = told(*START[:2], *rows, ("exact", 1, NONE, 0.5))[0]
    assert said == f"Trained on what was sampled: exact. {alone}nothing of others."


@pytest.mark.parametrize("objective", ["nll", "policy"])
def test_a_policy_gradient_is_not_judged_by_the_likelihood_of_its_samples(
    objective: Objective,
) -> None:
    rows = ("rightmost", 1, 1.0, 0.5), ("packed_mask", 1, NONE, 0.25)
    assert len(told(*START[:2], *rows, objective=objective)) == (2 if objective == "nll" else 1)


def test_an_arm_without_a_drift_is_not_said_to_be_exact() -> None:
    table = looks(*START[:2], ("rightmost", 1, NONE, 0.5), ("packed_mask", 1, NONE, 0.25))
    table["drift"] = [1.0, 0.0, None, 0.0]
    assert outcome(table, PLAN)[0] == (
        "Trained on what was sampled: packed_mask. Not known of rightmost: no drift was measured."
    )
    table["drift"] = None
    said = outcome(table, PLAN)[0]
    assert said == "Not known of rightmost and packed_mask: no drift was measured."


def test_of_a_batch_held_out_rollouts_say_nothing() -> None:
    own = "own:b.npz"
    rows = (*START[:2], (own, 0, 1.0, 4.0)), (("rightmost", 1, 2.0, 3.0), (own, 1, 1.0, 3.5))
    table = looks(*rows[0], *rows[1], ("packed_mask", 1, NONE, 1.0))
    known = "Trained on other contexts than the agent had: own:b.npz (drift 1 nats a diverging"
    assert known in outcome(table, PLAN)[0]
    held = outcome(table, replace(PLAN, held_out=("other.jsonl",)))[0]
    assert held == (
        "Trained on what was sampled: packed_mask. Trained on other contexts than the agent had: "
        "rightmost (drift 2 nats a diverging token). Not known of own:b.npz: a batch lays out the "
        "rollouts that it was made of, and the watched ones may be others."
    )


def test_nothing_is_concluded_before_the_arms_can_be_compared() -> None:
    assert outcome(pd.DataFrame(), PLAN) == []
    assert told(*START) == []
    assert told(START[0], ("rightmost", 5, 1.0, 3.0)) == []
    assert told(*START[:2], ("rightmost", 5, 1.0, 3.0)) == []
    other = ("rightmost", 5, 1.0, 3.0), ("packed_mask", 4, NONE, 3.0)
    assert told(*START[:2], *other) == []


def test_an_arm_that_failed_before_its_second_look_is_left_out() -> None:
    said = told(*START, ("packed_mask", 5, NONE, 0.25), ("replay", 5, 0.5, 1.0))
    assert "replay (drift 0.5 nats a diverging token)" in said[0]
    assert "rightmost" not in " ".join(said)


def test_an_arm_without_a_loss_is_left_out() -> None:
    rows = (*START[:2], ("rightmost", 1, 1.0, math.nan), ("packed_mask", 1, NONE, math.nan))
    assert told(*rows)[1] == "No loss in the true contexts is known."
