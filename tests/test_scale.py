from __future__ import annotations

import tracemalloc

import pytest

from bench.workloads.stress import stress_log
from mwviz.errors import ViewError
from mwviz.pairs import count_pairs
from mwviz.tree import build_tree
from mwviz.views import METHODS, build_view
from tests.reference import Calls
from tests.strategies import encoded

MEGABYTE = 1_000_000
ALLOWED = 300 * MEGABYTE
"""Bytes above the log for the tree, all views and all pair counts of 150k tree tokens."""


def logged(size: str) -> Calls:
    return [(None, line["prompt_ids"], line["completion_ids"]) for line in stress_log(size)]


def test_150k_tokens_need_little_memory_and_give_the_same_counts_as_ever() -> None:
    rollout, encoding = encoded(logged("150k"))
    tracemalloc.start()
    tree = build_tree(encoding, rollout)
    totals = {}
    for method in METHODS:
        if method.name == "union_mask":
            with pytest.raises(ViewError, match="younger text"):
                build_view(tree, method.name)
        else:
            totals[method.name] = count_pairs(tree, build_view(tree, method.name)).totals
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < ALLOWED
    assert tree.budget == {
        "union": 102_617,
        "tree": 152_448,
        "branches": 297_976,
        "calls": 553_332,
        "sampled": 19_889,
    }
    assert len(tree.junction_calls) == 98
    assert totals["rightmost"]["future"] == 11_400
    assert totals["rightmost"]["erased"] == 142_350
    assert totals["replay"]["stale"] == 973_820_120
    agreeing = {totals[method.name]["agree"] for method in METHODS if method.exact}
    assert agreeing == {54_321_256}


@pytest.mark.parametrize("size", ["15k", "150k"])
def test_structure_has_the_same_segments_whatever_the_number_of_tokens(size: str) -> None:
    rollout, encoding = encoded(logged(size))
    assert len(build_tree(encoding, rollout).start) == 249
