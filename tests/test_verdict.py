from __future__ import annotations

import json

import numpy as np
import pytest

import mwviz
from mwviz import leaks, verdict
from mwviz.analysis import Analysis
from mwviz.demos import DEMOS, Demo, open_demo
from mwviz.judging import CLASSES
from mwviz.metrics import structure
from mwviz.views import METHODS, Method
from tests.reference import Calls

DROPS: Calls = [
    (None, [0], [1, 2, 3, 4, 5, 6, 7]),
    (None, [0, 1, 2, 3, 4, 6, 7], [8, 9, 10]),
    (None, [0, 1, 2, 3, 4, 6, 7, 9, 10], [11, 12]),
    (None, [0, 1, 2, 3, 4, 6, 7, 9, 10, 12], [13]),
]
"""T1 of the theory: 5, then 8, then 11 are dropped."""
SUMMARY_TAIL: Calls = [
    (None, [1, 2], [10]),
    (None, [1, 2, 10, 11], [12]),
    (None, [1, 2, 10, 11, 12, 13, 14], [15]),
    (None, [1, 2, 15, 12, 13], [16]),
]
"""T3 of the theory: summary 15 stands in front of the kept tail 12, 13."""


def analysis_of(calls: Calls) -> Analysis:
    lines = [json.dumps({"prompt_ids": p, "completion_ids": c}) for _, p, c in calls]
    return mwviz.load("\n".join(lines).encode()).analyses[0]


def told(analysis: Analysis, view: str, token: int) -> set[tuple[str, int, int]]:
    """Class, first id and call of everything that one sampled id leaks or misses."""
    tree = analysis.tree
    [target] = np.flatnonzero(tree.ids[tree.token] == token)
    spans = leaks.sources(analysis, view, int(target))
    return {(span.name, int(tree.ids[span.first_node]), span.call) for span in spans}


def test_a_dropped_token_is_missed_by_those_that_saw_it() -> None:
    analysis = analysis_of(DROPS)
    assert told(analysis, "rightmost", 6) == {("erased", 5, 0)}
    assert told(analysis, "rightmost", 12) == {("erased", 11, 2)}
    assert told(analysis, "replay", 11) == {
        ("stale", 5, 0),
        ("stale", 8, 1),
    }
    assert told(analysis, "packed_mask", 12) == set()
    assert verdict.judge(analysis, "rightmost").sentence == (
        "rightmost trains 5 of 13 sampled tokens in a wrong context: seen text gone; 77 % "
        "coverage. Drift: not run yet."
    )
    assert verdict.judge(analysis, "replay").sentence.startswith(
        "replay trains 6 of 13 sampled tokens in a wrong context: evicted text still in; 100 % "
        "coverage."
    )


def test_where_nothing_was_sampled_there_is_nothing_to_cover() -> None:
    analysis = analysis_of([(None, [1, 2, 3], []), (None, [1, 2, 5], [])])
    for method in METHODS:
        view = analysis.view(method.name)
        found = verdict.judge(analysis, method.name)
        assert (view.targets, view.coverage, found.coverage) == (0, None, None)
        assert structure(analysis.tree, view).coverage is None
        assert found.sentence.startswith("Nothing was sampled in this rollout")
    assert verdict.overview(analysis, {})["coverage"].isna().all()


def test_a_kept_tail_sees_the_summary_and_misses_what_it_stands_for() -> None:
    analysis = analysis_of(SUMMARY_TAIL)
    assert told(analysis, "rightmost", 12) == {
        ("erased", 10, 0),
        ("erased", 11, 1),
        ("future", 15, 2),
    }
    longest = leaks.sources(analysis, "rightmost", 2)[0]
    assert (longest.tokens, longest.sampled, longest.leaks) == (2, False, False)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
@pytest.mark.parametrize("demo", DEMOS, ids=lambda demo: demo.name)
def test_spans_of_every_target_add_up_to_its_pair_counts(demo: Demo, method: Method) -> None:
    analysis = mwviz.load(demo.path).analyses[0]
    name = method.name
    if verdict.refusal(analysis, name):
        return
    pairs = analysis.pairs(name)
    for target in range(0, len(analysis.tree.token), 37):
        spans = leaks.sources(analysis, name, target)
        for kind in set(CLASSES) - {"agree"}:
            assert sum(s.tokens for s in spans if s.name == kind) == pairs.of(kind)[target]
        assert [s.tokens for s in spans] == sorted((s.tokens for s in spans), reverse=True)
        for span in spans:
            nodes = analysis.tree.ids[span.first_node : span.first_node + 1]
            assert span.text.startswith(analysis.decoder.text(nodes)[:1])


