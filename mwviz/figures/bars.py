"""A small histogram whose bars can be picked."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from mwviz.figures.histogram import CLEAR
from mwviz.figures.mask import dressed
from mwviz.figures.palette import LIGHT, Theme

HEIGHT = 150
FAINT = 0.3
"""Opacity of the bars that were not picked, where some were."""


def bars_figure(
    values: npt.NDArray[np.float64],
    edges: npt.NDArray[np.float64],
    title: str,
    *,
    picked: tuple[float, float] | None = None,
    theme: Theme = LIGHT,
) -> go.Figure:
    """How many values lie between each two edges; picked bars keep their colour.

    Args:
        values: float64; NaN are left out.
        edges: of the bars, rising.
        title: what is counted: our words.
        picked: the range that was chosen before.
        theme: colours.
    """
    counts, _ = np.histogram(values[~np.isnan(values)], edges)
    middle = (edges[:-1] + edges[1:]) / 2
    inside = np.ones(len(middle), dtype=bool)
    if picked is not None:
        inside = (middle >= picked[0]) & (middle <= picked[1])
    figure = go.Figure(
        go.Bar(
            x=middle,
            y=counts,
            width=np.diff(edges) * 0.92,
            marker={
                "color": theme.classes["lost"],
                "opacity": np.where(inside, 1.0, FAINT),
                "line": {"width": 0},
            },
            customdata=np.stack([np.ceil(edges[:-1] * 1e6) / 1e6, edges[1:]], axis=1),
            hovertemplate="%{y} rollouts from %{customdata[0]:.3~g} to %{customdata[1]:.3~g}"
            "<extra></extra>",
        )
    )
    figure.update_xaxes(showgrid=False, fixedrange=True, nticks=5)
    figure.update_yaxes(showgrid=False, fixedrange=True, visible=False)
    return dressed(figure, theme).update_layout(
        title={"text": title, "font": {"size": 13}, "x": 0.02, "y": 0.96},
        height=HEIGHT,
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        margin={"l": 8, "r": 8, "t": 30, "b": 24},
        dragmode=False,
        clickmode="event+select",
        showlegend=False,
    )
