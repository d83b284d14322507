"""B minus A of two scorings, against sums over plain lists."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mwviz.analysis import Analysis
from mwviz.compare import Comparison
from mwviz.contrast import contrast
from mwviz.demos import DEMOS, open_demo
from mwviz.errors import ViewError


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    (found,) = open_demo(next(demo for demo in DEMOS if demo.name == "summary")).analyses
    return found


def side(analysis: Analysis, view: str) -> Comparison:
    return analysis.compared(analysis.scores[view], analysis.scores["logit_tree"])


def test_each_number_is_that_of_b_minus_that_of_a(analysis: Analysis) -> None:
    a, b = side(analysis, "rightmost"), side(analysis, "replay")
    told = contrast(a, b)
    lists = list(zip(a.view.logprob.tolist(), b.view.logprob.tolist(), strict=True))
    both = [(x, y) for x, y in lists if x == x and y == y]  # noqa: PLR0124  # NaN is not itself
    row = told.by_set().set_index("tokens of").loc["both"]
    assert row["tokens"] == len(both) < len(lists)
    assert row["B - A"] == pytest.approx(sum(y - x for x, y in both) / len(both), rel=1e-5)
    assert row["|B - A|"] == pytest.approx(sum(abs(y - x) for x, y in both) / len(both), rel=1e-5)
    assert row["largest"] == pytest.approx(max(abs(y - x) for x, y in both), rel=1e-5)
    above = [abs(y - x) > max(a.threshold, b.threshold) for x, y in both]
    assert row["above floor"] == sum(above)
    assert told.coverage == (a.coverage, b.coverage)


def test_the_first_divergence_is_the_first_token_above_the_floor(analysis: Analysis) -> None:
    told = contrast(side(analysis, "rightmost"), side(analysis, "replay"))
    change = told.change.tolist()
    first = next(i for i, size in enumerate(change) if abs(size) > told.threshold)
    assert told.first == first
    same = contrast(side(analysis, "logit_tree"), side(analysis, "packed_mask"))
    assert same.first is None


def test_sets_calls_and_junctions_share_out_the_tokens(analysis: Analysis) -> None:
    told = contrast(side(analysis, "rightmost"), side(analysis, "packed_mask"), "|drift|")
    sets = told.by_set().set_index("tokens of")["tokens"]
    assert sets["diverging"] + sets["control"] == sets["both"]
    assert told.by_call()["tokens"].sum() == sets["both"]
    junctions = told.by_junction(analysis.junction_list, analysis.tree.lineage)
    first = min(junction.call for junction in analysis.junction_list)
    behind = int((told.both & (analysis.tree.call >= first)).sum())
    assert junctions["tokens"].sum() == behind > 0
    assert list(junctions["before call"]) == [j.call for j in analysis.junction_list]


def test_tokens_belong_to_the_last_change_of_their_agent(analysis: Analysis) -> None:
    told = contrast(side(analysis, "rightmost"), side(analysis, "replay"))
    rng = np.random.default_rng(3)
    calls, targets = 60, 400
    lineage = rng.integers(0, 3, calls)
    change = rng.normal(size=targets).astype(np.float32)
    change[::7] = np.nan
    made = replace(
        told,
        a=np.zeros(targets, dtype=np.float32),
        b=change,
        diverging=np.zeros(targets, dtype=bool),
        call=np.sort(rng.integers(0, calls, targets)),
    )
    at = np.sort(rng.choice(calls, 25, replace=False)).tolist()
    first = analysis.junction_list[0]
    junctions = [replace(first, call=call, depth=None if call % 9 == 0 else 1) for call in at]
    table = made.by_junction(junctions, lineage)
    placed = [junction.call for junction in junctions if junction.depth is not None]
    assert list(table["before call"]) == placed
    for row, call in zip(table.itertuples(), placed, strict=True):
        later = [other for other in placed if other > call and lineage[other] == lineage[call]]
        own = [
            float(size)
            for size, c in zip(change, made.call, strict=True)
            if call <= c < min([calls, *later]) and lineage[c] == lineage[call] and size == size  # noqa: PLR0124
        ]
        assert row.tokens == len(own)
        assert row.largest == pytest.approx(max(map(abs, own), default=np.nan), nan_ok=True)
    by_call = made.by_call()
    for row in by_call.itertuples():
        assert row.tokens == int((made.both & (made.call == row.call)).sum()) > 0
    assert by_call["tokens"].sum() == made.both.sum()
    assert not len(made.by_junction([], lineage))


def test_the_floor_of_a_difference_of_drifts_is_the_sum_of_both(analysis: Analysis) -> None:
    a = side(analysis, "rightmost")
    b = replace(side(analysis, "replay"), threshold=0.25)
    assert contrast(a, b).threshold == 0.25
    assert contrast(a, b, "|drift|").threshold == pytest.approx(a.threshold + 0.25)
    moved = np.abs(b.view.logprob - b.reference.logprob)
    np.testing.assert_allclose(contrast(a, b, "|drift|").b, moved)


def test_scorings_of_other_tokens_are_refused(analysis: Analysis) -> None:
    (other,) = open_demo(DEMOS[0]).analyses
    with pytest.raises(ViewError, match="same rollout in the same tokens"):
        contrast(side(analysis, "rightmost"), side(other, "rightmost"))
