"""Plotly figures of one analysis: returned, never shown."""

from mwviz.figures.attention import attention_figure
from mwviz.figures.bars import bars_figure
from mwviz.figures.bounds import bounds_figure
from mwviz.figures.drift import drift_figure
from mwviz.figures.histogram import histogram_figure
from mwviz.figures.mask import mask_figure
from mwviz.figures.nodelink import nodelink_figure
from mwviz.figures.palette import DARK, LIGHT, THEMES, Theme
from mwviz.figures.places import places_figure
from mwviz.figures.tree import tree_figure

__all__ = [
    "DARK",
    "LIGHT",
    "THEMES",
    "Theme",
    "attention_figure",
    "bars_figure",
    "bounds_figure",
    "drift_figure",
    "histogram_figure",
    "mask_figure",
    "nodelink_figure",
    "places_figure",
    "tree_figure",
]
