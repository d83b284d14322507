"""Drift by position, with its floor and the places where the context changed."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from mwviz.compare import Comparison
from mwviz.figures.mask import dressed
from mwviz.figures.palette import LIGHT, Theme, method_colour
from mwviz.junctions import Junction

MOST_POINTS = 20_000
"""Targets drawn one by one; of more only those above the floor and every n-th other."""


def drift_figure(
    comparison: Comparison,
    texts: list[str],
    *,
    junctions: tuple[Junction, ...] = (),
    theme: Theme = LIGHT,
) -> go.Figure:
    """One bar a covered target in the order of sampling; grey band: the floor.

    Args:
        comparison: of the view with the true contexts.
        texts: what each target says, one a row of the comparison's table.
        junctions: drawn as rules in front of the first token sampled after each.
        theme: colours.
    """
    table = comparison.table
    drift = table["drift"].to_numpy()
    shown = np.flatnonzero(table["covered"].to_numpy())
    if len(shown) > MOST_POINTS:
        notable = table["notable"].to_numpy()[shown]
        shown = shown[notable | (np.arange(len(shown)) % (len(shown) // MOST_POINTS + 1) == 0)]
    colour = method_colour(comparison.view.method, theme)
    places = table[["call", "offset"]].to_numpy()[shown]
    figure = go.Figure(
        go.Bar(
            x=shown,
            y=drift[shown],
            marker={"color": colour, "line": {"width": 0}},
            name=f"drift under {comparison.view.method}",
            customdata=[
                (call, offset, text)
                for (call, offset), text in zip(places, (texts[i] for i in shown), strict=True)
            ],
            hovertemplate=(
                "call %{customdata[0]}, token %{customdata[1]}: %{customdata[2]}<br>"
                "drift %{y:+.3f} nats<extra></extra>"
            ),
        )
    )
    limit = comparison.threshold
    figure.add_hrect(y0=-limit, y1=limit, fillcolor=theme.rule, opacity=0.35, line_width=0)
    calls = table["call"].to_numpy()
    for junction in junctions:
        if junction.is_eviction and junction.call <= int(calls[-1] if len(calls) else -1):
            at = int(np.searchsorted(calls, junction.call)) - 0.5
            figure.add_vline(x=at, line={"color": theme.rule, "dash": "dot", "width": 1})
    figure.update_yaxes(
        title="drift (nats)",
        zeroline=True,
        zerolinecolor=theme.rule,
        gridcolor=theme.rule,
        griddash="dot",
    )
    figure.update_xaxes(title="sampled token, in order", showgrid=False)
    figure.update_layout(bargap=0)
    return dressed(figure, theme)
