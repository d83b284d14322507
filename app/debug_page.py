"""Debug: one rollout under one training view; one selection is shared by all that is shown."""

from __future__ import annotations

import streamlit as st

from mwviz import verdict
from mwviz.figures import histogram_figure, tree_figure
from mwviz_app import bar, changes, inspector, links, state, tables, widgets, workbench

opened = state.opened()
if opened is None:
    widgets.empty("No rollout is open.", "Choose one on the Open page.")
    st.stop()
analysis = state.analysis(opened)

top = st.container()
choice = bar.pick(opened)
widgets.show_jobs(state.jobs_of(opened))
for model in state.misfits(opened):
    widgets.empty("A model with another tokenizer has scored this rollout.", bar.MISFIT)
    st.text(model)
comparisons = state.comparisons(opened, choice.setup, choice.against)
comparison = comparisons.get(choice.view)
overview = verdict.overview(analysis, comparisons)
refused = verdict.refusal(analysis, choice.view)
if refused:
    with top:
        bar.refused(choice.view, refused)
    tables.views(overview)
    st.stop()
with top:
    bar.verdict(verdict.judge(analysis, choice.view, comparison), analysis)

workbench.workbench(
    state.payload(opened, choice.setup, choice.against),
    key=f"workbench-{opened.trace}-{opened.rollout}",
    view=choice.view,
)


@st.fragment(key=workbench.INSPECTOR)
def inspect() -> None:
    left, right = st.columns(2, gap="medium")
    with left:
        st.subheader("What the selected token was sampled from")
        inspector.show(analysis, choice.view, comparison)
        if st.button("Copy link", icon=":material/link:"):
            st.code(links.write(choice.view), language=None, wrap_lines=True)
            st.caption("The address bar shows it too. It holds ids only, no text.")
    with right:
        st.subheader("All views of this rollout")
        tables.views(overview)
        if comparison is not None:
            figure = histogram_figure(comparison, theme=widgets.theme())
            st.plotly_chart(figure, theme=None, height=260, config={"displayModeBar": False})


inspect()

st.subheader("Where the context changed")
changes.show(analysis)

st.subheader("The eviction tree")
figure = tree_figure(analysis.tree, theme=widgets.theme())
st.plotly_chart(figure, theme=None, config={"displayModeBar": False}, key="tree")
st.caption("One lane a branch, each segment once. A lane leaves another where a context parted.")

with st.expander("Every sampled token, as a table"):
    tables.targets(analysis, comparison)
