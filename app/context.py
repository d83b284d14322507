"""The text of one call as a table: the same rows as the text pane, sampled or not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from mwviz.analysis import Analysis
from mwviz.compare import Comparison
from mwviz.judging import CLASSES
from mwviz.junctions import Junction
from mwviz.trie import Longs
from mwviz.undo import with_evicted
from mwviz_app import cards, state, widgets, workbench
from mwviz_app.state import Selection

MOST_ROWS = 20_000
"""Tokens listed at once."""
PLACE = "context-call"
FEW_ROWS = 11
"""Rows that need no room to scroll."""
SAMPLER = "assistant"
"""Role that logs give to who was sampled: the agent, as the text pane calls it."""
NUMBERS = {
    "drift": "drift",
    "logprob_true": "log p, what it saw",
    "logprob_view": "log p, this view",
}
"""Columns of the comparison that are told, and what a reader calls them."""


def show(analysis: Analysis, view: str, comparison: Comparison | None) -> None:
    """The table of a call, that of the selection first; picking a row selects it."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        call = _call(analysis, comparison)
        nodes, gone = context(analysis, call)
        first = _first(len(nodes))
    part = slice(first, first + MOST_ROWS)
    listed = _rows(analysis, view, comparison, call, nodes[part], gone[part])
    listed.insert(0, "place", np.arange(first, first + len(listed)))
    picked = widgets.picked(
        widgets.shown(listed),
        height="content" if len(listed) <= FEW_ROWS else 440,
        placeholder="",
        key=f"context-{analysis.digest}-{view}-{call}-{first}",
        alt=f"The text of call {call}, one row a token",
    )
    place = None if picked is None else (analysis.digest, view, call, first, picked)
    if state.is_new("context", place) and picked is not None:
        node = int(nodes[first + picked])
        target = _targets(analysis, nodes[first + picked : first + picked + 1])[0]
        workbench.command(
            cards.of_target(analysis, int(target))
            if target >= 0
            else Selection(call, int(analysis.tree.segment_of(node)))
        )
        st.rerun()
    left = int((gone >= 0).sum())
    st.caption(
        f"The rows behind the text pane: {len(nodes) - left:,} tokens of the context of call "
        f"{call:,} and its reply"
        + (f", and {left:,} that left just before it, where they stood." if left else ".")
        + " Only sampled tokens have numbers; log p and drift in nats."
    )


def _call(analysis: Analysis, comparison: Comparison | None) -> int:
    """Which call is listed: as picked, until something else is selected."""
    last = len(analysis.tree.tip) - 1
    chosen = state.selection()
    if chosen is not None and state.is_new(PLACE, (analysis.digest, chosen)):
        st.session_state[PLACE] = min(chosen.call, last)
    before = min(st.session_state.get(PLACE, _worst(analysis, comparison)), last)
    st.session_state[PLACE] = before
    return int(st.number_input("Call", 0, last, key=PLACE, width=160))


def _worst(analysis: Analysis, comparison: Comparison | None) -> int:
    """The call that the text pane opens with: that of the largest drift, else the last one."""
    sizes = comparison.table["drift"].abs() if comparison else pd.Series(dtype=float)
    if sizes.notna().any():
        return int(analysis.tree.call[int(sizes.fillna(0).to_numpy().argmax())])
    return len(analysis.tree.tip) - 1


def _first(size: int) -> int:
    """The first row that is listed, asked for only where not all fit."""
    if size <= MOST_ROWS:
        return 0
    return int(st.number_input("From place", 0, size - 1, step=MOST_ROWS, width=160))


def context(analysis: Analysis, call: int) -> tuple[Longs, Longs]:
    """What the text pane shows of a call, in reading order.

    Returns:
        int64 (T,) nodes: the call's context, its reply, and what left just before it in its place;
        int64 (T,): the call that no longer had each of them, -1 for what is there.
    """
    tree = analysis.tree
    nodes = tree.context(call)
    change = _change(analysis, call)
    if change is None:
        return nodes, np.full(len(nodes), -1, dtype=np.int64)
    prompt = nodes[: tree.prompt_length[call]]
    whole = np.concatenate((with_evicted(tree, change, prompt), nodes[len(prompt) :]))
    return whole, np.where(np.isin(whole, change.evicted), call, -1).astype(np.int64)


def _change(analysis: Analysis, call: int) -> Junction | None:
    """The change of context just before a call, where the log tells what left."""
    return next(
        (one for one in analysis.junction_list if one.call == call and one.depth is not None), None
    )


def _rows(
    analysis: Analysis,
    view: str,
    comparison: Comparison | None,
    call: int,
    nodes: Longs,
    gone: Longs,
) -> pd.DataFrame:
    """One row a token of a part of a context: id, text, role, what it is, its numbers."""
    tree = analysis.tree
    target = _targets(analysis, nodes)
    sampled = target >= 0
    found = {
        "token id": tree.ids[nodes],
        "text": [widgets.token_text(text) for text in analysis.decoder.decode(tree.ids[nodes])],
        "role": _roles(analysis, call, nodes),
        "what it is": np.where(sampled, "sampled", "given"),
        "here": np.where(gone >= 0, f"left before call {call}", ""),
        "trained": _of_sampled(analysis.view(view).multiplicity.astype(float), target),
        "wrong keys": _of_sampled(_wrong(analysis, view), target),
    }
    if comparison is not None:
        for column, words in NUMBERS.items():
            found[words] = _of_sampled(comparison.table[column].to_numpy(dtype=float), target)
    return pd.DataFrame(found)


def _of_sampled(values: np.ndarray, target: Longs) -> np.ndarray:
    """float64: the value of each row's target, NaN where the token was not sampled."""
    if not len(values):
        return np.full(len(target), np.nan)
    return np.where(target >= 0, values[np.maximum(target, 0)], np.nan)


def _wrong(analysis: Analysis, view: str) -> np.ndarray:
    pairs = analysis.pairs(view)
    wrong = np.array([pairs.of(name) for name in CLASSES if name != "agree"], dtype=np.float64)
    total: np.ndarray = wrong.sum(axis=0)
    return total


def _targets(analysis: Analysis, nodes: Longs) -> Longs:
    """int64: the first target that sampled each node's token, -1 where it was given."""
    tree = analysis.tree
    first = np.full(tree.size, -1, dtype=np.int64)
    first[tree.origin[tree.token[::-1]]] = np.arange(len(tree.token))[::-1]
    return first[tree.origin[nodes]]


def _roles(analysis: Analysis, call: int, nodes: Longs) -> list[str]:
    """Who speaks in the message of each node: `memory` for a summary, "" where it is not known."""
    tree = analysis.tree
    change = _change(analysis, call)
    known: dict[int, str] = {}
    for one in (*((change.previous,) if change is not None else ()), call):
        context = tree.context(one)
        for span in analysis.encoding.calls[one].spans:
            role = "agent" if span.role == SAMPLER else span.role
            role = "memory" if span.kind == "summary" else role
            known.update(dict.fromkeys(context[span.start : span.end].tolist(), role))
    return [known.get(node, "") for node in nodes.tolist()]
