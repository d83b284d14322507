"""Measured total variation of every target beside the most that its KL allows."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from mwviz.bound import target_bound
from mwviz.distances import Distances
from mwviz.figures.histogram import CLEAR
from mwviz.figures.mask import dressed
from mwviz.figures.palette import LIGHT, Theme, method_colour

SMALLEST, LARGEST = -8.0, 2.0
"""log10 of the KL in nats at the ends of the axis; smaller ones stand at its left end."""


def bounds_figure(found: Distances, method: str, *, theme: Theme = LIGHT) -> go.Figure:
    """One point a target; none may lie above the line.

    Args:
        found: of the view `method`.
        method: gives the colour.
        theme: colours.
    """
    kl = np.array([point.kl for point in found.points], dtype=np.float64)
    tv = np.array([point.tv for point in found.points], dtype=np.float64)
    line = np.logspace(SMALLEST, LARGEST, 200)
    figure = go.Figure()
    figure.add_scattergl(
        x=np.clip(kl, 10**SMALLEST, 10**LARGEST),
        y=tv,
        mode="markers",
        marker={"color": method_colour(method, theme), "size": 5, "opacity": 0.6},
        name=f"measured ({len(kl):,} tokens)",
        hovertemplate="KL %{x:.3g} nats, total variation %{y:.3f}<extra></extra>",
    )
    figure.add_scatter(
        x=line,
        y=target_bound(line),
        mode="lines",
        line={"color": theme.text, "width": 2, "dash": "dash"},
        name="the most that the KL allows",
        hoverinfo="skip",
    )
    figure.update_xaxes(
        type="log",
        title="KL(true context || view), nats",
        gridcolor=theme.rule,
        griddash="dot",
        range=[SMALLEST, LARGEST],
        exponentformat="power",
    )
    figure.update_yaxes(
        title="total variation", range=[-0.02, 1.05], gridcolor=theme.rule, griddash="dot"
    )
    return dressed(figure, theme).update_layout(
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        margin={"l": 55, "r": 10, "t": 36, "b": 44},
    )
