from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings

from mwviz.errors import ViewError
from mwviz.pairs import count_pairs
from mwviz.sdcc import (
    LEAST_LEAVES,
    Residuals,
    consistency_targets,
    estimate,
    residuals,
    strength_at,
)
from mwviz.tree import EvictionTree, build_tree
from mwviz.views import METHODS, build_view, method_named
from tests.reference import Calls
from tests.strategies import encoded, unit_calls

Doubles = npt.NDArray[np.float64]
T1: Calls = [
    ("m", [0], [1, 2, 3, 4, 5, 6, 7]),
    ("m", [0, 1, 2, 3, 4, 6, 7], [8, 9, 10]),
    ("m", [0, 1, 2, 3, 4, 6, 7, 9, 10], [11, 12]),
    ("m", [0, 1, 2, 3, 4, 6, 7, 9, 10, 12], [13]),
]
"""Theory, T1: drop 5, then 8, then 11."""
SUMMARY_TAIL: Calls = [
    ("m", [0, 1], [2]),
    ("m", [0, 1, 2, 3], [4]),
    ("m", [0, 1, 2, 3, 4, 5, 6], [7]),
    ("m", [0, 1, 7, 4, 5], [8]),
]
"""Theory, T3: S U, a1, o1, a2, o2, p, m, a3 are 0 1, 2, 3, 4, 5, 6, 7, 8."""


def grown(calls: Calls) -> EvictionTree:
    rollout, encoding = encoded(calls)
    return build_tree(encoding, rollout)


def chosen(calls: Calls, student: str) -> list[int]:
    tree = grown(calls)
    view = build_view(tree, student)
    found = consistency_targets(view, count_pairs(tree, view))
    return [int(unit) for unit in tree.ids[tree.token[found]]]


def test_the_set_is_what_survives_and_diverges() -> None:
    assert chosen(T1, "rightmost") == [6, 7, 9, 10, 12]
    assert chosen(SUMMARY_TAIL, "rightmost") == [4, 7]
    assert chosen(SUMMARY_TAIL, "sdcc") == [4, 7]


def test_of_a_replay_it_is_every_diverging_target() -> None:
    assert chosen(T1, "sdcc_replay") == [8, 9, 10, 11, 12, 13]


@settings(max_examples=100)
@given(calls=unit_calls())
def test_a_target_of_the_last_call_is_never_in_the_set(calls: Calls) -> None:
    tree = grown(calls)
    view = build_view(tree, "sdcc")
    found = consistency_targets(view, count_pairs(tree, view))
    last = np.flatnonzero(tree.lineage == tree.main_lineage).max()
    assert not (tree.call[found] == last).any()
    assert (view.multiplicity[found] == 1).all()


@pytest.mark.parametrize("name", ["sdcc", "sdcc_replay"])
def test_its_rows_are_those_of_its_student(name: str) -> None:
    tree, method = grown(T1), method_named(name)
    assert method.student is not None
    (own,), (student,) = build_view(tree, name).rows, build_view(tree, method.student).rows
    assert own.nodes.tolist() == student.nodes.tolist()
    assert own.edges.target.tolist() == student.edges.target.tolist()
    assert not method.exact


def test_only_methods_with_a_further_loss_term_name_a_student() -> None:
    assert [m.name for m in METHODS if m.student] == ["sdcc", "sdcc_replay"]


def test_strength_rises_over_a_fifth_of_the_steps_and_stays() -> None:
    found = [strength_at(step, 50) for step in (0, 1, 5, 10, 11, 49)]
    assert found == pytest.approx([0.0, 0.01, 0.05, 0.1, 0.1, 0.1])
    assert strength_at(0, 50, rise=0.0) == 0.1
    assert strength_at(3, 10, most=1.0, rise=0.5) == pytest.approx(0.6)


def test_residuals_are_recorded_minus_student_where_sampled_at_temperature_1() -> None:
    rollout, encoding = encoded(T1)
    tree = replace(build_tree(encoding, rollout), logprob=np.arange(13, dtype=np.float32))
    view = build_view(tree, "rightmost")
    pairs = count_pairs(tree, view)
    student = np.full(13, 0.5, dtype=np.float32)
    warm = tuple(
        replace(c, temperature=None if i == 1 else 1.0) for i, c in enumerate(rollout.calls)
    )
    found = residuals(tree, replace(rollout, calls=warm), view=view, pairs=pairs, student=student)
    assert found.value.tolist() == [4.5, 5.5, 10.5]
    assert found.leaf.tolist() == [0, 0, 2]
    assert (found.unrecorded, found.tempered) == (0, 2)
    assert found.survivors_only
    assert not found.future
    tail = grown(SUMMARY_TAIL)
    view = build_view(tail, "rightmost")
    pairs = count_pairs(tail, view)
    nothing = residuals(tail, encoded(SUMMARY_TAIL)[0], view=view, pairs=pairs, student=student[:4])
    assert nothing.future
    assert (nothing.unrecorded, nothing.tempered) == (2, 0)


