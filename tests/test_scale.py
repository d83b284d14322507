from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest

from mwviz.errors import ViewError
from mwviz.pairs import count_pairs
from mwviz.stress import stress_log
from mwviz.summary import summarise
from mwviz.trace import load
from mwviz.tree import build_tree
from mwviz.trie import build_trie
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


def chat(messages: int) -> bytes:
    roles = ("user", "assistant")
    said = [{"role": roles[at % 2], "content": f"bed {at} is dry " * 20} for at in range(messages)]
    return json.dumps({"messages": said}).encode()


def test_a_chat_is_told_by_what_each_call_adds_and_its_trie_is_that_of_whole_contexts() -> None:
    analysis = load(chat(200)).analyses[0]
    encoding, tree = analysis.encoding, analysis.tree
    told = size = 0
    before = None
    for call in encoding.calls:
        size = call.shared_with(before) if before else 0
        told += len(call.behind(size))
        before = call
    assert size > 0
    assert told < 2 * tree.size
    trie = build_trie(call.context for call in encoding.calls)
    for name in ("ids", "start", "parent", "depth", "exit", "first_call", "tip"):
        assert np.array_equal(getattr(trie, name), getattr(tree, name)), name


def test_a_long_chat_is_inspected_in_memory_of_its_tokens_not_of_its_calls() -> None:
    peaks = []
    for messages in (200, 400):
        trace = load(chat(messages))
        tracemalloc.start()
        views = summarise(trace)["rollouts"][0]["views"]
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert views["union_mask"]["badge"]["label"] == "exact"
    assert peaks[1] < 2.8 * peaks[0]
