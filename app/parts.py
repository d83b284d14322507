"""What the gap to recorded log-probabilities is made of, and the estimate that needs no model."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from mwviz.account import gap_of, residuals_of
from mwviz.analysis import Analysis
from mwviz.compare import Comparison
from mwviz.errors import ViewError
from mwviz.sdcc import estimate
from mwviz.wording import counted
from mwviz_app import widgets

PLAIN = {
    "floor": "What two engines differ by in the same context: noise.",
    "conditioning": "What the wrong contexts of the view do.",
    "retokenisation": "What other token ids for the same text do.",
    "staleness": "What the age of the weights does.",
    "floor and staleness": "Noise of two engines and the age of the weights, not told apart.",
}


def show(analysis: Analysis, view: str, comparison: Comparison | None) -> None:
    """Both panels, or why they are empty."""
    if comparison is None:
        widgets.empty("This view is not scored.", "Choose *Run on a model* above.")
        return
    gap, residual = widgets.beside("gap", gap="large")
    with gap:
        st.subheader("What the gap is made of")
        _gap(analysis, view, comparison)
    with residual:
        st.subheader("The distance from recorded log-probabilities alone")
        _estimate(analysis, comparison)


def _gap(analysis: Analysis, view: str, comparison: Comparison) -> None:
    split = gap_of(analysis, comparison, "unknown")
    if not split.targets:
        widgets.empty(
            "No token has a recorded log-probability and a known temperature.",
            "Record logprobs and temperature to see the gap.",
        )
        return
    st.text(
        f"Under {view} log p differs from what the sampler recorded by {split.gap:+.3g} nats a "
        f"token, over {counted(split.targets, 'token')}:"
    )
    rows = [
        {
            "part": part.name,
            "mean, nats": part.mean,
            "mean size, nats": part.mean_abs,
            "tokens": part.targets,
            "what it is": PLAIN.get(part.name, ""),
        }
        for part in split.parts
    ]
    st.dataframe(
        pd.DataFrame(rows).style.format({"mean, nats": "{:+.3g}", "mean size, nats": "{:.3g}"}),
        hide_index=True,
        height="content",
        alt="Parts of the gap; their means add up to it",
    )
    st.caption("The means add up to the gap; the sizes do not.")
    for note in split.notes:
        st.text(f"{note[0].upper()}{note[1:]}.")


def _estimate(analysis: Analysis, comparison: Comparison) -> None:
    st.caption(
        "Recorded minus student log-probability over the tokens that the view trains in another "
        "context: an estimate of their distance to the true contexts that needs no second run."
    )
    try:
        found = estimate([residuals_of(analysis, comparison)])
    except ViewError as error:
        widgets.empty("There is no estimate for this rollout.", "The reason:")
        reason = str(error)
        st.text(f"{reason[:1].upper()}{reason[1:]}.")
        return
    st.text(
        f"{found.label}: {found.mean:.3g} nats a token, 95 % interval {found.low:.3g} to "
        f"{found.high:.3g} (bootstrap over {counted(found.leaves, 'branch', 'branches')}, "
        f"{counted(found.targets, 'token')})."
    )
    for condition in found.conditions:
        st.text(f"Holds if: {condition}.")
