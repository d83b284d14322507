"""Results that all sessions share, found again by Python's own hash of what they were made of.

Streamlit's cache reads every part of a key on each look, a tenth of a millisecond or more; a page
looks dozens of times. What is kept here goes with `st.cache_resource.clear`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import streamlit as st

P = ParamSpec("P")
T = TypeVar("T")
_MISSING = object()
_saying: ContextVar[bool] = ContextVar("saying", default=False)
"""Whether a spinner is shown: what is made within says nothing more."""


class _Held:
    """What one function has made, the latest used last."""

    def __init__(self) -> None:
        self.found: OrderedDict[Hashable, Any] = OrderedDict()
        self.making: dict[Hashable, tuple[threading.RLock, int]] = {}
        """The lock of each result that is being made, and how many hold it or wait for it."""
        self.lock = threading.Lock()

    def get(self, key: Hashable, default: object) -> Any:
        with self.lock:
            if key in self.found:
                self.found.move_to_end(key)
            return self.found.get(key, default)

    @contextmanager
    def turn(self, key: Hashable) -> Iterator[None]:
        """One at a time for each key: who is within makes what is missing."""
        with self.lock:
            mine, users = self.making.get(key, (threading.RLock(), 0))
            self.making[key] = mine, users + 1
        try:
            with mine:
                yield
        finally:
            with self.lock:
                _, users = self.making.pop(key)
                if users > 1:
                    self.making[key] = mine, users - 1

    def put(self, key: Hashable, value: object, most: int) -> None:
        with self.lock:
            self.found[key] = value
            while len(self.found) > most:
                self.found.popitem(last=False)


@contextmanager
def _said(saying: str) -> Iterator[None]:
    """Shows `saying` meanwhile, unless it is empty or a spinner is shown already."""
    if not saying or _saying.get():
        yield
        return
    before = _saying.set(True)
    try:
        with st.spinner(saying):
            yield
    finally:
        _saying.reset(before)


@st.cache_resource(show_spinner=False)
def _all() -> dict[str, _Held]:
    return {}


def shared(most: int, saying: str = "") -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Has a function of hashable arguments run once for each; errors are not kept.

    Args:
        most: results kept, those used last.
        saying: shown while the function runs, if no other does so; nothing if empty.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        name = _name(function)

        @wraps(function)
        def look(*args: P.args, **named: P.kwargs) -> T:
            held = _all().setdefault(name, _Held())
            key = _key(args, named)
            found = held.get(key, _MISSING)
            if found is not _MISSING:
                return cast(T, found)
            with held.turn(key):
                found = held.get(key, _MISSING)
                if found is _MISSING:
                    with _said(saying):
                        found = function(*args, **named)
                        held.put(key, found, most)  # the end of a spinner may stop the run
            return cast(T, found)

        return look

    return decorate


def made(function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T | None:
    """What a shared function has made of these arguments; None if it has not: it does not run."""
    held = _all().get(_name(function))
    found = _MISSING if held is None else held.get(_key(args, named), _MISSING)
    return None if found is _MISSING else cast(T, found)


def _name(function: Callable[..., object]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _key(args: tuple[Any, ...], named: dict[str, Any]) -> Hashable:
    return args, tuple(sorted(named.items()))
