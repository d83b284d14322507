"""Where the context changed: every junction in a table, and a card of the one that is picked."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd
import streamlit as st

from mwviz.analysis import Analysis
from mwviz.display import shortened, visible
from mwviz.junctions import Junction
from mwviz.quotes import Quote, quotes
from mwviz.restored import Cost
from mwviz.trie import Longs
from mwviz.wording import counted, digits
from mwviz_app import cards, glossary, sought, studies, waiting, widgets, workbench
from mwviz_app.scored import Setup
from mwviz_app.state import Opened

MOST_TEXT = 4_000
"""Characters of a text that are shown."""
MOST_QUOTES = 50
MOST_ROWS = 8
"""Rows shown before a table scrolls."""
EVIDENCE = {
    "recorded": "The log says so.",
    "derived": "Derived from the two prompts.",
    "usage": "Only the provider's token counts show it.",
}
CACHES = {
    "re_prefill": "The prompt was encoded anew.",
    "kv_orig": "The cache kept the entries of what stays, where they stood.",
    "kv_reindex": "The cache kept the entries of what stays and renumbered them.",
    "unknown": "The log does not say what the cache did; taken as encoded anew.",
}
"""How a junction's cache was treated, by its word."""
SURE = {
    "exact": "The prompt is recorded as it was sent.",
    "rebuilt": "The prompt is rebuilt from an event log.",
    "partial": "The prompt lacks text that the log does not hold.",
    "unknown": "What the prompt held is not known.",
}
"""How sure a call's prompt is, by its fidelity."""


SIZES = {
    "tokens_before": "before",
    "tokens_after": "after",
    "evicted": "evicted",
    "inserted": "inserted",
    "retained": "kept",
}
"""Columns of tokens, and what a reader calls them."""


class Parts(NamedTuple):
    """The three texts of a junction."""

    gone: Longs
    kept: Longs
    came: Longs


def show(opened: Opened, analysis: Analysis, setup: Setup | None) -> None:
    """All junctions; the one that is picked, else the first, as a card."""
    junctions = analysis.junction_list
    if not junctions:
        widgets.empty("Every call extends the one before it.", "Nothing was evicted here.")
        return
    table = analysis.junctions
    table.insert(len(table.columns), "inserted text", [_start(analysis, j) for j in junctions])
    asked = sought.asked().junction
    first = [] if asked is None or asked >= len(table) else [asked]
    row = widgets.picked(
        widgets.shown(table.drop(columns="eviction")),
        height="content" if len(table) <= MOST_ROWS else 320,
        key=f"junctions-{analysis.digest}",
        column_config={
            name: st.column_config.NumberColumn(label, format="localized")
            for name, label in SIZES.items()
        },
        column_order=[
            "call",
            "kind",
            "tokens_before",
            "tokens_after",
            "evicted",
            "inserted",
            "retained",
            "evidence",
            "inserted text",
        ],
        alt="Changes of context, one row a junction",
        selection_default={"selection": {"rows": first}} if first else None,
    )
    sought.pick_junction(row)
    index = min(row or 0, len(junctions) - 1)
    with st.container(border=True, key="junction"):
        _card(opened, analysis, index, setup)


def _card(opened: Opened, analysis: Analysis, index: int, setup: Setup | None) -> None:
    junction = analysis.junction_list[index]
    call = analysis.rollout.calls[junction.call]
    with st.container(key="junction-title"):
        st.text(f"Before call {junction.call:,}: {junction.kind.replace('_', ' ')}")
        st.text(glossary.KINDS.get(junction.kind, "The log gives this change its name."))
    with st.container(horizontal=True, key="junction-facts"):
        for label, value, hint in (
            ("before", junction.tokens_before, "Tokens of the context before it."),
            ("after", junction.tokens_after, "Tokens of the new prompt."),
            ("evicted", junction.evicted_tokens, "Only in the old context."),
            ("kept", len(junction.retained), "In both behind the change."),
            ("inserted", len(junction.inserted), "Only in the new prompt."),
        ):
            st.metric(label, f"{value:,}", help=hint, width="content")
    told = (EVIDENCE[junction.evidence], SURE[call.content], CACHES[junction.semantics])
    st.text(" ".join((_trigger(analysis, junction), *told)))
    if junction.depth is None:
        st.text(
            f"The provider counts {counted(junction.evicted_tokens, 'token')} less in call "
            f"{junction.call:,}; the log does not say which."
        )
        return
    parts = Parts(junction.evicted, junction.retained, junction.inserted)
    titles = (
        f"Call {junction.call:,} no longer shows",
        "Kept behind the change",
        f"Call {junction.call:,} shows instead",
    )
    for column, title, nodes in zip(
        st.columns(3, vertical_alignment="bottom"), titles, parts, strict=True
    ):
        with column:
            _text(analysis, title, nodes)
    left, right = st.columns(2, gap="medium")
    with left:
        _quotes(analysis, junction)
    with right:
        _cost(opened, analysis, index, setup)


