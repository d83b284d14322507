"""The card of what is selected, drawn in the browser, and all its sources as a table.

A new selection sends one small message (see `cards`); what is long waits until it is opened.
"""

from __future__ import annotations

import json

import pandas as pd
import streamlit as st

from mwviz.analysis import Analysis
from mwviz.causes import Causes
from mwviz.compare import Comparison
from mwviz.display import shortened, visible
from mwviz.leaks import sources
from mwviz.verdict import PLAIN
from mwviz.wording import counted
from mwviz_app import cards, frontend, state, widgets
from mwviz_app.whatif import WhatIf

MOST_TEXT = 1_500
"""Characters of a source that are shown in full."""
MOST_ROWS = 8
"""Sources shown before their table scrolls."""
LONG = 300
"""Characters of a text above which its box scrolls."""

_mount = frontend.component("inspector")


def words() -> None:
    """Gives the browser the sentences of the card, once a page; the card sends numbers only."""
    _mount(key="words", data={"words": PLAIN})


def show(
    analysis: Analysis,
    view: str,
    comparison: Comparison | None,
    *,
    causes: Causes | None,
    undone: WhatIf | None,
) -> None:
    """The selection of this session, or how to make one."""
    card = cards.card(analysis, view, state.selection(), comparison, causes, undone)
    _mount(key="inspected", data=compact(card))


def compact(card: cards.Card) -> bytes:
    """UTF-8 JSON without spaces, half surrogates escaped; Streamlit's own escapes every letter."""
    text = json.dumps(card, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="backslashreplace")


def in_full(analysis: Analysis, view: str, target: int | None, causes: Causes | None) -> None:
    """Every source with its text, as a table; computed and sent once it is opened."""
    label = "All sources as a table"
    with st.popover(label, icon=":material/table:", key="sources", on_change="rerun") as box:
        if not box.open:
            return
        if target is None or not analysis.view(view).multiplicity[target]:
            st.text(f"Select a sampled token that {view} trains.")
            return
        spans = sources(analysis, view, target)
        if not spans:
            st.text(f"{view} shows this token what it saw when it was sampled, and no more.")
            return
        ranked = cards.ranked(spans, causes)
        rows = [
            {
                "": "leaks in" if span.leaks else "missing",
                "class": span.name,
                "tokens": span.tokens,
                "effect, nats": change,
                "what": span.kind,
                "call": span.call,
                "text": shortened(" ".join(span.text.split()), MOST_TEXT),
            }
            for span, change in ranked
        ]
        picked = st.dataframe(
            widgets.shown(pd.DataFrame(rows)),
            hide_index=True,
            height="content" if len(rows) <= MOST_ROWS else 320,
            width=720,
            placeholder="-",
            on_select="rerun",
            selection_mode="single-row",
            key=f"sources-{view}-{target}",
            alt="Text that leaks in or is missing",
        )
        rows_picked = picked["selection"]["rows"] or [0]
        span, _ = ranked[min(rows_picked[0], len(ranked) - 1)]
        verb = "Leaks in" if span.leaks else "Missing"
        st.text(f"{verb}: {counted(span.tokens, 'token')}, {span.place}")
        text = visible(shortened(span.text, MOST_TEXT), keep="\n\t")
        st.code(text, language=None, wrap_lines=True, height=150 if len(text) > LONG else "content")
