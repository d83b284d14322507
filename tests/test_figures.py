from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from mwviz.bound import Bound, target_bound
from mwviz.demos import DEMOS, open_demo
from mwviz.distances import Distances, Point
from mwviz.figures import (
    DARK,
    LIGHT,
    Theme,
    bars_figure,
    bounds_figure,
    drift_figure,
    mask_figure,
    nodelink_figure,
    places_figure,
    tree_figure,
)
from mwviz.figures.bars import told_range
from mwviz.figures.nodelink import tree_graph
from mwviz.figures.palette import method_colour
from mwviz.figures.tree import MOST_SEGMENTS
from mwviz.judging import CLASSES
from mwviz.stress import stress_log
from mwviz.tree import build_tree
from mwviz.views import METHODS
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
    first = int(np.flatnonzero(analysis.pairs("rightmost").of("erased"))[0])
    targets = range(first, first + 5)
    keys = range(len(analysis.tree.birth))
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


def test_nodes_and_links_show_every_segment_and_no_links_cross() -> None:
    lines = list(stress_log("15k"))[:30]
    rollout, encoding = encoded([(None, x["prompt_ids"], x["completion_ids"]) for x in lines])
    tree = build_tree(encoding, rollout)
    figure = nodelink_figure(tree)
    place = {}
    for trace in figure.data[1:]:
        for x, y, told in zip(trace.x, trace.y, trace.customdata, strict=True):
            place[int(told[0])] = (round(float(x), 6), float(y))
    assert set(place) == set(range(len(tree.start)))
    links = [(place[a], place[b]) for a, b in tree_graph(tree).edges]
    assert len(figure.data[0].x) == 3 * len(links)
    for a, b in links:
        for c, d in links:
            if a[0] == c[0] and a[1] < c[1]:
                assert b[1] < d[1] or b == d


@pytest.mark.parametrize("by", ["offset", "since_junction"])
def test_drift_by_place_averages_each_token_once(by: Literal["offset", "since_junction"]) -> None:
    (analysis,) = open_demo(DEMOS[0]).analyses
    comparison = analysis.compared(analysis.scores["rightmost"], analysis.scores["logit_tree"])
    table = comparison.table[comparison.table["covered"]]
    known = table[by].notna() & table["drift"].notna()
    line = places_figure(comparison, by).data[1]
    counts = np.asarray(line.customdata)
    assert int(counts.sum()) == int(known.sum())
    mean = float((np.asarray(line.y) * counts).sum() / counts.sum())
    assert mean == pytest.approx(float(table["drift"][known].abs().mean()), rel=1e-5)
    floor = places_figure(comparison, by).layout.shapes[0]
    assert floor.y1 == pytest.approx(comparison.threshold)


def test_bounds_and_measured_distances_stand_on_the_same_axes() -> None:
    points = tuple(Point(n, kl, float(target_bound(kl)) / 2) for n, kl in enumerate((2.0, 1e-3)))
    none = Bound(1.0, 0.5, "made up")
    found = Distances(2, 1.0, 1.0, 0.5, 1, none, none, 0, points)
    measured, bound = bounds_figure(found, "rightmost").data
    assert list(measured.x) == [2.0, 1e-3]
    at = np.interp(measured.x, bound.x, bound.y)
    assert (np.asarray(measured.y) < at).all()


def test_a_picked_bar_keeps_its_colour_and_others_fade() -> None:
    values = np.array([0.0, 1.0, 1.0, 5.0, np.nan])
    edges = np.array([-0.5, 0.5, 1.5, 5.5])
    figure = bars_figure(values, edges, "evictions", picked=(0.5, 1.5))
    assert list(figure.data[0].y) == [1, 2, 1]
    assert list(figure.data[0].text) == ["1", "2", "1"]
    opacity = list(figure.data[0].marker.opacity)
    assert opacity[1] == 1.0 > opacity[0] == opacity[2]


def test_a_bar_tells_the_values_it_holds() -> None:
    values, edges = np.array([0.0, 1.0, 1.0, 5.0]), np.array([-0.5, 0.5, 1.5, 1_500.5])
    assert list(bars_figure(values, edges, "evictions", whole=True).data[0].customdata) == [
        "1 rollout: 0",
        "2 rollouts: 1",
        "1 rollout: 2 to 1,500",
    ]
    shares = bars_figure(values / 10, np.array([0.0, 0.05, 0.5]), "coverage").data[0]
    assert list(shares.customdata) == ["1 rollout: 0 to 0.05", "3 rollouts: 0.05 to 0.5"]
    few = bars_figure(values, np.array([-0.5, 0.5, 1.5]), "evictions", whole=True)
    assert few.layout.xaxis.dtick == 1


def test_a_range_without_a_whole_number_is_told_by_its_edges() -> None:
    assert told_range(0.2, 0.8, whole=True) == told_range(0.2, 0.8, whole=False) == "0.2 to 0.8"
    assert told_range(0.2, 1.8, whole=True) == "1"


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_every_method_is_seen_on_its_page(theme: Theme) -> None:
    for method in METHODS:
        colour = method_colour(method.name, theme)
        assert contrast(colour, theme.background) > 1.5, (method.name, colour)


def contrast(colour: str, other: str) -> float:
    """Ratio of relative luminances as WCAG defines it, 1 to 21."""
    lights = []
    for one in (colour, other):
        parts = [int(one[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(lights) + 0.05) / (min(lights) + 0.05)
