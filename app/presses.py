"""Buttons whose press is kept until the page has acted on it, to the end.

Streamlit forgets a press when the page has to start again before it comes to the button: a popover
that closes, a key or a click elsewhere at the same moment is enough.
"""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

_KEPT = "presses"
"""Key of the session state: keys of the buttons whose press nothing was done for yet."""


def button(
    label: str,
    key: str,
    act: Callable[[], object],
    *,
    then: Callable[[], object] = lambda: None,
    icon: str | None = None,
    disabled: bool = False,
) -> bool:
    """The main button of a page or a form.

    Args:
        label: Its text.
        key: Names it in the app.
        act: Done once for every press, in the first run of the page that comes as far as this; from
            its start again in the next one if the page starts again within it. It must not have
            the page run again itself.
        then: Done when it is pressed, before the page runs.
        icon: Stands before the text.
        disabled: Whether it cannot be pressed.

    Returns:
        Whether it has just acted.
    """
    st.button(
        label,
        key=key,
        type="primary",
        icon=icon,
        disabled=disabled,
        on_click=_keep,
        args=(_waiting(), key, then),
    )
    if not waits(key):
        return False
    waiting = _waiting()
    try:
        act()
    except Exception:  # not what starts the page again
        waiting.discard(key)
        raise
    waiting.discard(key)  # behind the last step of the act: none comes between that starts it again
    return True


def waits(key: str) -> bool:
    """Whether a button was pressed and nothing was done for it yet."""
    return key in _waiting()


def any_waits() -> bool:
    """Whether a button was pressed and the page has not come to it yet."""
    return bool(_waiting())


def forget() -> None:
    """Drops what waits: who has left a page does not want its buttons to act on his return."""
    _waiting().clear()


def _keep(waiting: set[str], key: str, then: Callable[[], object]) -> None:
    """Asks nothing of the session before the press is kept: that may start the page again."""
    waiting.add(key)
    then()


def _waiting() -> set[str]:
    found: set[str] = st.session_state.setdefault(_KEPT, set())
    return found
