"""How much one token looks at text in the wrong place, layer by layer."""

from __future__ import annotations

import plotly.graph_objects as go

from mwviz.attended import Attended
from mwviz.figures.histogram import CLEAR
from mwviz.figures.mask import dressed
from mwviz.figures.palette import LIGHT, Theme
from mwviz.judging import AGREE, CLASSES
from mwviz.leaks import MISSING


def attention_figure(told: Attended, *, theme: Theme = LIGHT) -> go.Figure | None:
    """One line a class, by layer: full of the view, dashed of the true context; None if none.

    Args:
        told: of one target.
        theme: colours.
    """
    figure = go.Figure()
    layers = list(range(len(told.here)))
    for kind, name in enumerate(CLASSES):
        missing = name in MISSING
        shares = [layer[kind] for layer in (told.true if missing else told.here)]
        if kind == AGREE or max(shares) <= told.floor:
            continue
        side = "true context" if missing else "view"
        figure.add_scatter(
            x=layers,
            y=shares,
            mode="lines+markers",
            line={
                "color": theme.classes[name],
                "width": 2,
                "dash": "dash" if missing else "solid",
            },
            marker={"size": 4},
            name=f"{name} ({side})",
            hovertemplate="%{y:.1%} in layer %{x}<extra>" + name + "</extra>",
        )
    if not figure.data:
        return None
    grid = {"gridcolor": theme.rule, "griddash": "dot"}
    figure.update_xaxes(title="layer", **grid)
    figure.update_yaxes(title="share of attention", tickformat=".0%", rangemode="tozero", **grid)
    return dressed(figure, theme).update_layout(
        showlegend=True,
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        margin={"l": 55, "r": 10, "t": 30, "b": 44},
    )
