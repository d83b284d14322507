"""Curves of a training: one line an arm over steps, with the floor that noise alone explains."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from mwviz.figures.curves import Curve
from mwviz.figures.histogram import CLEAR
from mwviz.figures.mask import dressed
from mwviz.figures.palette import LIGHT, METHOD_COLOURS, Theme, method_colour
from mwviz.wording import digits

ARM_COLOURS = {**METHOD_COLOURS, "sdcc": "#5FC8A8", "sdcc_replay": "#7A3E9D", "exact": "#1F6FB4"}
DASHES = {
    "rightmost": "solid",
    "replay": "dash",
    "logit_tree": "solid",
    "packed_mask": "longdash",
    "sdcc": "dot",
    "sdcc_replay": "dashdot",
}
"""So that arms are told apart without colour; packed_mask lies over logit_tree, which shows through
it."""
MARKS = 6
"""Of a logarithmic axis, at most."""
LOWEST = 1e-9
"""What is drawn for less: a logarithmic axis has no zero."""
STEPS = 8
"""Marks of the axis of steps, at most."""
MARKED = 40
"""Points of a line up to which each is marked."""


EVICTIONS = {
    "wrong": "evictions that the layout gets wrong",
    "after": "evictions before the token (earlier version)",
}
"""What the axis of evictions counts, by the column of `junctions`."""


def curve_figure(
    rows: pd.DataFrame, curve: Curve, *, floor: float | None = None, theme: Theme = LIGHT
) -> go.Figure:
    """One line an arm, over steps taken.

    Args:
        rows: the table that the curve is of: columns `arm`, `step` and its own.
        curve: which.
        floor: what noise explains of this number; drawn where the curve has one, None: unknown.
        theme: colours.
    """
    figure = go.Figure()
    for arm, some in rows.groupby("arm", sort=False) if len(rows) else ():
        name, known = str(arm), some.dropna(subset=[curve.column]).sort_values("step")
        values = known[curve.column].to_numpy(dtype=np.float64)
        colour = method_colour(name, theme, ARM_COLOURS)
        figure.add_scatter(
            x=known["step"].to_numpy(),
            y=np.maximum(values, LOWEST) if curve.logarithmic else values,
            name=_plain(name),
            mode="lines+markers" if len(known) <= MARKED else "lines",
            line={"color": colour, "dash": DASHES.get(name, "solid"), "width": 2},
            marker={"size": 4},
            customdata=[digits(value, 4) for value in values.tolist()],
            hovertemplate=f"step %{{x:,d}}: %{{customdata}}<extra>{_plain(name)}</extra>",
        )
    if curve.floor and floor is not None and len(rows):
        # Named below, as the arms are: on the chart, lines would run through its name.
        height = max(floor, LOWEST) if curve.logarithmic else floor
        figure.add_scatter(
            x=[0, int(rows["step"].max())],
            y=[height, height],
            name=_floor_text(curve, floor),
            mode="lines",
            line={"color": theme.text, "dash": "dot", "width": 1.2},
            hoverinfo="skip",
        )
    figure.update_xaxes(
        title={"text": "step", "standoff": 2},
        rangemode="tozero",
        dtick=_steps_apart(int(rows["step"].max()) if len(rows) else 0),
        tickformat=",d",
        gridcolor=theme.rule,
        griddash="dot",
    )
    figure.update_yaxes(gridcolor=theme.rule, griddash="dot", exponentformat="power")
    if curve.logarithmic:
        figure.update_yaxes(type="log", dtick=_decades_apart(figure))
    return _framed(figure, _plain(curve.title), theme)


def bound_figure(
    rows: pd.DataFrame, *, floor: float | None = None, theme: Theme = LIGHT
) -> go.Figure:
    """Measured total variation by the evictions that a layout gets wrong, and its KL's bound.

    Args:
        rows: the table `junctions` of one look: columns `arm`, `wrong`, `targets`, `tv`, `bound`;
            with `after` for `wrong` by the evictions before a token, as `eviction_count` tells.
        floor: total variation that noise explains; None where unknown.
        theme: colours.
    """
    figure, count = go.Figure(), eviction_count(rows)
    rows = rows.dropna(subset=[count]) if len(rows) else rows
    for arm, some in rows.groupby("arm", sort=False) if len(rows) else ():
        name, colour = str(arm), method_colour(str(arm), theme, ARM_COLOURS)
        weight = some["targets"].to_numpy(dtype=np.float64)
        for column, dash in (("tv", DASHES.get(name, "solid")), ("bound", "dot")):
            weighted = some.assign(value=some[column] * weight).groupby(count)
            mean = weighted["value"].sum() / weighted["targets"].sum()
            figure.add_scatter(
                x=mean.index.to_numpy(),
                y=mean.to_numpy(),
                name=f"{_plain(name)}: {'measured' if column == 'tv' else 'bound'}",
                mode="lines+markers",
                showlegend=column == "tv",
                opacity=1.0 if column == "tv" else 0.5,
                line={"color": colour, "dash": dash, "width": 2 if column == "tv" else 1},
            )
    if floor is not None and len(rows):
        figure.add_scatter(
            x=[int(rows[count].min()), int(rows[count].max())],
            y=[floor, floor],
            name=f"floor {digits(floor, 1)}",
            mode="lines",
            line={"color": theme.text, "dash": "dot", "width": 1},
            hoverinfo="skip",
        )
    figure.update_xaxes(
        title={"text": EVICTIONS[count], "standoff": 2},
        dtick=1,
        gridcolor=theme.rule,
        griddash="dot",
    )
    figure.update_yaxes(gridcolor=theme.rule, griddash="dot", rangemode="tozero")
    title = "total variation by evictions, measured and bound (0 to 1)"
    return _framed(figure, title, theme)


def eviction_count(rows: pd.DataFrame) -> Literal["wrong", "after"]:
    """The column of the table `junctions` by which its tokens are grouped.

    `after` where no look has `wrong`: a run of an earlier version, which counted the evictions
    before the token for every arm.
    """
    told = "wrong" in rows and not rows["wrong"].isna().all()
    return "wrong" if told or "after" not in rows else "after"


def left_out(rows: pd.DataFrame) -> list[str]:
    """The arms that `bound_figure` cannot draw beside the others, of the same table.

    An earlier version, which counted otherwise, was the last to look at them.
    """
    if len(rows) == 0:
        return []
    known = rows.groupby("arm", sort=False)[eviction_count(rows)].count()
    return [str(arm) for arm, many in known.items() if many == 0]


def _steps_apart(last: int) -> int:
    """Whole steps between two marks: 1, 2 or 5, and tens of them."""
    power = 1
    while True:
        for apart in (power, 2 * power, 5 * power):
            if last / apart <= STEPS:
                return apart
        power *= 10


def _decades_apart(figure: go.Figure) -> int:
    """Decades between two marks of a logarithmic axis, so that their names do not touch."""
    values = [np.asarray(line.y, dtype=np.float64) for line in figure.data]
    known = np.concatenate([*values, [1.0]])
    spread = float(np.ptp(np.log10(known[known > 0])))
    return max(math.ceil(spread / MARKS), 1)


def _floor_text(curve: Curve, floor: float) -> str:
    """Of a cosine, whose best is 1, how far it falls short."""
    if curve.floor != "floor_cosine":
        return f"floor {digits(floor, 1)}"
    return f"floor 1 - {digits(max(1 - floor, 0.0), 1)}"


def _framed(figure: go.Figure, title: str, theme: Theme) -> go.Figure:
    """A small chart on the page's own ground, its arms named below."""
    return dressed(figure, theme).update_layout(
        title={"text": title, "font": {"size": 13}, "x": 0, "y": 0.97},
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        margin={"l": 50, "r": 10, "t": 34, "b": 10},
        legend={"orientation": "h", "x": 0, "y": -0.26, "yanchor": "top"},
        showlegend=True,
    )


def _plain(name: str) -> str:
    """A file name in an arm's name must not be read as markup."""
    return name.replace("<", "&lt;").replace("%", "&#37;")