def test_verdicts_on_the_busy_demo_name_the_leak_and_the_floor() -> None:
    analysis = open_demo(DEMOS[0]).analyses[0]
    scores = analysis.scores
    naive = verdict.judge(
        analysis, "rightmost", analysis.compared(scores["rightmost"], scores["logit_tree"])
    )
    assert naive.drift_diverging is not None
    assert naive.drift_diverging.values["mean_abs"] > 1
    assert naive.worst is not None
    assert naive.worst.sources
    assert "in a wrong context: future text in, seen text gone; 100 % coverage." in naive.sentence
    assert f"Worst: call {naive.worst.call}, token {naive.worst.offset}," in naive.sentence
    exact = verdict.judge(
        analysis, "packed_mask", analysis.compared(scores["packed_mask"], scores["logit_tree"])
    )
    assert exact.worst is None
    assert "every sampled token in its true context; 100 % coverage" in exact.sentence
    assert "Drift is at the floor" in exact.sentence


def test_every_view_of_the_control_is_at_the_floor() -> None:
    analysis = open_demo(DEMOS[2]).analyses[0]
    reference = analysis.scores["logit_tree"]
    comparisons = {
        name: analysis.compared(found, reference) for name, found in analysis.scores.items()
    }
    for name, comparison in comparisons.items():
        found = verdict.judge(analysis, name, comparison)
        assert (found.diverging, found.worst) == (0, None), name
        assert "Drift is at the floor" in found.sentence
    table = verdict.overview(analysis, comparisons)
    assert list(table["view"]) == [method.name for method in METHODS]
    most, floor = table["max |d|"].to_numpy(), table["floor"].to_numpy()
    assert np.nanmax(most / floor) <= verdict.NOISE
    table = table[table["coverage"].notna()]
    assert not table[["future", "erased", "stale", "foreign", "lost"]].to_numpy().any()


def test_without_scores_the_overview_has_counts_but_no_drift() -> None:
    table = verdict.overview(analysis_of(DROPS), {})
    assert dict(zip(table["view"], table["erased"], strict=True))["rightmost"] == 5
    assert dict(zip(table["view"], table["stale"], strict=True))["replay"] == 10
    assert np.isnan(table["mean |d|"].to_numpy()).all()


def test_a_view_that_cannot_lay_a_rollout_out_is_listed_with_its_reason() -> None:
    analysis = analysis_of(SUMMARY_TAIL)
    assert "union_mask" in verdict.refusal(analysis, "union_mask")
    table = verdict.overview(analysis, {})
    notes = dict(zip(table["view"], table["note"], strict=True))
    assert notes["union_mask"].startswith("union_mask cannot express this rollout")
    assert notes["packed_mask"] == "exact"


def test_tokens_that_train_more_than_once_are_counted_apart() -> None:
    found = verdict.judge(analysis_of(DROPS), "branch_all")
    assert found.repeated > 0
    assert f"{found.repeated} of them train more than once." in found.headline


@pytest.mark.parametrize("method", ["rightmost", "packed_mask"])
def test_a_rollout_without_a_sampled_token_is_no_fault_of_the_view(method: str) -> None:
    found = verdict.judge(analysis_of([(None, [1, 2, 3], [])]), method)
    assert found.headline == f"Nothing was sampled in this rollout: {method} has nothing to train."


def test_a_verdict_on_contexts_that_are_not_sure_says_so() -> None:
    calls = [
        {"prompt_ids": [1], "completion_ids": [2], "usage": {"prompt_tokens": 90_000}},
        {"prompt_ids": [1, 2], "completion_ids": [3], "usage": {"prompt_tokens": 9_000}},
    ]
    analysis = mwviz.load("\n".join(map(json.dumps, calls)).encode()).analyses[0]
    found = verdict.judge(analysis, "packed_mask")
    assert found.headline == (
        "packed_mask trains every sampled token in its known context; 100 % coverage."
    )
    assert "Some contexts are unknown" in found.detail


def test_what_leaks_into_a_token_reaches_it_from_the_other_side() -> None:
    (analysis,) = open_demo(DEMOS[0]).analyses
    pairs = analysis.pairs("rightmost")
    spans: dict[int, dict[str, int]] = {}
    whole = np.arange(analysis.tree.size)
    for reach in leaks.reaches(analysis, "rightmost", whole):
        spans.setdefault(reach.target, {})[reach.name] = reach.tokens
    assert set(spans) == set(np.flatnonzero(pairs.of("future") + pairs.of("erased")).tolist())
    for target, counts in spans.items():
        for name, count in counts.items():
            assert count == int(pairs.of(name)[target])
    target = max(spans)
    span = leaks.sources(analysis, "rightmost", target)[0]
    part = np.arange(span.first_node, span.first_node + 1)
    assert (target, span.name, 1) in leaks.reaches(analysis, "rightmost", part)
