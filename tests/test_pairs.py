from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from mwviz.judging import CLASSES
from mwviz.pairs import count_pairs
from mwviz.tree import EvictionTree, build_tree
from mwviz.views import METHODS, Method, build_view
from tests.reference import Calls, Truth, judge
from tests.strategies import encoded, unit_calls

EXACT = [method for method in METHODS if method.exact]
CAUSAL = [method for method in METHODS if method.name != "packed_mask"]


def grown(calls: Calls) -> EvictionTree:
    rollout, encoding = encoded(calls)
    return build_tree(encoding, rollout)


@pytest.mark.parametrize("method", CAUSAL, ids=lambda method: method.name)
@settings(max_examples=400, deadline=None)
@given(calls=unit_calls())
def test_pair_counts_equal_a_count_token_by_token(method: Method, calls: Calls) -> None:
    tree = grown(calls)
    view = build_view(tree, method.name)
    pairs = count_pairs(tree, view)
    truth = Truth(calls, tree.lineage.tolist())
    for row in view.rows:
        ids = tree.ids[row.nodes].tolist()
        for query, target in zip(row.edges.query, row.edges.target, strict=True):
            call, offset = int(tree.call[target]), int(tree.offset[target])
            expected = judge(truth, call, offset, ids, int(query))
            counted = {name: int(pairs.of(name)[target]) for name in expected.counts}
            assert counted == expected.counts, (call, offset)
            assert bool(pairs.diverging[target]) == expected.diverging


@pytest.mark.parametrize("method", EXACT, ids=lambda method: method.name)
@settings(max_examples=200, deadline=None)
@given(calls=unit_calls())
def test_exact_methods_have_only_agreeing_pairs_and_train_each_target_once(
    method: Method, calls: Calls
) -> None:
    tree = grown(calls)
    view = build_view(tree, method.name)
    totals = count_pairs(tree, view).totals
    assert {name for name, count in totals.items() if count} <= {"agree"}
    trainable = tree.query >= 0
    assert (view.multiplicity == trainable).all()


@settings(max_examples=200, deadline=None)
@given(calls=unit_calls())
def test_packed_mask_sees_exactly_the_path_at_its_depths(calls: Calls) -> None:
    tree = grown(calls)
    for row in build_view(tree, "packed_mask").rows:
        nodes, positions, until = row.nodes, row.positions, row.visible_until
        keys = np.arange(len(nodes))
        for query, target in zip(row.edges.query, row.edges.target, strict=True):
            seen = keys[(keys <= query) & (query < until)]
            context = tree.context(int(tree.call[target]))
            size = int(tree.prompt_length[tree.call[target]] + tree.offset[target])
            assert nodes[seen].tolist() == context[:size].tolist()
            assert positions[seen].tolist() == list(range(size))


@settings(max_examples=100, deadline=None)
@given(calls=unit_calls())
def test_replay_covers_all_that_has_a_query_and_rightmost_only_survivors(calls: Calls) -> None:
    tree = grown(calls)
    for method in METHODS:
        view = build_view(tree, method.name)
        missing = int(np.count_nonzero(view.multiplicity == 0))
        assert sum(count for _, count in view.uncovered) == missing
        assert view.multiplicity.max(initial=0) <= 1


def test_a_single_unbranched_lineage_looks_the_same_in_every_view() -> None:
    calls: Calls = [
        ("m", [0, 1], [2, 3]),
        ("m", [0, 1, 2, 3, 4], [5]),
        ("m", [0, 1, 2, 3, 4, 5, 6], [7]),
    ]
    tree = grown(calls)
    for method in METHODS:
        totals = count_pairs(tree, build_view(tree, method.name)).totals
        assert not any(totals[name] for name in (*CLASSES[1:], "shifted", "tainted"))
