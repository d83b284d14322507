"""Where drift sits: by place in the completion, and by distance from the last junction."""

from __future__ import annotations

from typing import Literal

import numpy as np
import plotly.graph_objects as go

from mwviz.compare import Comparison
from mwviz.figures.histogram import CLEAR
from mwviz.figures.mask import dressed
from mwviz.figures.palette import LIGHT, Theme, method_colour
from mwviz.wording import digits

BINS = 24
"""Steps of the curve at most; each has about as many tokens."""
FAINT = 0.18
"""Opacity of the band between the quartiles."""
TITLES = {
    "offset": "tokens from the start of the completion",
    "since_junction": "tokens from the last change of context",
}


def places_figure(
    comparison: Comparison,
    by: Literal["offset", "since_junction"] = "offset",
    *,
    theme: Theme = LIGHT,
) -> go.Figure:
    """Mean |drift| of covered tokens by their place, with its quartiles; grey band: the floor.

    Args:
        comparison: of the view with the true contexts.
        by: the column that says the place; tokens without one are left out.
        theme: colours.
    """
    table = comparison.table[comparison.table["covered"]]
    place = table[by].to_numpy(dtype=np.float64)
    drift = table["drift"].abs().to_numpy(dtype=np.float64)
    known = ~np.isnan(place) & ~np.isnan(drift)
    place, drift = place[known], drift[known]
    colour = method_colour(comparison.view.method, theme)
    figure = go.Figure()
    if len(place):
        x, low, mean, high, count = _binned(place, drift)
        figure.add_scatter(
            x=[*x, *x[::-1]],
            y=[*high, *low[::-1]],
            fill="toself",
            fillcolor=colour,
            opacity=FAINT,
            line={"width": 0},
            mode="lines",
            hoverinfo="skip",
            name="middle half",
        )
        figure.add_scatter(
            x=x,
            y=mean,
            mode="lines+markers",
            line={"color": colour, "width": 2},
            marker={"size": 5},
            name=f"mean |drift| ({len(place):,} tokens)",
            customdata=count,
            hovertemplate="%{y:.3g} nats near %{x:,.0f}: %{customdata:,} tokens<extra></extra>",
        )
    figure.add_hrect(
        y0=0,
        y1=comparison.threshold,
        fillcolor=theme.rule,
        opacity=0.35,
        line_width=0,
    )
    figure.add_scatter(
        x=[None],
        y=[None],
        mode="markers",
        marker={"symbol": "square", "color": theme.rule, "opacity": 0.35, "size": 11},
        name=f"floor {digits(comparison.threshold, 1)}",
    )
    figure.update_xaxes(title=TITLES[by], gridcolor=theme.rule, griddash="dot")
    figure.update_yaxes(
        title="|drift| (nats)", gridcolor=theme.rule, griddash="dot", rangemode="tozero"
    )
    return dressed(figure, theme).update_layout(
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        margin={"l": 55, "r": 10, "t": 36, "b": 44},
    )


def _binned(place: np.ndarray, drift: np.ndarray) -> tuple[np.ndarray, ...]:
    """Middle of each bin that has tokens, quartiles and mean of its |drift|, and its tokens."""
    edges = np.unique(np.quantile(place, np.linspace(0, 1, BINS + 1)))
    index = np.clip(np.searchsorted(edges, place, side="right") - 1, 0, len(edges) - 1)
    rows = []
    for one in np.unique(index):
        own = drift[index == one]
        low, high = np.quantile(own, (0.25, 0.75))
        rows.append((place[index == one].mean(), low, own.mean(), high, len(own)))
    return tuple(np.array(rows).T)
