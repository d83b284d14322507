"""The tables of the Debug page: all views beside one another, every call, every sampled token."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import streamlit as st

from mwviz.analysis import Analysis
from mwviz.compare import Comparison
from mwviz.judging import CLASSES, COUNTED
from mwviz_app import cards, pointed, state, widgets, workbench

SHOWN = [
    "call",
    "offset",
    "text",
    "drift",
    "logprob_true",
    "logprob_view",
    "logprob_recorded",
    "gap",
    "rank_true",
    "rank_view",
    "diverging",
    "notable",
    "future",
    "erased",
    "stale",
    "foreign",
    "lost",
    "shifted",
]
COUNTS = ("diverging", "future", "erased", "stale", "foreign", "lost")
WRONG = "% that see wrong text or miss some"
"""Share of a call's sampled tokens with any pair that does not agree."""
GROUPED = st.column_config.NumberColumn(format="localized")
NARROW = st.column_config.Column(width=72)
WIDER = {
    name: st.column_config.Column(width=width)
    for name, width in (("view", 108), ("diverging mean", 108), ("multiplicity", 88), ("note", 240))
}
MEANT = (
    "Nats: logprob_true in the context it was sampled from, logprob_view under the view, drift the "
    "second minus the first, gap the view at the sampling temperature minus the recorded one. Rank "
    "0 is the likeliest token. diverging: its context differs; notable: |drift| above the floor. "
    "Classes and shifted count text tokens that it sees or misses so."
)
NATS = ("mean |d|", "diverging mean", "max |d|", "floor")


def views(overview: pd.DataFrame) -> None:
    """One row a view: what it covers, which pairs differ, how far it drifts."""
    shown = widgets.shown(overview)
    forms = {**dict.fromkeys(NATS, "{:.2g}"), **dict.fromkeys(COUNTS, "{:,.0f}")}
    st.dataframe(
        shown.style.format({**forms, "coverage": "{:.0%}"}),
        hide_index=True,
        height="content",
        placeholder="-",
        column_config={**dict.fromkeys((*NATS, *COUNTS, "coverage"), NARROW), **WIDER},
        alt="All views: coverage, diverging tokens, pairs by class, drift in nats",
    )
    st.caption(
        "Drift d in nats, over the tokens a view covers and over the diverging ones, whose context "
        "differs. Classes count pairs of a sampled token and a token it sees or misses."
    )


def calls(analysis: Analysis, view: str) -> None:
    """One row a call: its context and what its tokens see wrongly; picking one selects it."""
    row = widgets.picked(
        widgets.shown(_calls(analysis, view)),
        key=f"calls-{analysis.digest}-{view}",
        column_config=dict.fromkeys(COUNTED, GROUPED),
        alt="Every call: sizes, the change before it, pairs by class",
    )
    place = None if row is None else (analysis.digest, view, row)
    if state.is_new("calls", place) and row is not None:
        chosen = pointed.selection(analysis, row, None)
        if chosen is not None:
            workbench.command(chosen)
            st.rerun()
    st.caption(
        f"The rows behind timeline and mask. Classes count pairs of a token that {view} trains and "
        "a token it sees or misses; those that never occur are left out."
    )


def _calls(analysis: Analysis, view: str) -> pd.DataFrame:
    tree, pairs = analysis.tree, analysis.pairs(view)
    count = len(analysis.rollout.calls)
    before = {junction.call: junction for junction in analysis.junction_list}
    sampled = np.bincount(tree.call, minlength=count)
    wrong = np.sum([pairs.of(name) for name in CLASSES if name != "agree"], axis=0) > 0
    seeing = np.bincount(tree.call, weights=wrong, minlength=count)
    kinds = [name for name in COUNTED if name == "agree" or pairs.totals[name]]
    return pd.DataFrame(
        {
            "call": np.arange(count),
            "agent": [tree.lineages[lineage] for lineage in tree.lineage],
            "prompt tokens": tree.prompt_length,
            "sampled tokens": sampled,
            "change before it": [
                before[call].kind.replace("_", " ") if call in before else ""
                for call in range(count)
            ],
            "tokens evicted": [
                before[call].evicted_tokens if call in before else 0 for call in range(count)
            ],
            WRONG: np.round(100 * seeing / np.maximum(sampled, 1), 1),
            **{
                name: np.bincount(tree.call, weights=pairs.of(name), minlength=count).astype(
                    np.int64
                )
                for name in kinds
            },
        }
    )


def targets(analysis: Analysis, view: str, comparison: Comparison | None) -> None:
    """One row a sampled token, scored or not; picking one selects it everywhere."""
    texts = analysis.decoder.decode(analysis.tree.ids[analysis.tree.token])
    known = comparison.table if comparison else _unscored(analysis, view)
    table = known.assign(text=[widgets.token_text(text) for text in texts])
    row = widgets.picked(
        table[[name for name in SHOWN if name in table]],
        key=f"targets-{analysis.digest}",
        column_config={"drift": st.column_config.NumberColumn(width=88)},
        alt="Every sampled token with its drift and pair counts",
    )
    if comparison is None:
        st.caption("No model has scored this view: run one for drift and log-probabilities.")
    else:
        st.caption(MEANT)
    place = None if row is None else (analysis.digest, row)
    if state.is_new("targets", place) and row is not None:
        workbench.command(cards.of_target(analysis, row))
        st.rerun()
    st.download_button(
        "Download as CSV",
        lambda: csv(known, texts),
        f"{view}.csv",
        "text/csv",
        icon=":material/download:",
    )


def _unscored(analysis: Analysis, view: str) -> pd.DataFrame:
    """The columns of a comparison that need no model."""
    tree, pairs = analysis.tree, analysis.pairs(view)
    return pd.DataFrame(
        {
            "call": tree.call,
            "offset": tree.offset,
            "logprob_recorded": tree.logprob,
            "covered": analysis.view(view).multiplicity > 0,
            **{name: pairs.of(name) for name in COUNTED},
        }
    )


def csv(table: pd.DataFrame, texts: list[str]) -> bytes:
    """All sampled tokens; texts quoted as JSON, so that no program reads one as a formula."""
    quoted = [json.dumps(text, ensure_ascii=False) for text in texts]
    return table.assign(text=quoted).to_csv(index=False).encode()
