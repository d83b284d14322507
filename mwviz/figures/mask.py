"""The who-sees-what matrix of a window as a Plotly heatmap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from mwviz.display import shortened, visible
from mwviz.figures.palette import CLASS_SENTENCES, LIGHT, Theme
from mwviz.tree import EvictionTree
from mwviz.windows import NAMES, Window

FONT = "Source Sans, Source Sans Pro, sans-serif"
"""As the pages of the app are set in."""
LABEL = 24
"""Characters of a token's text in labels and tooltips."""


def mask_figure(
    tree: EvictionTree, window: Window, texts: Sequence[str], *, theme: Theme = LIGHT
) -> go.Figure:
    """Rows are sampled tokens, columns the text they may look at, colours the pair class.

    Args:
        tree: whose tokens the window shows.
        window: from `mwviz.windows.class_window`.
        texts: what each distinct token of the columns, then each target of the rows, says.
        theme: colours.
    """
    steps = len(NAMES)
    scale = []
    for index, name in enumerate(NAMES):
        colour = theme.classes[name]
        scale += [(index / steps, colour), ((index + 1) / steps, colour)]
    columns = [shortened(visible(text, keep=""), LABEL) for text in texts[: len(window.owners)]]
    rows = [shortened(visible(text, keep=""), LABEL) for text in texts[len(window.owners) :]]
    figure = go.Figure(
        go.Heatmap(
            z=window.cells,
            zmin=-0.5,
            zmax=steps - 0.5,
            colorscale=scale,
            showscale=False,
            xgap=0,
            ygap=0,
            customdata=np.array(NAMES, dtype=object)[window.cells],
            hovertemplate="%{y}<br>looks at %{x}<br><b>%{customdata}</b><extra></extra>",
            x=[f"{i} {t}" for i, t in zip(tree_births(tree, window), columns, strict=True)],
            y=[f"{c}.{o} {t}" for (c, o), t in zip(_places(tree, window), rows, strict=True)],
        )
    )
    present = [NAMES[value] for value in np.unique(window.cells)]
    for name in present:
        if name in CLASS_SENTENCES and name not in {"none", "self"}:
            figure.add_scatter(
                x=[None],
                y=[None],
                mode="markers",
                marker={"size": 11, "symbol": "square", "color": theme.classes[name]},
                name=name,
                hovertext=CLASS_SENTENCES[name],
            )
    figure.update_yaxes(autorange="reversed", title="sampled token (call.offset)", **_axis(theme))
    figure.update_xaxes(title="text, in order of birth", side="bottom", **_axis(theme))
    return dressed(figure, theme)


def dressed(figure: go.Figure, theme: Theme) -> go.Figure:
    """The figure in a theme's colours, without margins it does not need.

    Its legend grows upwards: where a chart is narrow it has several lines.
    """
    figure.update_layout(
        paper_bgcolor=theme.background,
        plot_bgcolor=theme.background,
        font={"color": theme.text, "size": 12, "family": FONT},
        margin={"l": 10, "r": 10, "t": 30, "b": 10},
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        hoverlabel={"font": {"family": "monospace"}},
    )
    return figure


def tree_births(tree: EvictionTree, window: Window) -> list[int]:
    """The place of each column on the birth axis."""
    order = np.empty(tree.size, dtype=np.int64)
    birth = tree.birth
    order[birth] = np.arange(len(birth))
    places: list[int] = order[window.owners].tolist()
    return places


def _places(tree: EvictionTree, window: Window) -> list[tuple[int, int]]:
    calls, offsets = tree.call[window.targets], tree.offset[window.targets]
    return list(zip(calls.tolist(), offsets.tolist(), strict=True))


def _axis(theme: Theme) -> dict[str, object]:
    return {
        "type": "category",
        "nticks": 12,
        "showgrid": False,
        "tickfont": {"family": "monospace", "size": 12},
        "linecolor": theme.rule,
        "ticks": "outside",
        "tickcolor": theme.rule,
    }
