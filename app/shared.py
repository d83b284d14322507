"""Results that all sessions share, found again by Python's own hash of what they were made of.

Streamlit's cache reads every part of a key on each look, a tenth of a millisecond or more; a page
looks dozens of times. What is kept here goes with `st.cache_resource.clear`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import streamlit as st

P = ParamSpec("P")
T = TypeVar("T")
_MISSING = object()


class _Held:
    """What one function has made, the latest used last."""

    def __init__(self) -> None:
        self.found: OrderedDict[Hashable, Any] = OrderedDict()
        self.making: dict[Hashable, threading.RLock] = {}
        self.lock = threading.Lock()

    def get(self, key: Hashable, default: object) -> Any:
        with self.lock:
            if key in self.found:
                self.found.move_to_end(key)
            return self.found.get(key, default)

    def maker(self, key: Hashable) -> threading.RLock:
        """Only who holds it makes what is missing."""
        with self.lock:
            return self.making.setdefault(key, threading.RLock())

    def put(self, key: Hashable, value: object, most: int) -> None:
        with self.lock:
            self.found[key] = value
            self.making.pop(key, None)
            while len(self.found) > most:
                self.found.popitem(last=False)


@st.cache_resource(show_spinner=False)
def _all() -> dict[str, _Held]:
    return {}


def shared(most: int, saying: str = "") -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Has a function of hashable arguments run once for each; errors are not kept.

    Args:
        most: results kept, those used last.
        saying: shown while the function runs; nothing if empty.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        name = f"{function.__module__}.{function.__qualname__}"

        @wraps(function)
        def look(*args: P.args, **named: P.kwargs) -> T:
            held = _all().setdefault(name, _Held())
            key = (args, tuple(sorted(named.items())))
            found = held.get(key, _MISSING)
            if found is not _MISSING:
                return cast(T, found)
            with held.maker(key):
                found = held.get(key, _MISSING)
                if found is _MISSING:
                    with st.spinner(saying) if saying else nullcontext():
                        found = function(*args, **named)
                    held.put(key, found, most)
            return cast(T, found)

        return look

    return decorate
