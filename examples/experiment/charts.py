"""The report's charts: Plotly figures of the results, drawn to PNG by Chromium."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import plotly.graph_objects as go
from playwright.sync_api import ViewportSize, sync_playwright

from examples.experiment.job import PARTS
from examples.experiment.results import Run
from mwviz.figures.palette import METHOD_COLOURS

CHROMIUM = "/usr/bin/chromium"
SIZE: ViewportSize = {"width": 640, "height": 360}
COLOURS = METHOD_COLOURS | {"sdcc": "#5FC8A8", "sdcc_replay": "#9C6ADE", "control": "#6B7280"}
DASHES = {"replay": "dash", "packed_mask": "longdash", "sdcc": "dot", "sdcc_replay": "dashdot"}
FLOOR = 1e-7
"""What is drawn for less: a logarithmic axis has no zero."""

Points = Callable[[Run], dict[int, float]]


def over_steps(
    runs: Sequence[Run], part: str, points: Points, *, title: str, axis: str, log: bool = False
) -> go.Figure:
    """A line an arm: the mean over the seeds that got so far, at each step that all these have."""
    figure = _figure(title, "step", axis, log=log)
    for arm in PARTS[part]:
        curves = [points(run) for run in runs if (run.part, run.arm) == (part, arm)]
        seeds = [curve for curve in curves if curve]
        if not seeds:
            continue
        steps = sorted(set.intersection(*(set(one) for one in seeds)))
        means = [sum(one[step] for one in seeds) / len(seeds) for step in steps]
        figure.add_scatter(
            x=steps,
            y=[max(mean, FLOOR) for mean in means] if log else means,
            name=arm,
            mode="lines+markers" if len(steps) < 12 else "lines",  # noqa: PLR2004
            line={"color": COLOURS.get(arm), "dash": DASHES.get(arm), "width": 2},
        )
    return figure


def by_count(runs: Sequence[Run], part: str, points: Points, *, title: str, axis: str) -> go.Figure:
    """A line an arm over the number of evictions that its view gets wrong."""
    figure = over_steps(runs, part, points, title=title, axis=axis, log=True)
    figure.update_xaxes(title="evictions that the view gets wrong", dtick=1)
    figure.update_traces(mode="lines+markers")
    return figure


def draw(figures: dict[str, go.Figure], folder: Path) -> list[Path]:
    """One PNG a figure, `NAME.png`."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)
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


def _figure(title: str, across: str, up: str, *, log: bool) -> go.Figure:
    return go.Figure(
        layout={
            "template": "plotly_white",
            "title": {"text": title, "font": {"size": 15}},
            "margin": {"l": 64, "r": 12, "t": 44, "b": 48},
            "font": {"size": 12},
            "showlegend": True,
            "width": SIZE["width"] - 16,
            "height": SIZE["height"] - 16,
            "xaxis": {"title": across},
            "yaxis": {
                "title": up,
                "type": "log" if log else "linear",
                "exponentformat": "power",
                "dtick": 1 if log else None,
            },
        }
    )
