"""Learn: what an eviction does to training, on 24 words, and what every word of mwviz means."""

from __future__ import annotations

import streamlit as st

from mwviz.verdict import explain, judge
from mwviz_app import example, glossary, measured, widgets

st.header("What goes wrong, on 24 words")
names = [step.name for step in example.STEPS]
chosen = st.segmented_control(
    "Step", names, default=names[0], required=True, label_visibility="collapsed"
)
step = example.STEPS[names.index(chosen or names[0])]
analysis = example.example()

left, right = st.container(key="lesson").columns([2, 3], gap="large")
with left:
    for sentence in step.told:
        st.text(sentence)
    method = step.method
    if step.picks:
        method = st.segmented_control("Layout", example.NAIVE, default=method, required=True)
    if step.lays_out:
        verdict = judge(analysis, method)
        with st.container(key="verdict" if verdict.diverging else "verdict-clean"):
            st.text(verdict.headline)
            st.text(measured.summary(method))
    if step.picks:
        words = example.sampled_words()
        word = st.selectbox("Sampled word", words, index=example.FIRST_LEAK[method])
        target = words.index(word)
        told = "\n".join(explain(analysis, method, target))
        st.text(told or f"{method} does not train this word: it left before the last call.")
        said = measured.told(method, target, example.word(target))
        if said:
            st.text(said)
        causes = example.causes(method, target)
        if len(causes):
            st.table(causes, hide_index=True, border="horizontal")
with right:
    with st.container(key="matrix"):
        st.plotly_chart(
            example.mask(method, widgets.theme()),
            theme=None,
            height=430,
            config={"displayModeBar": False},
            alt=f"Which words each sampled word sees under {method}",
        )
    st.caption(
        "One row a sampled word (call.place), one column a word of text, in the order of writing; "
        "the strong cell is the word itself, and what stands right of it is the future. F future, "
        "E erased, S stale."
    )
    st.subheader("What the model is fed" if step.lays_out else "What each call was sent, and said")
    fed = example.rows(method) if step.lays_out else example.contexts()
    st.code(fed, language=None, wrap_lines=True)
    if step.lays_out:
        st.dataframe(
            example.budget(), hide_index=True, alt="Words fed, trained, wrong cells, drift"
        )

st.header("Every word, class and method")
first, second = st.columns(2, gap="large")
with first:
    st.subheader("Words")
    st.table(glossary.words(), hide_index=True, border="horizontal")
with second:
    st.subheader("Classes of a cell: what a token sees or misses")
    st.table(glossary.classes(), hide_index=True, border="horizontal")
    st.subheader("Junctions: how a context changes")
    st.table(glossary.kinds(), hide_index=True, border="horizontal")
st.subheader("Methods: how a rollout becomes training rows")
st.table(glossary.methods(), hide_index=True, border="horizontal")
