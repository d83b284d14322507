"""Curves of a training: one line an arm over steps, with the floor that noise alone explains."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from mwviz.figures.histogram import CLEAR
from mwviz.figures.mask import dressed
from mwviz.figures.palette import LIGHT, METHOD_COLOURS, Theme

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
MARKED = 40
"""Points of a line up to which each is marked."""


class Curve(NamedTuple):
    """What one chart shows."""

    table: str
    """`steps` or `watch`."""
    column: str
    title: str
    """With its unit."""
    floor: bool = False
    """Whether the floor of drift is comparable: it is in nats of a log-probability."""
    logarithmic: bool = False
    help: str = ""
    """What it means and which way is better, in one sentence."""


CURVES = (
    Curve("steps", "nll", "training loss (nats a token)", help="Lower fits the batch better."),
    Curve(
        "steps",
        "gap",
        "gap on the batch, mean |log p - recorded| (nats)",
        floor=True,
        logarithmic=True,
        help="What a trainer measures: the arm's layout against the sampler.",
    ),
    Curve(
        "watch",
        "drift_diverging",
        "drift, diverging tokens, mean |d| (nats)",
        floor=True,
        logarithmic=True,
        help="Held out: how far the layout is from the true contexts. An exact arm has none.",
    ),
    Curve(
        "watch",
        "loss_true",
        "loss in the true contexts (nats a token)",
        help="Held out, as the agent will run: lower is better.",
    ),
    Curve(
        "watch",
        "kl",
        "KL(true context || view), mean (nats)",
        help="Held out, over all tokens that the view covers: 0 is best.",
    ),
    Curve(
        "watch",
        "cosine",
        "cosine with the exact gradient",
        help="On one fixed rollout: 1 pulls the weights the way that the truth does.",
    ),
)
"""The charts of the train lab."""


def curve_figure(
    rows: pd.DataFrame, curve: Curve, *, floor: float | None = None, theme: Theme = LIGHT
) -> go.Figure:
    """One line an arm, over steps taken.

    Args:
        rows: the table that the curve is of: columns `arm`, `step` and its own.
        curve: which.
        floor: drift that noise explains, nats, drawn where it is comparable; None where unknown.
        theme: colours.
    """
    figure = go.Figure()
    for arm, some in rows.groupby("arm", sort=False) if len(rows) else ():
        name, known = str(arm), some.dropna(subset=[curve.column]).sort_values("step")
        values = known[curve.column].to_numpy(dtype=np.float64)
        colour = ARM_COLOURS.get(name, theme.text)
        if theme is not LIGHT and name == "logit_tree":
            colour = theme.text
        figure.add_scatter(
            x=known["step"].to_numpy(),
            y=np.maximum(values, 1e-9) if curve.logarithmic else values,
            name=_plain(name),
            mode="lines+markers" if len(known) <= MARKED else "lines",
            line={"color": colour, "dash": DASHES.get(name, "solid"), "width": 2},
            marker={"size": 4},
            hovertemplate=f"step %{{x}}: %{{y:.4g}}<extra>{_plain(name)}</extra>",
        )
    if curve.floor and floor is not None and len(rows):
        # A line of the figure, not a shape: annotations of shapes are misplaced on such an axis.
        figure.add_scatter(
            x=[0, int(rows["step"].max())],
            y=[floor, floor],
            mode="lines+text",
            text=[f"floor {floor:.1g}", ""],
            textposition="top right",
            line={"color": theme.rule, "dash": "dot", "width": 1},
            hoverinfo="skip",
            showlegend=False,
        )
    figure.update_xaxes(
        title={"text": "step", "standoff": 2},
        rangemode="tozero",
        gridcolor=theme.rule,
        griddash="dot",
    )
    figure.update_yaxes(gridcolor=theme.rule, griddash="dot", exponentformat="power")
    if curve.logarithmic:
        figure.update_yaxes(type="log", dtick=1)
    return _framed(figure, curve.title, theme)


def bound_figure(rows: pd.DataFrame, *, theme: Theme = LIGHT) -> go.Figure:
    """Measured total variation by evictions before a token, beside what its KL allows at most.

    Args:
        rows: the table `junctions` of one look: columns `arm`, `after`, `targets`, `tv`, `bound`.
        theme: colours.
    """
    figure = go.Figure()
    for arm, some in rows.groupby("arm", sort=False) if len(rows) else ():
        name, colour = str(arm), ARM_COLOURS.get(str(arm), theme.text)
        weight = some["targets"].to_numpy(dtype=np.float64)
        for column, dash in (("tv", DASHES.get(name, "solid")), ("bound", "dot")):
            weighted = some.assign(value=some[column] * weight).groupby("after")
            mean = weighted["value"].sum() / weighted["targets"].sum()
            figure.add_scatter(
                x=mean.index.to_numpy(),
                y=mean.to_numpy(),
                name=f"{_plain(name)}: {'measured' if column == 'tv' else 'bound'}",
                mode="lines+markers",
                opacity=1.0 if column == "tv" else 0.5,
                line={"color": colour, "dash": dash, "width": 2 if column == "tv" else 1},
            )
    figure.update_xaxes(
        title={"text": "evictions before the token", "standoff": 2}, dtick=1, gridcolor=theme.rule
    )
    figure.update_yaxes(gridcolor=theme.rule, griddash="dot", rangemode="tozero")
    title = "total variation by evictions, measured and bound (0 to 1)"
    return _framed(figure, title, theme)


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
