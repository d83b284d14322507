"""The eviction tree as nodes and links: every segment a circle, laid out by networkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
import plotly.graph_objects as go

from mwviz.figures.histogram import CLEAR
from mwviz.figures.mask import dressed
from mwviz.figures.palette import LIGHT, Theme
from mwviz.tree import EvictionTree

MOST_SEGMENTS = 300
"""Segments that can be told apart as circles; larger trees are drawn in lanes only."""
SMALL, LARGE = 8, 34
"""Diameters in pixels; the area grows with the tokens."""


def nodelink_figure(tree: EvictionTree, *, theme: Theme = LIGHT) -> go.Figure:
    """Circles from left (the roots) to right, one column a level, joined to what they continue.

    Args:
        tree: of at most `MOST_SEGMENTS` segments.
        theme: colours.
    """
    graph = tree_graph(tree)
    levels: dict[int, list[int]] = {}
    for segment, level in graph.nodes(data="level"):
        levels.setdefault(level, []).append(segment)
    place = nx.multipartite_layout(graph, subset_key=levels, align="vertical")
    x = np.array([place[segment][0] for segment in graph])
    y = np.array([place[segment][1] for segment in graph])
    order = list(graph)
    at = {segment: index for index, segment in enumerate(order)}
    figure = go.Figure()
    links = [(at[above], at[below]) for above, below in graph.edges]
    figure.add_scatter(
        x=[value for a, b in links for value in (x[a], x[b], None)],
        y=[value for a, b in links for value in (y[a], y[b], None)],
        mode="lines",
        line={"color": theme.rule, "width": 1.5},
        hoverinfo="skip",
        showlegend=False,
    )
    sampled = np.add.reduceat(np.isin(np.arange(tree.size), tree.token), tree.start)
    copied = np.add.reduceat(tree.origin != np.arange(tree.size), tree.start)
    length = tree.length
    size = SMALL + (LARGE - SMALL) * np.sqrt(length / max(int(length.max()), 1))
    for name, chosen, colour in (
        ("first sent or sampled", copied * 2 < length, theme.classes["agree"]),
        ("shown again", copied * 2 >= length, theme.classes["shifted"]),
    ):
        shown = [at[segment] for segment in order if chosen[segment]]
        own = [order[index] for index in shown]
        figure.add_scatter(
            x=x[shown],
            y=y[shown],
            mode="markers",
            name=name,
            marker={
                "size": size[own],
                "color": colour,
                "opacity": 1,
                "line": {"color": theme.text, "width": 1},
                "symbol": "circle" if "first" in name else "square",
            },
            customdata=np.stack(
                [own, tree.first_call[own], length[own], sampled[own], tree.depth[own]], axis=1
            ),
            hovertemplate=(
                "segment %{customdata[0]}, first in call %{customdata[1]}<br>%{customdata[2]:,} "
                "tokens from depth %{customdata[4]:,}, %{customdata[3]:,} sampled<extra></extra>"
            ),
        )
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False, autorange="reversed")
    widest = max(map(len, levels.values()))
    return dressed(figure, theme).update_layout(
        height=int(min(max(240, 40 + 46 * widest), 900)),
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        margin={"l": 10, "r": 10, "t": 40, "b": 10},
    )


def tree_graph(tree: EvictionTree) -> nx.DiGraph:
    """Segments as nodes with a `level`, each linked from its parent, in depth-first order."""
    graph = nx.DiGraph()
    level: list[int] = []
    for segment, parent in enumerate(tree.parent.tolist()):
        level.append(level[parent] + 1 if parent >= 0 else 0)
        graph.add_node(segment, level=level[-1])
        if parent >= 0:
            graph.add_edge(parent, segment)
    return graph
