"""Charts of one view's drift: how large it is, where it sits, and what bounds it; the tree."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from mwviz.analysis import Analysis
from mwviz.compare import Comparison
from mwviz.display import shortened, visible
from mwviz.distances import Distances
from mwviz.figures import (
    bounds_figure,
    drift_figure,
    histogram_figure,
    nodelink_figure,
    places_figure,
    tree_figure,
)
from mwviz.figures.histogram import CLEAR
from mwviz.figures.nodelink import MOST_SEGMENTS
from mwviz.tree import EvictionTree
from mwviz.wording import counted
from mwviz_app import studies, widgets
from mwviz_app.scored import Setup
from mwviz_app.state import Opened

HEIGHT = 270
MARGIN = {"l": 55, "r": 10, "t": 36, "b": 44}
UNSCORED = "This view is not scored.", "Choose *Run on a model* above: drift needs a model."
DEEPEST = 12
"""Levels of the tree that are drawn as lines in front of a row."""
MOST_WORDS = 16
"""Tokens of a segment that its row quotes."""
MOST_TABLE = 5_000
"""Segments listed in the table of the tree."""


def drift(
    opened: Opened, analysis: Analysis, comparison: Comparison | None, setup: Setup | None
) -> None:
    """The charts, two in a row; the last one needs whole distributions, which a job computes."""
    if comparison is None:
        widgets.empty(*UNSCORED)
        return
    theme = widgets.theme()
    first, second = st.columns(2, gap="medium")
    with first:
        _chart("How large it is", histogram_figure(comparison, theme=theme), "histogram")
        figure = places_figure(comparison, "offset", theme=theme)
        _chart("Where in the completion", figure, "offset")
    with second:
        texts = [""] * len(comparison.table)
        figure = drift_figure(
            comparison, texts, junctions=analysis.junction_list, theme=theme
        ).update_layout(paper_bgcolor=CLEAR, plot_bgcolor=CLEAR, margin=MARGIN)
        _chart("In the order of sampling", figure, "position")
        if analysis.junction_list:
            figure = places_figure(comparison, "since_junction", theme=theme)
            _chart("How far behind a change of context", figure, "distance")
    _bounds(opened, comparison, setup)
    with st.expander("The same as a table", icon=":material/table:", on_change="rerun") as box:
        if box.open:
            st.dataframe(
                _summary(comparison),
                hide_index=True,
                placeholder="-",
                alt="Drift by token set, nats",
            )


def _chart(title: str, figure: go.Figure, key: str) -> None:
    st.text(title)
    figure.update_layout(height=HEIGHT)
    st.plotly_chart(
        figure, theme=None, key=f"chart-{key}", config={"displayModeBar": False}, alt=title
    )


def _summary(comparison: Comparison) -> pd.DataFrame:
    rows = []
    for token_set in ("all", "diverging", "control"):
        found = comparison.drift(token_set)
        rows.append({"tokens": token_set, "number": found.targets, **found.values})
    return pd.DataFrame(rows).assign(floor=comparison.threshold, coverage=comparison.coverage)


def _bounds(opened: Opened, comparison: Comparison, setup: Setup | None) -> None:
    """Measured total variation beside its bound."""
    method = comparison.view.method
    st.subheader("Whole distributions: measured distance beside its bound")
    found = studies.asked(opened, "distances", method, setup, 0)
    if found is None or found.status != "done" or found.result is None:
        st.caption(
            "Compares the whole distribution at every token, not only the probability of the one "
            "that was sampled: KL, total variation, changed first choices, and the most that the "
            "KL allows (Pinsker; Bretagnolle-Huber)."
        )
        studies.button(opened, "Measure the distances", "distances", method, setup, 0)
        return
    told = Distances.from_json(found.result)
    chart, words = st.columns([3, 2], gap="medium")
    with chart:
        figure = bounds_figure(told, method, theme=widgets.theme())
        _chart(f"Each token under {method}", figure, "bounds")
    with words:
        st.table(_facts(told), hide_index=True, border="horizontal")
        st.caption(
            f"Trajectories: total variation at most {told.trajectory.value:.3g}. "
            f"{told.trajectory.label}."
        )


def _facts(told: Distances) -> pd.DataFrame:
    share = told.flips / told.targets if told.targets else 0.0
    rows = (
        ("tokens compared", f"{told.targets:,}"),
        ("mean KL(true || view)", f"{told.kl:.3g} nats"),
        ("mean KL(view || true)", f"{told.kl_reverse:.3g} nats"),
        ("mean Jensen-Shannon", f"{told.js:.3g} nats"),
        ("first choice changes", f"{counted(told.flips, 'token')} ({100 * share:.1f} %)"),
        ("mean total variation", f"{told.mean.measured:.3g}, at most {told.mean.value:.3g}"),
        ("tokens above their bound", f"{told.broken:,} (more than 0 would be a bug)"),
    )
    return pd.DataFrame(rows, columns=["what", "value"])


def tree(analysis: Analysis) -> None:
    """The eviction tree in lanes, as nodes and links, or as a table."""
    whole, theme = analysis.tree, widgets.theme()
    shape = st.segmented_control(
        "Shape",
        ["lanes", "nodes and links", "table"],
        default="lanes",
        required=True,
        key="tree-shape",
        label_visibility="collapsed",
    )
    if shape == "table":
        st.dataframe(_segments(analysis), hide_index=True, alt="Segments of the tree")
        st.caption(
            "One row a segment, in depth-first order, one step to the right for each place "
            "above it where a context parted."
        )
        return
    if shape == "nodes and links":
        if len(whole.start) > MOST_SEGMENTS:
            widgets.empty(
                f"This tree has {len(whole.start):,} segments, too many for circles.",
                f"Lanes and table show them; circles are drawn up to {MOST_SEGMENTS}.",
            )
            return
        figure = nodelink_figure(whole, theme=theme)
        told = "One circle a segment, larger with more tokens; what follows it stands right of it."
    else:
        figure = tree_figure(whole, theme=theme)
        told = "One lane a branch, each segment once. A lane leaves another where a context parted."
    st.plotly_chart(
        figure, theme=None, config={"displayModeBar": False}, key=f"tree-{shape}", alt=told
    )
    st.caption(told)


def _segments(analysis: Analysis) -> pd.DataFrame:
    """One row a segment, in depth-first order, indented by branch."""
    tree = analysis.tree
    shown = range(min(len(tree.start), MOST_TABLE))
    sampled = np.isin(np.arange(tree.size), tree.token)
    starts = [
        analysis.decoder.text(tree.ids[start : start + min(length, MOST_WORDS)])
        for start, length in zip(tree.start[: len(shown)], tree.length[: len(shown)], strict=True)
    ]
    counted = np.add.reduceat(sampled, tree.start) if len(tree.start) else tree.start
    return pd.DataFrame(
        {
            "branch": [
                indented(level, f"segment {s}")
                for s, level in zip(shown, levels(tree), strict=False)
            ],
            "tokens": tree.length[: len(shown)],
            "sampled": counted[: len(shown)],
            "depth": tree.depth[: len(shown)],
            "first call": tree.first_call[: len(shown)],
            "starts with": [visible(shortened(" ".join(t.split()), 80), keep="") for t in starts],
        }
    )


def levels(tree: EvictionTree) -> list[int]:
    """How many places where a context parted lie above each segment."""
    children = np.bincount(tree.parent[tree.parent >= 0], minlength=len(tree.parent))
    found: list[int] = []
    for parent in tree.parent.tolist():
        found.append(found[parent] + int(children[parent] > 1) if parent >= 0 else 0)
    return found


def indented(level: int, name: str) -> str:
    """A row's name behind the lines of its branch; of very deep ones the innermost lines only."""
    lines = "│ " * (min(level, DEEPEST) - 1) + "└ " if level else ""
    return f"{'… ' if level > DEEPEST else ''}{lines}{name}"
