"""What a view may claim on a rollout, as the badge of the bar: exact or not, and why."""

from __future__ import annotations

import streamlit as st

from mwviz.analysis import Analysis
from mwviz.badge import Badge, badge
from mwviz.display import visible
from mwviz.rendering import RECORDED
from mwviz.summary import fidelity
from mwviz.verdict import DOUBTS, refusal
from mwviz_app import whose

KNOWN = "exact for what the log holds"
"""Badge of an exact view where the log lacks text or its prompts are rebuilt."""
EXACT_AS_KNOWN = (
    "Exact for what the log holds: every sampled token is predicted, once, from the context that "
    "the log tells. What it was really sampled from may have held more."
)
BADGES = {
    "exact": ("exact", ":material/verified:"),
    "first_order": ("partly", ":material/contrast:"),
    "naive": ("naive", ":material/warning:"),
}
"""Style and sign of each level of exactness."""


def show(analysis: Analysis, view: str) -> None:
    """Whether the view may claim exactness on this rollout, and why not."""
    if refusal(analysis, view):
        return
    found = badge(analysis, view)
    doubt = DOUBTS[fidelity(analysis)]
    known = bool(doubt) and found.level == "exact"
    colour, icon = BADGES["first_order" if known else found.level]
    label = KNOWN if known else found.label
    with st.popover(
        label, icon=icon, type="tertiary", key=f"badge-{colour}", help="Is this view exact?"
    ):
        st.text(EXACT_AS_KNOWN if known else _claim(found))
        if found.why:
            st.text(found.why)
        if doubt:
            st.text(doubt)
        if analysis.encoding.rendering != RECORDED:
            st.text(visible(whose.told(analysis), keep=""))


def _claim(found: Badge) -> str:
    if found.level == "exact":
        return "Exact: every sampled token is predicted from what it was sampled from, once."
    words = {"re_prefill": "re-prefill", "kv_orig": "kept caches"}
    exact = " and ".join(words[word] for word in found.exact_for)
    return f"Not exact on this rollout; exact only for {exact}." if exact else "Not exact."
