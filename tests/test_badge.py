"""What the badge claims, against the definitions and against what a model says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings

import mwviz
from mwviz.analysis import Analysis
from mwviz.badge import Badge, badge
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz.errors import ViewError
from mwviz.rollout import Rollout
from mwviz.summary import warnings
from mwviz.views import METHODS, build_view
from tests.engine import tiny
from tests.reference import Calls
from tests.strategies import encoded, unit_calls
from tests.test_semantics import T1, kept


def analysed(calls: Calls, word: str = "re_prefill") -> Analysis:
    return mwviz.analyse(kept(calls, word))


def test_under_re_prefill_a_kept_cache_is_perfect_to_first_order_and_tainted() -> None:
    found = badge(analysed(T1), "union_mask")
    assert (found.label, found.level) == ("first order perfect, tainted", "first_order")
    assert found.exact_for == ("kv_orig",)
    assert "in states computed from other contexts: 6." in found.why
    assert found.why.endswith("kept tokens carry what they saw before the eviction.")


def test_under_a_kept_cache_only_union_mask_is_exact() -> None:
    analysis = analysed(T1, "kv_orig")
    assert badge(analysis, "union_mask") == Badge("exact", ("kv_orig",), "", "exact")
    found = badge(analysis, "logit_tree")
    assert (found.exact_for, found.level) == (("re_prefill",), "first_order")
    assert "recomputes" in found.why


def test_naive_views_say_what_they_lack() -> None:
    found = badge(analysed(T1), "rightmost")
    assert (found.label, found.exact_for, found.level) == ("not exact", (), "naive")
    assert found.why.startswith("Sampled tokens that it does not train: 3 of 13.")
    assert "see or miss other text than when they were sampled: 5." in found.why
    assert "more than once: 9." in badge(analysed(T1), "branch_all").why


def test_without_junction_whatever_trains_all_is_exact_for_both() -> None:
    analysis = analysed([("m", [0], [1, 2]), ("m", [0, 1, 2, 3], [4, 5])])
    both = ("re_prefill", "kv_orig")
    for method in METHODS:
        found = badge(analysis, method.name)
        assert found.exact_for == (() if method.name == "last_call" else both), method.name


def test_moved_entries_are_structure_only() -> None:
    found = badge(analysed(T1, "kv_reindex"), "packed_mask")
    assert (found.label, found.exact_for) == ("structure only", ("re_prefill",))
    assert found.level != "exact"
    assert "no position ids" in found.why


def test_caches_of_several_agents_are_exact_each_by_itself() -> None:
    calls: Calls = [("a", [0, 1], [2]), ("b", [0, 5], [6]), ("a", [0, 2, 6], [3])]
    analysis = analysed(calls, "kv_orig")
    assert badge(analysis, "union_mask") == Badge("exact", ("kv_orig",), "", "exact")
    assert badge(analysis, "packed_mask").exact_for == ("re_prefill",)
    assert not any("as if contexts were encoded anew" in said for said in warnings(analysis))
    assert badge(analysed(calls), "union_mask").exact_for == ("kv_orig",)


def test_what_no_cache_can_hold_is_structure_only_and_said() -> None:
    analysis = analysed([("a", [0, 1], [2]), ("a", [0, 3, 2], [4])], "kv_orig")
    found = badge(analysis, "packed_mask")
    assert (found.label, found.exact_for) == ("structure only", ("re_prefill",))
    assert found.level != "exact"
    assert found.why.endswith("so nothing is scored.")
    assert any("as if contexts were encoded anew" in said for said in warnings(analysis))
    with pytest.raises(ViewError, match="younger text in front of older"):
        badge(analysis, "union_mask")


@settings(max_examples=150, deadline=None)
@given(calls=unit_calls())
def test_what_a_method_promises_holds_wherever_it_is_defined(calls: Calls) -> None:
    analysis = mwviz.analyse(replace(encoded(calls)[0], semantics="re_prefill"))
    for method in METHODS:
        if method.exact_for is None:
            continue
        try:
            found = badge(analysis, method.name)
        except ViewError:
            assert method.name == "union_mask"
            continue
        assert method.exact_for in found.exact_for


@settings(max_examples=25, deadline=None)
@given(calls=unit_calls())
def test_what_is_called_exact_scores_like_the_truth(calls: Calls) -> None:
    rollout: Rollout = replace(encoded(calls)[0], semantics="re_prefill")
    analysis = mwviz.analyse(rollout)
    tree, model = analysis.tree, MODEL
    assume(len(tree.token) and tree.ids.max() < model.vocabulary)
    truth = finish(score(tree, build_view(tree, "call_by_call"), model)).logprob
    for method in METHODS:
        try:
            found = badge(analysis, method.name)
        except ViewError:
            continue
        if found.level == "exact":
            said = finish(score(tree, analysis.view(method.name), model)).logprob
            assert np.nanmax(np.abs(said - truth), initial=0) < 1e-4, method.name
            assert (np.isnan(said) == np.isnan(truth)).all()


MODEL = tiny.llama()


@pytest.mark.parametrize("weights", [[0, 1, 1], [0, 1, 2]])
def test_a_batch_is_exact_only_if_it_trains_all_alike(weights: list[int], tmp_path: Path) -> None:
    analysis = analysed([("m", [0], [1, 2])])
    path = tmp_path / "batch.jsonl"
    path.write_text(json.dumps({"input_ids": [0, 1, 2], "loss_mask": weights}))
    analysis.add_batch(path)
    found = badge(analysis, path.name)
    assert (found.level == "exact") == (weights[2] == 1)
    assert ("different weights" in found.why) == (weights[2] == 2)


def test_a_batch_with_text_that_no_call_saw_is_not_exact(tmp_path: Path) -> None:
    analysis = analysed([("m", [0], [1, 2])])
    path = tmp_path / "batch.jsonl"
    path.write_text(json.dumps({"input_ids": [9, 0, 1, 2], "loss_mask": [0, 0, 1, 1]}))
    analysis.add_batch(path)
    found = badge(analysis, path.name)
    assert found.level == "naive"
    assert "in no context of the rollout: 1." in found.why