def drawn(leaves: int, *, future: bool = False, survivors_only: bool = True) -> Residuals:
    """Ten tokens a leaf that say the same: tokens of one leaf are not independent."""
    means = np.random.default_rng(5).normal(1.0, 1.0, leaves)
    leaf = np.repeat(np.arange(leaves), 10)
    return Residuals(means[leaf], leaf, future, survivors_only, 0)


def test_the_interval_counts_leaves_and_not_tokens() -> None:
    found = estimate([drawn(200)])
    assert (found.targets, found.leaves) == (2000, 200)
    error = 1.0 / np.sqrt(200)
    assert found.low < found.mean < found.high
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.2)
    assert estimate([drawn(200)]) == found
    assert estimate([drawn(200)], seed=1) != found


def test_rollouts_are_pooled_and_too_few_leaves_are_refused_in_words() -> None:
    half = drawn(LEAST_LEAVES // 2)
    assert estimate([half, half]).leaves == LEAST_LEAVES
    with pytest.raises(ViewError, match=r"only 15 leaves hold a token.*needs 30;"):
        estimate([half])
    with pytest.raises(ViewError, match="only 0 leaves"):
        estimate([])


def test_the_label_says_when_it_is_no_kl() -> None:
    assert estimate([drawn(40)]).label.startswith("mean KL")
    assert "survives" in estimate([drawn(40)]).conditions[-1]
    assert len(estimate([drawn(40, survivors_only=False)]).conditions) == 2
    left_out = estimate([drawn(40), replace(drawn(40), unrecorded=7, tempered=5)])
    assert "7 have no recorded log-probability, 5 were not sampled at" in left_out.conditions[-1]
    assert "takes every logit" in left_out.conditions[-1]
    with pytest.raises(ViewError, match=r"needs 30 \(2 have no recorded log-probability\); score"):
        estimate([replace(drawn(3), unrecorded=2)])
    some = estimate([drawn(40), drawn(40, future=True)])
    assert some.label == "recorded minus student"
    assert "joint KL" in some.conditions[-1]


def test_the_estimate_is_unbiased_for_the_mean_kl() -> None:
    """Tokens drawn from p: the mean of log p - log q approaches KL(p || q)."""
    random = np.random.default_rng(2)
    p, q = random.dirichlet(np.ones(8)), random.dirichlet(np.ones(8))
    kl = float((p * np.log(p / q)).sum())
    token = random.choice(8, 40_000, p=p)
    parts = Residuals(np.log(p / q)[token], np.arange(40_000) // 40, False, False, 0)
    found = estimate([parts])
    assert found.low < kl < found.high
    assert kl > 0.1


def test_tokens_of_another_temperature_estimate_another_distance() -> None:
    """Why they are left out: recorded as they were drawn they give the KL at that temperature."""
    random = np.random.default_rng(3)
    logits, student = random.normal(0, 2, (2, 8))

    def at(values: Doubles, temperature: float) -> Doubles:
        odds: Doubles = np.exp(values / temperature)
        shares: Doubles = odds / odds.sum()
        return shares

    (p, q), (cold, cold_q) = ([at(x, t) for x in (logits, student)] for t in (1.0, 0.5))
    kl, cold_kl = (float((a * np.log(a / b)).sum()) for a, b in ((p, q), (cold, cold_q)))
    token = random.choice(8, 40_000, p=cold)
    leaf = np.arange(40_000) // 40
    for value, what in ((np.log(cold / cold_q), cold_kl), (np.log(cold / q), None)):
        found = estimate([Residuals(value[token], leaf, False, False, 0)])
        assert not found.low < kl < found.high
        if what is not None:
            assert found.low < what < found.high
    # With every logit the weight is known and the estimate is right, but then so is the KL.
    weighted = estimate([Residuals((p / cold * np.log(p / q))[token], leaf, False, False, 0)])
    assert weighted.low < kl < weighted.high
