from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mwviz.bound import broken, mean_bound, target_bound, trajectory_bound

positive = st.floats(0.01, 1.0)


@given(st.lists(st.tuples(positive, positive), min_size=2, max_size=6))
def test_no_pair_of_distributions_exceeds_its_bound(weights: list[tuple[float, float]]) -> None:
    p, q = np.array(weights).T
    p, q = p / p.sum(), q / q.sum()
    kl = float((p * np.log(p / q)).sum())
    tv = float(np.abs(p - q).sum() / 2)
    assert tv <= target_bound(max(kl, 0.0)) + 1e-7


def test_the_bound_is_the_smaller_of_two_and_never_above_one() -> None:
    assert target_bound([0.0, 0.02, 2.0, 50.0]) == pytest.approx(
        [0.0, 0.1, np.sqrt(1 - np.exp(-2.0)), 1.0]
    )
    assert np.isnan(target_bound(np.nan))


def test_pinsker_is_nearly_reached_so_that_a_smaller_bound_would_be_false() -> None:
    p, q = np.array([0.51, 0.49]), np.array([0.5, 0.5])
    kl, tv = (p * np.log(p / q)).sum(), 0.01
    assert tv > 0.999 * target_bound(kl)


def test_a_measured_distance_above_its_bound_is_found() -> None:
    kl, tv = [0.02, 0.02, np.nan, 0.0], [0.0999, 0.11, 0.5, 0.00005]
    assert broken(kl, tv).tolist() == [1]


def test_the_mean_bound_stands_beside_the_mean_distance() -> None:
    found = mean_bound([0.02, 0.06, np.nan], [0.05, 0.1, 0.3])
    assert found.value == pytest.approx(np.sqrt(0.04 / 2))
    assert found.measured == pytest.approx(0.075)
    assert found.label == "mean over 2 targets, unconditional"
    assert np.isnan(mean_bound([np.nan], [0.1]).value)


def test_a_trajectory_bound_says_what_it_is_worth() -> None:
    many = trajectory_bound([0.1, 0.3], future=False)
    assert many.value == pytest.approx(np.sqrt(0.1))
    assert many.label == "whole trajectories, from 2 rollouts; holds for a fixed edit script"
    one = trajectory_bound([0.2], future=True)
    assert "one realised sum: an estimate, no bound" in one.label
    assert "joint KL" in one.label
    assert "not informative" not in one.label
    assert (
        "not informative: the summed KL is 1.5 nats" in trajectory_bound([1.5], future=False).label
    )
    assert trajectory_bound([8.0, 8.0], future=False).value == 1.0


def test_a_trajectory_is_no_further_apart_than_its_bound() -> None:
    """Two coins thrown three times: the joint TV against the expected sum of the KL."""
    p, q = np.array([0.6, 0.4]), np.array([0.5, 0.5])
    kl = float((p * np.log(p / q)).sum())
    joint = [np.einsum("i,j,k->ijk", side, side, side) for side in (p, q)]
    tv = np.abs(joint[0] - joint[1]).sum() / 2
    assert tv < trajectory_bound([3 * kl, 3 * kl], future=False).value
    assert tv > 0.8 * trajectory_bound([3 * kl, 3 * kl], future=False).value