def _trigger(analysis: Analysis, junction: Junction) -> str:
    """What set it off, as far as the log tells."""
    hints = analysis.rollout.calls[junction.call].hints
    if hints:
        kinds = ", ".join(visible(shortened(hint.kind, 40), keep="") for hint in hints)
        return f"Trigger: the harness said {kinds}."
    return "Trigger: not recorded."


def _text(analysis: Analysis, title: str, nodes: Longs) -> None:
    st.text(f"{title} ({counted(len(nodes), 'token')})")
    text = analysis.decoder.text(analysis.tree.ids[nodes[:MOST_TEXT]])
    shown = visible(shortened(text, MOST_TEXT), keep="\n\t")
    st.code(shown or "-", language=None, wrap_lines=True, height=160)


def _quotes(analysis: Analysis, junction: Junction) -> None:
    """What later calls say again of what left; picking one selects it."""
    st.text("What later calls quote of what left")
    found = quotes(analysis.tree, junction)
    if not found:
        st.caption("No later call repeats six tokens or more of it.")
        return
    row = widgets.picked(
        widgets.shown(pd.DataFrame([_row(analysis, quote) for quote in found[:MOST_QUOTES]])),
        height="content" if len(found) <= MOST_ROWS else 320,
        key=f"quotes-{analysis.digest}-{junction.call}",
        alt="Sampled text that repeats evicted text",
    )
    if row is not None:
        quote = found[row]
        st.button(
            "Show it in the text",
            icon=":material/search:",
            on_click=workbench.lead_to,
            args=(cards.of_target(analysis, quote.first),),
        )
    hidden = sum(not quote.shown for quote in found)
    st.caption(
        f"{counted(len(found), 'stretch', 'stretches')} of six tokens or more; "
        f"{hidden:,} not in the prompt that the call was sent."
    )


def _row(analysis: Analysis, quote: Quote) -> dict[str, object]:
    tree = analysis.tree
    nodes = tree.token[quote.first : quote.first + quote.tokens]
    return {
        "call": quote.call,
        "token": int(tree.offset[quote.first]),
        "tokens": quote.tokens,
        "in the prompt": "yes" if quote.shown else "no",
        "text": " ".join(analysis.decoder.text(tree.ids[nodes]).split()),
    }


def _cost(opened: Opened, analysis: Analysis, index: int, setup: Setup | None) -> None:
    """Undoes the eviction with a model: what the tokens behind it lost."""
    st.text("What if nothing had been evicted here?")
    if not len(analysis.junction_list[index].evicted):
        st.caption("Nothing recorded left here, so nothing can be put back.")
        return
    found = studies.asked(opened, "undo", studies.NO_METHOD, setup, index)
    if found is not None and found.status == "done" and found.result is not None:
        _told(analysis, Cost.from_json(found.result))
        return
    st.caption(
        "Puts the evicted text back where it stood and scores the later calls again with a model: "
        "how much likelier each sampled token becomes, and the information lost at the junction."
    )
    waiting.undo_button(opened, analysis, "Undo this eviction", setup, index)


def _told(analysis: Analysis, cost: Cost) -> None:
    if not cost.calls:
        st.caption("No later call continues this prompt with sampled tokens.")
        return
    count = sum(after.targets for after in cost.calls)
    change = sum(after.change * after.targets for after in cost.calls) / count
    kl = sum(after.kl * after.targets for after in cost.calls) / count
    st.text(
        f"With {counted(cost.tokens, 'token')} put back, log p "
        f"{'rises' if change > 0 else 'falls'} by {abs(change):.3g} nats on average over "
        f"{counted(count, 'later sampled token')}; information lost: {kl:.3g} nats a token "
        "(mean KL with || without). Below "
        f"{digits(cost.floor)} nats it is noise."
    )
    rows = pd.DataFrame(cost.calls, columns=["call", "tokens", "mean change", "mean KL"])
    st.dataframe(
        rows.style.format({"mean change": "{:+.3f}", "mean KL": "{:.3f}"}),
        hide_index=True,
        height="content" if len(rows) <= MOST_ROWS else 320,
        alt="What the evicted text does to each later call, nats",
    )
    tree = analysis.tree
    most = [
        {
            "call": int(tree.call[one.target]),
            "token": int(tree.offset[one.target]),
            "text": analysis.decoder.text(tree.ids[tree.token[one.target : one.target + 1]]),
            "change": one.change,
        }
        for one in cost.most
    ]
    st.dataframe(
        widgets.shown(pd.DataFrame(most)).style.format({"change": "{:+.2f}"}),
        hide_index=True,
        height="content",
        alt="The tokens that the evicted text changes most, nats",
    )


def _start(analysis: Analysis, junction: Junction) -> str:
    """The first words of what came in; a summary is the first thing that does."""
    nodes = junction.inserted[:60]
    return " ".join(analysis.decoder.text(analysis.tree.ids[nodes]).split())
