"""What is selected, in words and numbers: a sampled token under a view, or a whole segment."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from mwviz.analysis import Analysis
from mwviz.compare import COLUMNS, Comparison
from mwviz.display import shortened, visible
from mwviz.leaks import KeySpan, sources, tokens
from mwviz.verdict import explain
from mwviz_app import state, widgets, workbench
from mwviz_app.state import Selection

AROUND = 12
"""Tokens of context that are quoted around the selected one."""
MOST_TEXT = 1_500
"""Characters of a source that are shown."""
LONG = 300
"""Characters of a text above which its box scrolls."""
MOST_ROWS, ROW = 7, 35
"""Sources shown before their table scrolls, and the height of a row in pixels."""
NUMBERS = (
    ("drift", "drift", "{:+.3g}"),
    ("log p true", "logprob_true", "{:.3f}"),
    ("log p view", "logprob_view", "{:.3f}"),
    ("log p recorded", "logprob_recorded", "{:.3f}"),
    ("rank true", "rank_true", "{:,}"),
    ("rank view", "rank_view", "{:,}"),
)
"""Label, column of the comparison and format of each number shown."""


def show(analysis: Analysis, view: str, comparison: Comparison | None) -> None:
    """The selection of this session, or how to make one."""
    chosen = state.selection()
    if chosen is None:
        st.text("Click a rectangle or a token to see what it was sampled from.")
    elif chosen.target is None or chosen.target >= len(analysis.tree.token):
        piece = workbench.segment(analysis, chosen)
        st.text(piece.sentence)
        st.code(visible(piece.text, keep="\n\t"), language=None, wrap_lines=True)
    else:
        _token(analysis, view, chosen.target, comparison)


def of_target(analysis: Analysis, target: int) -> Selection:
    """The selection that points at a sampled token."""
    tree = analysis.tree
    segment = int(tree.segment_of(tree.token[target]))
    return Selection(int(tree.call[target]), segment, target)


def _token(analysis: Analysis, view: str, target: int, comparison: Comparison | None) -> None:
    tree = analysis.tree
    node, query = int(tree.token[target]), int(tree.query[target])
    position = int(tree.position_of(node))
    path = tree.path(node)[-AROUND:]
    before = analysis.decoder.text(tree.ids[path[:-1]])
    own = analysis.decoder.text(tree.ids[path[-1:]])
    st.text(
        f"Call {int(tree.call[target]):,}, token {int(tree.offset[target]):,}, sampled after "
        f"{position:,} tokens:"
    )
    st.code(f"… {_line(before)} ⟦{_line(own)}⟧", language=None, wrap_lines=True)
    if comparison is not None:
        _numbers(comparison, target)
    if analysis.view(view).multiplicity[target] == 0:
        st.text(f"{view} does not train this token.")
    else:
        st.text(f"Under {view}:\n" + "\n".join(explain(analysis, view, target)))
        _sources(sources(analysis, view, target), f"sources-{view}-{target}")
    st.caption(
        f"node {node} · query {query} · token id {int(tree.ids[node])} · position {position}"
    )


def _line(text: str) -> str:
    """Text on one line, line ends as arrows."""
    return visible(text).replace("\n", "↵")


def _numbers(comparison: Comparison, target: int) -> None:
    row = comparison.table.iloc[target]
    with st.container(horizontal=True, key="numbers"):
        for label, column, form in NUMBERS:
            known = not pd.isna(row[column]) and row[column] != -1
            shown = form.format(row[column]) if known else "-"
            st.metric(label, shown, help=COLUMNS[column], width="content")
    if pd.isna(row["drift"]):
        return
    where = "above" if row["notable"] else "within"
    st.text(f"|drift| is {where} the floor of {comparison.threshold:.2g} nats.")


def _sources(spans: tuple[KeySpan, ...], key: str) -> None:
    """Everything leaking or missing, the longest first; the text of the one that is picked."""
    if not spans:
        return
    rows = [
        {
            "": "leaks in" if span.leaks else "missing",
            "class": span.name,
            "tokens": span.tokens,
            "what": span.kind,
            "call": span.call,
            "text": shortened(" ".join(span.text.split()), MOST_TEXT),
        }
        for span in spans
    ]
    picked = st.dataframe(
        widgets.shown(pd.DataFrame(rows)),
        hide_index=True,
        height=min(len(rows), MOST_ROWS) * ROW + ROW + 2,
        on_select="rerun",
        selection_mode="single-row",
        key=key,
        alt="Text that leaks in or is missing, the longest first",
    )
    leaking = [index for index, span in enumerate(spans) if span.leaks]
    rows_picked = picked["selection"]["rows"] or leaking or [0]
    span = spans[min(rows_picked[0], len(spans) - 1)]
    st.text(f"{'Leaks in' if span.leaks else 'Missing'}: {tokens(span.tokens)}, {span.place}")
    text = visible(shortened(span.text, MOST_TEXT), keep="\n\t")
    long = len(text) > LONG
    st.code(text, language=None, wrap_lines=True, height=150 if long else "content")
