"""Four short marks for a first visit, one at a time; put away for good with one click."""

from __future__ import annotations

import streamlit as st

from mwviz_app import memory

MARKS = (
    (
        "The verdict",
        "The sentence above says what this training layout does to the rollout. *Show me the worst "
        "one* jumps to the token that suffers most.",
    ),
    (
        "The layouts",
        "Every button of the bar is a way to lay the rollout out for training. The badge says "
        "whether it is exact. Try packed_mask: the drift falls to the floor.",
    ),
    (
        "The timeline",
        "Each column is the context of one call. Where it falls, text was evicted. Rust below a "
        "call: its tokens see the wrong text in training.",
    ),
    (
        "One selection",
        "Click anything: timeline, mask, text and drift move together, and below you read what the "
        "token was sampled from and what leaks into it. Press ? for the keys.",
    ),
)
_STEP = "coach"


def is_over() -> bool:
    """Whether all marks were seen or put away."""
    return int(st.session_state.get(_STEP, 0)) >= len(MARKS) or memory.coached()


def show() -> None:
    """The mark of this step, until all were seen or they were put away."""
    if is_over():
        return
    step = int(st.session_state.get(_STEP, 0))
    name, told = MARKS[step]
    with st.container(horizontal=True, vertical_alignment="center", key="coach"):
        st.markdown(f"**{step + 1} of {len(MARKS)} · {name}.** {told}")
        last = step + 1 == len(MARKS)
        st.button("Done" if last else "Next", key="coach-next", on_click=_next)
        if not last:
            st.button("Don't show again", key="coach-never", type="tertiary", on_click=_never)


def _next() -> None:
    st.session_state[_STEP] = int(st.session_state.get(_STEP, 0)) + 1
    if st.session_state[_STEP] >= len(MARKS):
        memory.set_coached()


def _never() -> None:
    st.session_state[_STEP] = len(MARKS)
    memory.set_coached()
