from __future__ import annotations

import numpy as np
import pytest

from bench.workloads.stress import stress_log
from mwviz.demos import DEMOS, open_demo
from mwviz.figures import DARK, LIGHT, Theme, drift_figure, mask_figure, tree_figure
from mwviz.figures.tree import MOST_SEGMENTS
from mwviz.judging import CLASSES
from mwviz.tree import build_tree
from mwviz.windows import NAMES, class_window
from tests.strategies import encoded


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_the_tree_has_one_bar_a_segment_and_one_lane_a_branch(theme: Theme) -> None:
    (analysis,) = open_demo(DEMOS[0]).analyses
    figure = tree_figure(analysis.tree, theme=theme)
    bars = [trace for trace in figure.data if trace.type == "bar"]
    assert sum(int(np.sum(bar.x)) for bar in bars) == analysis.tree.size
    lanes = {int(lane) for bar in bars for lane in bar.y}
    assert lanes == set(range(len(analysis.tree.leaves)))


def test_a_huge_tree_draws_its_longest_segments_and_says_so() -> None:
    lines = list(stress_log("branchy"))[:2_000]
    rollout, encoding = encoded([(None, x["prompt_ids"], x["completion_ids"]) for x in lines])
    tree = build_tree(encoding, rollout)
    figure = tree_figure(tree)
    bars = [trace for trace in figure.data if trace.type == "bar"]
    assert sum(len(bar.x) for bar in bars) == MOST_SEGMENTS < len(tree.start)
    assert f"{len(tree.start) - MOST_SEGMENTS:,} short segments" in figure.layout.title.text


def test_the_mask_colours_every_cell_by_its_class() -> None:
    (analysis,) = open_demo(DEMOS[0]).analyses
    view = analysis.view("rightmost")
    targets = range(400, 420)
    keys = range(1_000)
    window = class_window(analysis.tree, view, targets, keys)
    texts = ["x"] * (len(keys) + len(targets))
    figure = mask_figure(analysis.tree, window, texts)
    heat = figure.data[0]
    assert np.array_equal(np.asarray(heat.z), window.cells)
    counts = {name: int((window.cells == NAMES.index(name)).sum()) for name in CLASSES}
    assert counts["erased"] > 0


def test_the_drift_figure_draws_covered_tokens_and_their_floor() -> None:
    (analysis,) = open_demo(DEMOS[0]).analyses
    comparison = analysis.compared(analysis.scores["rightmost"], analysis.scores["logit_tree"])
    texts = ["x"] * len(comparison.table)
    figure = drift_figure(comparison, texts, junctions=analysis.junction_list)
    assert len(figure.data[0].x) == int(comparison.table["covered"].sum())
    assert figure.layout.shapes[0].y1 == pytest.approx(comparison.threshold)
