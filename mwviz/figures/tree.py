"""The eviction tree as lanes: one lane a branch, every segment drawn once, from left to right."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from mwviz.figures.histogram import CLEAR
from mwviz.figures.mask import dressed
from mwviz.figures.palette import LIGHT, Theme
from mwviz.tree import EvictionTree
from mwviz.trie import Longs

MOST_SEGMENTS = 1_500
"""Segments drawn; a larger tree shows its longest ones and says so in the title."""
LANE_HEIGHT, EDGES = 26, 90
"""Pixels of one lane, and of the axis and title around all of them."""
TALLEST = 900


def tree_figure(tree: EvictionTree, *, theme: Theme = LIGHT) -> go.Figure:
    """Lanes in depth-first order; a rule leads from a branch point to the lane that leaves it.

    Args:
        tree: to draw.
        theme: colours.
    """
    lane = _lanes(tree)
    length = tree.length
    shown = np.arange(len(length))
    if len(shown) > MOST_SEGMENTS:
        shown = np.sort(np.argsort(length, kind="stable")[-MOST_SEGMENTS:])
    sampled = np.isin(np.arange(tree.size), tree.token)
    copies = tree.origin != np.arange(tree.size)
    figure = go.Figure()
    for name, kind, colour in (
        ("first sent or sampled", ~copies, theme.classes["agree"]),
        ("shown again", copies, theme.classes["shifted"]),
    ):
        whole = np.add.reduceat(kind, tree.start) * 2 >= length if len(length) else kind
        part = shown[whole[shown]]
        figure.add_bar(
            y=lane[part],
            x=length[part],
            base=tree.depth[part],
            orientation="h",
            name=name,
            marker={"color": colour, "line": {"color": theme.rule, "width": 0.5}},
            customdata=np.stack(
                [part, tree.first_call[part], np.add.reduceat(sampled, tree.start)[part]], axis=1
            ),
            hovertemplate=(
                "segment %{customdata[0]}, first in call %{customdata[1]}<br>"
                "%{x:,} tokens from depth %{base:,}, %{customdata[2]:,} sampled<extra></extra>"
            ),
        )
    _add_branch_rules(figure, tree, lane, theme)
    lanes = int(lane.max(initial=0)) + 1
    left_out = len(length) - len(shown)
    title = f"{left_out:,} short segments are left out" if left_out else None
    figure.update_layout(
        barmode="overlay",
        bargap=0.35,
        height=min(EDGES + LANE_HEIGHT * lanes, TALLEST),
        title=title,
    )
    figure.update_yaxes(autorange="reversed", title="branch", dtick=max(lanes // 10, 1))
    figure.update_xaxes(title="depth (tokens)", gridcolor=theme.rule, griddash="dot")
    dressed(figure, theme).update_layout(
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        margin={"l": 55, "r": 10, "t": 40, "b": 45},
    )
    return figure


def _lanes(tree: EvictionTree) -> Longs:
    """int64 (S,): the first branch, in depth-first order, that passes each segment."""
    ends = (tree.start + tree.length)[tree.leaves]
    return np.searchsorted(ends, tree.start, side="right")


def _add_branch_rules(figure: go.Figure, tree: EvictionTree, lane: Longs, theme: Theme) -> None:
    child = np.flatnonzero((tree.parent >= 0) & (lane != lane[tree.parent]))[:MOST_SEGMENTS]
    gap = np.full(len(child), np.nan)
    x = np.stack([tree.depth[child], tree.depth[child], gap], axis=1).ravel()
    y = np.stack([lane[tree.parent[child]], lane[child], gap], axis=1).ravel()
    figure.add_scatter(
        x=x,
        y=y,
        mode="lines",
        line={"color": theme.rule, "width": 1},
        hoverinfo="skip",
        showlegend=False,
    )
