"""How large the drift of a view is over all the tokens it trains, on a logarithmic scale."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from mwviz.compare import Comparison
from mwviz.figures.mask import dressed
from mwviz.figures.palette import LIGHT, Theme, method_colour

SMALLEST, LARGEST = -8.0, 2.0
"""log10 of the |drift| in nats of the first and last bar; smaller ones stand in the first."""
BARS = 40
CLEAR = "rgba(0, 0, 0, 0)"
"""No background of its own: the page's shows."""


def histogram_figure(comparison: Comparison, *, theme: Theme = LIGHT) -> go.Figure:
    """Covered tokens by |drift|; those whose context differs apart; grey: below the floor.

    Args:
        comparison: of the view with the true contexts.
        theme: colours.
    """
    covered = comparison.table[comparison.table["covered"]]
    drift = covered["drift"].abs().to_numpy(dtype=np.float64)
    size = np.log10(np.clip(drift, 10**SMALLEST, 10**LARGEST))
    differs = covered["diverging"].to_numpy(dtype=bool)
    edges = np.linspace(SMALLEST, LARGEST, BARS + 1)
    colour = method_colour(comparison.view.method, theme)
    figure = go.Figure()
    for name, chosen, fill in (
        ("true context", ~differs, theme.classes["shifted"]),
        ("other context", differs, colour),
    ):
        counts, _ = np.histogram(size[chosen], edges)
        figure.add_bar(
            x=(edges[:-1] + edges[1:]) / 2,
            y=counts,
            width=np.diff(edges),
            name=f"{name} ({int(chosen.sum()):,})",
            marker={"color": fill, "line": {"width": 0}},
            hovertemplate="%{y} tokens near 10^%{x:.1f} nats<extra></extra>",
        )
    figure.add_vrect(
        x0=SMALLEST,
        x1=float(np.log10(comparison.threshold)),
        fillcolor=theme.rule,
        opacity=0.18,
        line_width=0,
        annotation_text="floor",
        annotation_position="top right",
        layer="below",
    )
    ticks = np.arange(SMALLEST, LARGEST + 1, 2)
    figure.update_xaxes(
        title="|drift| (nats)", tickvals=ticks, ticktext=[f"{10**tick:g}" for tick in ticks]
    )
    figure.update_yaxes(title="tokens", gridcolor=theme.rule, griddash="dot")
    dressed(figure, theme)
    return figure.update_layout(
        barmode="stack",
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        bargap=0,
        margin={"l": 50, "r": 10, "t": 36, "b": 44},
        legend={"traceorder": "normal"},
    )
