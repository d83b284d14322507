"""Whose tokens a rollout is shown in: those that its trace gives, or those that a model reads."""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st

from mwviz.analysis import Analysis
from mwviz.rendering import NEUTRAL, RECORDED
from mwviz_app import kept, state
from mwviz_app.scored import Tokens, name_of
from mwviz_app.state import Opened

_CHOSEN = "tokens"


class _Choice(NamedTuple):
    opened: Opened
    tokens: Tokens | None


def shown(opened: Opened) -> Opened:
    """The rollout in the tokens that were chosen since a run began, else in the last run's."""
    plain = opened.plain
    offered = options(plain)
    chosen: _Choice | None = st.session_state.get(_CHOSEN)
    if chosen is not None and chosen.opened == plain and chosen.tokens in offered:
        return plain._replace(tokens=chosen.tokens)
    return plain._replace(tokens=offered[-1])


def choose(opened: Opened, key: str) -> None:
    """Shows the rollout in the tokens that the widget `key` names."""
    st.session_state[_CHOSEN] = _Choice(opened.plain, st.session_state[key])


def seek(opened: Opened, setup: str | None, told: str | None) -> bool:
    """Shows the rollout in the tokens that an address counts in; False if they are not here.

    What earlier starts of the app have kept of them is taken up.

    Args:
        opened: the rollout.
        setup: `Setup.id`, as an address names it.
        told: `Tokens.id`, as an address names it; None for what its setup has scored, else for the
            tokens of the trace.
    """
    plain = opened.plain
    if _choose_for(plain, setup, told):
        return True
    if setup or told:
        own = state.analysis(plain).digest
        state.recall(plain, told.partition("-")[2] if told else own)
        if _choose_for(plain, setup, told):
            return True
    st.session_state[_CHOSEN] = _Choice(plain, None)
    return told is None


def _choose_for(plain: Opened, setup: str | None, told: str | None) -> bool:
    for tokens in options(plain):
        if told is None:
            fits = any(one.id == setup for one in state.scored(plain._replace(tokens=tokens)))
        else:
            fits = tokens is not None and tokens.id == told
        if fits:
            st.session_state[_CHOSEN] = _Choice(plain, tokens)
            return True
    return False


def follow_runs() -> None:
    """Shows the tokens of what is run next, whatever was chosen before."""
    st.session_state.pop(_CHOSEN, None)


def options(opened: Opened) -> list[Tokens | None]:
    """What the rollout can be shown in, None for the trace's own; the last run's come last."""
    found: dict[Tokens | None, None] = {None: None}
    for tokens in _run(opened):
        if tokens is None or _kept(opened, tokens):
            found.pop(tokens, None)
            found[tokens] = None
    return list(found)


def lost(opened: Opened) -> set[str]:
    """Models whose scores are of tokens that are not kept, or of the file as it was before."""
    gone = {tokens for tokens in _run(opened) if tokens and not _kept(opened, tokens)}
    return {tokens.model for tokens in gone}


def _run(opened: Opened) -> list[Tokens | None]:
    """Of each scoring that has ended, the tokens that it is of."""
    own = state.analysis(opened.plain).digest
    keys = state.results(opened)
    return [None if key.trace == own else Tokens(key.model, key.trace) for key in keys]


def _kept(opened: Opened, tokens: Tokens) -> bool:
    return kept.is_kept(state.place(opened._replace(tokens=tokens)))


def named(tokens: Tokens | None, analysis: Analysis) -> str:
    """What a rollout can be shown in, as a choice.

    Args:
        tokens: the choice.
        analysis: the rollout in the trace's own tokens.
    """
    if tokens is not None:
        return f"as {name_of(tokens.model)} reads it"
    return "as recorded" if analysis.encoding.rendering == RECORDED else "neutral, of no model"


def told(analysis: Analysis) -> str:
    """Whose tokens an analysis is in, in a sentence."""
    encoding = analysis.encoding
    if encoding.rendering == RECORDED:
        return f"Tokens: as they were recorded ({encoding.tokenizer})."
    if encoding.rendering != NEUTRAL:
        return (
            f"Tokens: the messages as the chat template of {encoding.tokenizer} renders them, each "
            "call as it would be sent."
        )
    return (
        f"Tokens: the messages in a neutral form, cut by {encoding.tokenizer}. A model that is run "
        "reads them in its own chat template: they are then shown as it reads them."
    )
