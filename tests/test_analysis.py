from __future__ import annotations

from pathlib import Path

import networkx
import numpy as np
import pandas as pd
import pytest

import mwviz
from mwviz.compare import COLUMNS
from mwviz.demos import DEMOS, Demo, open_demo
from mwviz.metrics import METRICS, measure
from mwviz.views import METHODS

CASES = Path(__file__).parent / "data" / "cases"
EXACT = [method.name for method in METHODS if method.exact]


@pytest.fixture(scope="module")
def running_example() -> mwviz.Analysis:
    return mwviz.load(CASES / "vector-1-running-example" / "calls.jsonl").analyses[0]


def test_the_api_gives_what_people_guess(running_example: mwviz.Analysis) -> None:
    assert running_example.tree.size == 19
    assert list(running_example.junctions["evicted"]) == [1, 1, 1]
    assert isinstance(running_example.junctions, pd.DataFrame)
    assert running_example.view("rightmost").coverage == pytest.approx(10 / 13)
    assert running_example.pairs("replay").totals["stale"] == 10
    again = mwviz.analyse(running_example.rollout)
    assert again.digest == running_example.digest


def test_the_tree_is_a_networkx_graph_of_segments(running_example: mwviz.Analysis) -> None:
    graph = running_example.tree.to_networkx()
    assert networkx.is_forest(graph.to_undirected())
    assert sum(length for _, length in graph.nodes(data="length")) == 19
    assert sum(1 for _, degree in graph.out_degree() if degree == 0) == 4


def test_html_shows_trace_text_only_as_text() -> None:
    call = b'{"rollout": "<img src=x onerror=alert(1)>", "prompt_ids": [1], "completion_ids": [2]}'
    trace = mwviz.load(call)
    for shown in (trace._repr_html_(), trace.analyses[0]._repr_html_()):
        assert "<img" not in shown
        assert "&lt;img" in shown


def test_an_unknown_method_lists_those_that_exist(running_example: mwviz.Analysis) -> None:
    with pytest.raises(mwviz.ViewError, match="expected one of rightmost"):
        running_example.view("leftmost")


@pytest.mark.parametrize("demo", DEMOS, ids=lambda demo: demo.name)
def test_demos_open_scored_and_exact_methods_stand_at_the_floor(demo: Demo) -> None:
    (analysis,) = open_demo(demo).analyses
    reference = analysis.scores["logit_tree"]
    for name in EXACT:
        comparison = analysis.compared(analysis.scores[name], reference)
        assert comparison.coverage == 1.0
        assert comparison.drift().values["max_abs"] < 1e-4
        assert comparison.gap().values["max_abs"] < 1e-4
        assert set(COLUMNS) == set(comparison.table.columns)


def test_rightmost_drifts_on_the_tokens_whose_context_changed() -> None:
    for demo in DEMOS[:2]:
        (analysis,) = open_demo(demo).analyses
        comparison = analysis.compared(analysis.scores["rightmost"], analysis.scores["logit_tree"])
        assert comparison.drift("diverging").values["mean_abs"] > 0.3
        control = comparison.drift("control")
        assert control.targets == 0 or control.values["max_abs"] < 1e-4
        table = comparison.table
        assert not table.loc[table["notable"], "diverging"].eq(False).any()


def test_the_control_demo_looks_the_same_in_every_view() -> None:
    (analysis,) = open_demo(DEMOS[2]).analyses
    reference = analysis.scores["logit_tree"]
    assert set(analysis.scores) == {method.name for method in METHODS}
    for scores in analysis.scores.values():
        comparison = analysis.compared(scores, reference)
        assert comparison.drift().values["max_abs"] < 1e-4
        assert not comparison.table["diverging"].any()


def test_distance_from_the_last_junction_counts_from_its_branch_point() -> None:
    (analysis,) = open_demo(DEMOS[1]).analyses
    table = analysis.compared(analysis.scores["rightmost"], analysis.scores["logit_tree"]).table
    (junction,) = analysis.junction_list
    assert junction.depth is not None
    before = table["call"] < junction.call
    assert table.loc[before, "since_junction"].isna().all()
    after = table[~before]
    assert (after["since_junction"] == after["position"] - junction.depth).all()


def test_metrics_match_their_definitions_on_two_tokens() -> None:
    d = np.array([np.log(2.0), np.log(0.25), np.nan])
    measured = measure(d, "all")
    r = np.array([2.0, 0.25])
    expected = {
        "mean_abs": 1.5 * np.log(2),
        "mean": -0.5 * np.log(2),
        "max_abs": 2 * np.log(2),
        "p99_abs": np.quantile([np.log(2), 2 * np.log(2)], 0.99),
        "k1": 0.5 * np.log(2),
        "k3": (r - 1 - np.log(r)).mean(),
        "perplexity_ratio": np.sqrt(2),
        "ess": r.mean() ** 2 / (r**2).mean(),
        "clip_high": 0.0,
        "clip_low": 0.5,
        "ppo_clip": 1.0,
    }
    assert measured.targets == 2
    assert set(expected) == {metric.name for metric in METRICS}
    for name, value in expected.items():
        assert measured.values[name] == pytest.approx(value), name


def test_metrics_of_no_tokens_are_not_zero_but_absent() -> None:
    assert measure(np.array([np.nan]), "diverging").values == {}
