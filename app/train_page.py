"""Train lab: pick rollouts and arms, see what it will take, run, and watch what each arm does."""

from __future__ import annotations

from functools import partial

import streamlit as st

from mwviz.display import visible
from mwviz_app import arms, curves, lab, links, presses, recipe_form, widgets

st.header("Train lab")
st.caption(
    "Copies of a model are trained on the same rollouts in the same order, one copy a layout. What "
    "each does to the model shows on held-out rollouts, in their true contexts."
)
plan = recipe_form.pick()
if plan is None:
    presses.forget()  # a form that is mended later is to be pressed again
if plan is not None:
    with st.container(horizontal=True, vertical_alignment="center"):
        asked = lab.estimate(plan)
        st.button(
            "Estimate time and memory",
            icon=":material/schedule:",
            on_click=lab.ask_estimate,
            args=(plan,),
            disabled=asked is not None,
        )
        fits = asked is None or asked.result is None or asked.result["fits"]
        start = partial(lab.start, plan)
        if presses.button("Run", "train-pressed", start, icon=":material/play_arrow:"):
            st.rerun()
        if asked is not None and asked.result is not None:
            st.text(("" if fits else "Careful: ") + str(asked.result["told"]))
            if asked.result["note"]:
                st.text(f"Note: {asked.result['note']}.")
            for sentence in asked.result["tokens"]:
                st.text(visible(f"Tokens: {sentence}", keep=""))
    if asked is not None and asked.result is None and not lab.is_said_of_run(asked):
        widgets.show_jobs([asked])

st.subheader("Runs")
for broken in lab.damaged():
    st.error("A run cannot be read, so it is not offered below.", icon=":material/error:")
    st.text(visible(f"{broken.name}: {broken.why}"))
runs = {run.id: run for run in lab.offered()}
if not runs:
    widgets.empty("No run yet.", "Pick rollouts and arms above and press Run.")
    st.stop()
lab.choose(runs)
chosen = st.selectbox(
    "Run",
    list(runs),
    format_func=lambda one: curves.name(runs[one]),
    label_visibility="collapsed",
    key=lab.CHOSEN,
    persist_state="session",
)
run = runs[chosen]
links.write_run(run.id)
if run.live:
    curves.follow(run.folder)
else:
    st.text(f"This run: {curves.progress(run)}.")
    curves.show(run)
    arms.offer(run)
    if run.resumable:
        st.button(
            "Resume",
            icon=":material/resume:",
            on_click=lab.resume,
            args=(run,),
            help="Goes on from the last checkpoint, as if it had never stopped.",
        )
        if run.unknown:
            st.text(f"This run was {run.unknown}.")
st.subheader("The same again")
st.code(run.plan.command, language=None, wrap_lines=True)
if not run.refused:
    st.caption("Results and checkpoints are kept in this folder; mwviz score --adapter loads one.")
    st.text(visible(str(run.folder)))
