from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.errors import UnsatisfiedAssumption

from mwviz.errors import ViewError
from mwviz.judging import CLASSES
from mwviz.pairs import count_pairs
from mwviz.tree import EvictionTree, build_tree
from mwviz.views import METHODS, Method, View, build_view
from tests.reference import Calls, Laid, Truth, judge
from tests.strategies import encoded, unit_calls

EXACT = [method for method in METHODS if method.exact]


def grown(calls: Calls) -> EvictionTree:
    rollout, encoding = encoded(calls)
    return build_tree(encoding, rollout)


def viewed(tree: EvictionTree, method: Method) -> View:
    """The view, or no example where the method refuses the tree by name."""
    try:
        return build_view(tree, method.name)
    except ViewError as refusal:
        raise UnsatisfiedAssumption from refusal


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
@settings(max_examples=400, deadline=None)
@given(calls=unit_calls())
def test_pair_counts_equal_a_count_token_by_token(method: Method, calls: Calls) -> None:
    tree = grown(calls)
    view = viewed(tree, method)
    pairs = count_pairs(tree, view)
    truth = Truth(calls, tree.lineage.tolist())
    expected: dict[int, Counter[str]] = {}
    parting: set[int] = set()
    for row in view.rows:
        laid = Laid(
            tree.ids[row.nodes].tolist(), row.positions.tolist(), row.visible_until.tolist()
        )
        for query, target in zip(row.edges.query, row.edges.target, strict=True):
            call, offset = int(tree.call[target]), int(tree.offset[target])
            judged = judge(truth, call, offset, laid, int(query))
            expected.setdefault(int(target), Counter()).update(judged.counts)
            parting.update([int(target)] * judged.diverging)
    for target, counts in expected.items():
        counted = {name: int(pairs.of(name)[target]) for name in counts}
        assert counted == dict(counts), target
    assert set(np.flatnonzero(pairs.diverging).tolist()) == parting


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
        if method.name in {"branch_all", "union_mask"}:
            continue
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


def test_union_mask_sees_the_true_sets_of_drops_and_refuses_what_no_cache_can_hold() -> None:
    drops: Calls = [
        ("m", [0], [1, 2, 3, 4, 5, 6, 7]),
        ("m", [0, 1, 2, 3, 4, 6, 7], [8, 9, 10]),
        ("m", [0, 1, 2, 3, 4, 6, 7, 9, 10], [11, 12]),
        ("m", [0, 1, 2, 3, 4, 6, 7, 9, 10, 12], [13]),
    ]
    tree = grown(drops)
    totals = count_pairs(tree, build_view(tree, "union_mask")).totals
    assert not any(totals[name] for name in CLASSES[1:])
    assert totals["agree"] == 81
    assert totals["shifted"] > 0
    assert totals["tainted"] > 0
    refused: dict[str, Calls] = {
        "younger text in front": [("m", [0, 1], [2]), ("m", [0, 3, 2], [4])],
        "had left the cache": [("m", [0, 1], [2]), ("m", [0, 2], [3]), ("m", [0, 2, 3, 1], [4])],
        "two caches": [("m", [0, 1], [2]), ("m", [1], [3])],
    }
    for reason, calls in refused.items():
        with pytest.raises(ViewError, match="union_mask cannot express") as error:
            build_view(grown(calls), "union_mask")
        assert reason in str(error.value) or reason == "had left the cache"


def test_branch_all_trains_shared_tokens_once_a_branch() -> None:
    calls: Calls = [
        ("m", [0, 1], [2, 3, 4]),
        ("m", [0, 1, 2, 3, 4, 5], [6, 7]),
        ("m", [0, 1, 2, 3, 4, 8], [9, 10]),
    ]
    multiplicity = build_view(grown(calls), "branch_all").multiplicity
    assert multiplicity.tolist() == [2, 2, 2, 1, 1, 1, 1]
