"""A small histogram whose bars can be picked."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from mwviz.figures.histogram import CLEAR
from mwviz.figures.mask import dressed
from mwviz.figures.palette import LIGHT, Theme
from mwviz.wording import counted, digits

HEIGHT = 150
MARKS = 5
"""Whole numbers that are all named below their bars, at most."""
FAINT = 0.3
"""Opacity of the bars that were not picked, where some were."""


def bars_figure(
    values: npt.NDArray[np.float64],
    edges: npt.NDArray[np.float64],
    title: str,
    *,
    picked: tuple[float, float] | None = None,
    whole: bool = False,
    theme: Theme = LIGHT,
) -> go.Figure:
    """How many values lie between each two edges; picked bars keep their colour.

    Args:
        values: float64; NaN are left out.
        edges: of the bars, rising.
        title: what is counted: our words.
        picked: the range that was chosen before.
        whole: whether all values are whole numbers, as `told_range` has it.
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
            text=[f"{count:,}" if count else "" for count in counts.tolist()],
            textposition="outside",
            textangle=0,
            textfont={"size": 12},
            constraintext="none",
            cliponaxis=False,
            marker={
                "color": theme.classes["lost"],
                "opacity": np.where(inside, 1.0, FAINT),
                "line": {"width": 0},
            },
            # Where both are not there, Plotly fails at the text of a bar that was picked.
            selected={"marker": {"opacity": 1.0}},
            unselected={"marker": {"opacity": FAINT}},
            customdata=[
                f"{counted(count, 'rollout')}: {told_range(low, high, whole=whole)}"
                for count, low, high in zip(
                    counts.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True
                )
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    )
    figure.update_xaxes(
        showgrid=False, fixedrange=True, nticks=5, showline=True, linecolor=theme.rule
    )
    if whole and edges[-1] - edges[0] <= MARKS:
        figure.update_xaxes(dtick=1)
    figure.update_yaxes(showgrid=False, fixedrange=True, visible=False)
    return dressed(figure, theme).update_layout(
        title={"text": title, "font": {"size": 13}, "x": 0.02, "y": 0.96},
        height=HEIGHT,
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        margin={"l": 8, "r": 16, "t": 48, "b": 24},
        dragmode=False,
        clickmode="event+select",
        showlegend=False,
    )


def told_range(low: float, high: float, *, whole: bool) -> str:
    """The values from one edge to another; of whole numbers those that lie between the two.

    The edges themselves where no whole number lies between them.
    """
    first, last = math.ceil(low), math.floor(high)
    if not whole or first > last:
        return f"{digits(low, 3)} to {digits(high, 3)}"
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"
