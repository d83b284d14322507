"""The report's charts: Plotly figures of the results, drawn to PNG by Chromium."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

import plotly.graph_objects as go
from playwright.sync_api import ViewportSize, sync_playwright
from plotly.subplots import make_subplots

from examples.experiment.batched import EXACT
from examples.experiment.job import CONTROL, PARTS
from examples.experiment.readings import Number
from examples.experiment.results import Run, over_seeds
from mwviz.figures.palette import METHOD_COLOURS
from mwviz.figures.training import ARM_COLOURS, DASHES, LOWEST
from mwviz.wording import digits

CHROMIUM = "/usr/bin/chromium"
SIZE: ViewportSize = {"width": 760, "height": 400}
SHARP = 2
"""Pixels of a PNG to one of the page, so that it stays sharp where it is shown large."""
COLOURS = {**ARM_COLOURS, CONTROL: METHOD_COLOURS["call_by_call"]}
NAMES = {EXACT: f"{EXACT} (exact)", CONTROL: f"{CONTROL} (no evictions)"}
INK, BAND = "#1A1A1A", 0.16
"""Of text and floors, and how much of a line's colour the spread of its seeds has."""

Points = Callable[[Run], dict[int, float]]


def over_steps(
    runs: Sequence[Run],
    part: str,
    points: Points,
    *,
    title: str,
    axis: str,
    log: bool = False,
) -> go.Figure:
    """A line an arm: the mean over its seeds, in a band from the smallest to the largest.

    Each at the steps that all seeds of the arm have that came to any.
    """
    figure = _figure(title, "step", axis, log=log)
    counted = set()
    for arm in PARTS[part]:
        curves = [points(run) for run in runs if (run.part, run.arm) == (part, arm)]
        seeds = [curve for curve in curves if curve]
        if not seeds:
            continue
        counted.add(len(seeds))
        steps = sorted(set.intersection(*(set(one) for one in seeds)))
        _line(figure, arm, {step: [one[step] for one in seeds] for step in steps}, log=log)
    seeds_of = " or ".join(map(str, sorted(counted)))
    told = f"lines: mean of {seeds_of} seeds; bands: from the smallest to the largest"
    figure.update_layout(title={"text": f"{title}<br><sup>{told}</sup>"})
    return figure


def by_count(runs: Sequence[Run], part: str, points: Points, *, title: str, axis: str) -> go.Figure:
    """A line an arm over the number of evictions that its view gets wrong."""
    figure = over_steps(runs, part, points, title=title, axis=axis, log=True)
    figure.update_xaxes(title="evictions that the view gets wrong", dtick=1)
    return figure


def with_floor(figure: go.Figure, height: float | None, what: str) -> go.Figure:
    """Draws and names what noise alone explains of the number; nothing where that is not known.

    Args:
        figure: with a logarithmic axis.
        height: of the floor.
        what: it is the floor of, in few words.
    """
    if height is None:
        return figure
    reach = max((max(line.x) for line in figure.data if line.x), default=0)
    return figure.add_scatter(
        x=[0, reach],
        y=[max(height, LOWEST)] * 2,
        name=f"floor {digits(height, 2)}:<br>{what}",
        mode="lines",
        line={"color": INK, "dash": "dot", "width": 1.2},
    )


def by_arm(
    runs: Sequence[Run], parts: Mapping[str, str], number: Number, *, title: str, axis: str
) -> go.Figure:
    """A dot a seed and a bar at their mean, an arm beside the other, a field a part.

    Args:
        runs: of all parts.
        parts: what stands above each part's field.
        number: a share, 0 to 1.
        title: of the whole.
        axis: its unit.
    """
    figure = make_subplots(
        1, len(parts), shared_yaxes=True, subplot_titles=list(parts.values()),
        horizontal_spacing=0.03,
    )  # fmt: skip
    for place, part in enumerate(parts, start=1):
        for arm in PARTS[part]:
            found = over_seeds(runs, part, arm, number)
            if found is None:
                continue
            figure.add_scatter(
                x=[arm] * found.seeds, y=list(found.values), row=1, col=place, mode="markers",
                marker={"color": COLOURS[arm], "size": 8, "opacity": 0.75},
            )  # fmt: skip
            figure.add_scatter(
                x=[arm], y=[found.mean], row=1, col=place, mode="markers",
                marker={"symbol": "line-ew", "size": 26, "line": {"color": INK, "width": 2}},
            )  # fmt: skip
    told = "dots: a seed each; bars: their mean"
    figure.update_layout(_dress(f"{title}<br><sup>{told}</sup>"), showlegend=False)
    figure.update_layout(margin={"t": 92, "b": 84})
    figure.update_xaxes(tickangle=-40)
    figure.update_yaxes(range=[-0.04, 1.04], tickformat=".0%")
    figure.update_yaxes(title=axis, col=1)
    return figure


def draw(figures: Mapping[str, go.Figure], folder: Path) -> list[Path]:
    """One PNG a figure, `NAME.png`."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, device_scale_factor=SHARP)
        for name, figure in figures.items():
            file = Path(scratch) / f"{name}.html"
            options = {"staticPlot": True, "displayModeBar": False}
            file.write_text(figure.to_html(include_plotlyjs=True, config=options))
            page.goto(file.as_uri())
            page.wait_for_selector(".legend, .xaxislayer-above")
            path = folder / f"{name}.png"
            page.screenshot(path=path)
            made.append(path)
        browser.close()
    return made


def _line(figure: go.Figure, arm: str, values: Mapping[int, list[float]], *, log: bool) -> None:
    """The mean of an arm's seeds, before the band that they lie in."""
    steps = list(values)
    low, mean, high = (
        _drawn([reduced(values[step]) for step in steps], log=log) for reduced in (min, fmean, max)
    )
    figure.add_scatter(
        x=[*steps, *reversed(steps)],
        y=[*high, *reversed(low)],
        fill="toself",
        fillcolor=COLOURS[arm],
        opacity=BAND,
        line={"width": 0},
        showlegend=False,
    )
    figure.add_scatter(
        x=steps,
        y=mean,
        name=NAMES.get(arm, arm),
        mode="lines+markers" if len(steps) < 12 else "lines",  # noqa: PLR2004
        line={"color": COLOURS[arm], "dash": DASHES.get(arm), "width": 2},
    )


def _drawn(values: Iterable[float], *, log: bool) -> list[float]:
    return [max(value, LOWEST) if log else value for value in values]


def _figure(title: str, across: str, up: str, *, log: bool) -> go.Figure:
    figure = go.Figure(layout=_dress(title))
    figure.update_layout(showlegend=True)
    figure.update_xaxes(title=across, rangemode="tozero")
    figure.update_yaxes(title=up, exponentformat="power")
    if log:
        figure.update_yaxes(type="log", dtick=1)
    return figure


def _dress(title: str) -> dict[str, object]:
    return {
        "template": "plotly_white",
        "title": {"text": title, "font": {"size": 15}, "x": 0.01},
        "margin": {"l": 64, "r": 12, "t": 64, "b": 48},
        "font": {"size": 12, "color": INK},
        "width": SIZE["width"] - 16,
        "height": SIZE["height"] - 16,
    }
