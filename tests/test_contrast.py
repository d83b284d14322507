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
