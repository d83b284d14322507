"""Where the selected token looks: asked of a model, shown as words, tables and a small chart."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from mwviz.analysis import Analysis
from mwviz.attended import LONGEST, Attended, Seen, places, seen
from mwviz.causes import one_row
from mwviz.display import shortened, visible
from mwviz.figures import attention_figure
from mwviz.judging import CLASSES
from mwviz.leaks import MISSING
from mwviz.wording import counted
from mwviz_app import state, studies, waiting, widgets
from mwviz_app.cards import target_of
from mwviz_app.jobs import JobState
from mwviz_app.scored import Setup
from mwviz_app.state import Opened

LABEL = "Where does it look?"
WIDTH = 720
HEIGHT = 230
MOST_ROWS = 8
"""Texts shown before their table scrolls."""
MOST_TEXT = 160
"""Characters of a text in its row."""
DEFINITION = (
    "Attention mass: of the attention that the token's query spends, the share that falls on some "
    "text, 0 to 1, as the model's own weights have it. Under the view for text that the view "
    "shows, in the true context for text that it lacks."
)
NOT_CAUSES = (
    "Attention is not causation: a text that is looked at may change nothing, and one hardly "
    "looked at may decide. *What causes this?* hides each text and measures what that does."
)


def popover(opened: Opened, analysis: Analysis, view: str, setup: Setup | None) -> None:
    """Asks where the selected token looks, and shows it; computed and sent once it is opened."""
    with st.popover(
        LABEL, icon=":material/visibility:", key="looks", on_change="rerun", width="content"
    ) as box:
        if box.open:
            _fill(opened, analysis, view, setup)


def refusal(analysis: Analysis, view: str, target: int | None) -> str:
    """Why there is nothing to ask, whatever the model; "" if there is."""
    if target is None or not analysis.view(view).multiplicity[target]:
        return f"Select a sampled token that {view} trains."
    size = one_row(analysis.view(view), target).rows[0].size
    if size > LONGEST:
        return (
            f"The row up to this token has {size:,} tokens: too many for attention weights, which "
            f"are held for every pair of them; expected at most {LONGEST:,}. What causes this? "
            "needs none."
        )
    return ""


def _fill(opened: Opened, analysis: Analysis, view: str, setup: Setup | None) -> None:
    target = target_of(analysis, state.selection())
    refused = refusal(analysis, view, target)
    if refused or target is None:
        st.text(refused)
        return
    refused = studies.refusal(opened, setup)
    if refused:
        studies.tell_refused(refused)
        return
    st.caption(DEFINITION)
    found = studies.asked(opened, "attention", view, setup, target)
    if found is None or found.status != "done" or found.result is None:
        _offer(opened, analysis, view, setup, found)
        return
    _show(analysis, view, target, Attended.from_json(found.result))


def _offer(
    opened: Opened, analysis: Analysis, view: str, setup: Setup | None, found: JobState | None
) -> None:
    """The button that asks, or how far the question is, or why it failed."""
    if found is not None and found.live:
        told = widgets.progress(found)
        st.text(f"Asked: {told}. Progress and Cancel stand below the buttons.")
        return
    if found is not None and found.status == "failed":
        st.text(visible(f"It could not be read: {found.message}"))
    if waiting.is_needed(analysis, setup):
        st.caption(waiting.NEEDED)
    st.button(
        "Read its attention",
        icon=":material/science:",
        help="Runs the model on this token's row and on its true context, no further.",
        on_click=waiting.ask_attention,
        args=(opened, analysis, view, setup),
    )


def _show(analysis: Analysis, view: str, target: int, told: Attended) -> None:
    tree = analysis.tree
    word = analysis.decoder.text(tree.ids[tree.token[target : target + 1]])
    place = f"Call {int(tree.call[target]):,}, token {int(tree.offset[target]):,}"
    st.text(visible(f"{place}, {word!r}, under {view}: {told.sentence}", keep=""))
    st.text(f"By depth: {told.depths}.")
    st.caption(NOT_CAUSES)
    counts = {name: int(analysis.pairs(view).of(name)[target]) for name in CLASSES}
    st.dataframe(
        _classes(told, counts), hide_index=True, width=WIDTH, alt="Share of attention by class"
    )
    figure = attention_figure(told, theme=widgets.theme())
    if figure is not None:
        st.plotly_chart(
            figure,
            theme=None,
            height=HEIGHT,
            width=WIDTH,
            key="looks-by-layer",
            config={"displayModeBar": False},
            alt="Share of attention on text in the wrong place, by layer",
        )
    texts = _texts(seen(places(analysis, view, target), told))
    st.dataframe(
        widgets.shown(texts),
        hide_index=True,
        width=WIDTH,
        height="content" if len(texts) <= MOST_ROWS else 320,
        placeholder="-",
        alt="Share of attention by text",
        column_config={
            name: st.column_config.NumberColumn(name, format="percent")
            for name in ("view", "true context")
        },
    )
    st.caption(told.terms)
    st.text(visible(f"Read by {told.model}."))


def _classes(told: Attended, counts: dict[str, int]) -> pd.DataFrame:
    rows = [
        {
            "class": name,
            "tokens": count,
            "share of attention": f"{told.share(name):.1%}",
            "measured in": "true context" if name in MISSING else "view",
            **_beside(told.share(name), told.floor),
        }
        for name, count in counts.items()
        if count
    ]
    return pd.DataFrame(rows).fillna("")


def _beside(share: float, floor: float) -> dict[str, str]:
    """A column of its own for a share that is rounding, where there is one."""
    return {} if share > floor else {"note": "rounding"}


def _texts(looks: tuple[Seen, ...]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "view": here,
                "true context": true,
                "class": span.name,
                "what": f"{counted(span.tokens, 'token')}, {span.place}",
                "text": shortened(" ".join(span.text.split()), MOST_TEXT),
            }
            for span, here, true in looks
        ]
    )
