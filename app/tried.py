"""What a button does before the page runs: why it failed is kept until the page says it.

Streamlit calls it outside the page, where an error would be shown as a traceback.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import streamlit as st

from mwviz.errors import MwvizError

P = ParamSpec("P")
_FAILURE = "act-failed"
"""Key of the session state."""


def tried(act: Callable[P, object]) -> Callable[P, None]:
    """The act, whose refusal the next page says in words instead of raising it."""

    @wraps(act)
    def run(*args: P.args, **named: P.kwargs) -> None:
        try:
            act(*args, **named)
        except MwvizError as error:
            st.session_state[_FAILURE] = str(error)

    return run


def failure() -> MwvizError | None:
    """Why the last act failed, once; None if it did not."""
    found: str | None = st.session_state.pop(_FAILURE, None)
    return None if found is None else MwvizError(found)
