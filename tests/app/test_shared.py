"""Results that all sessions share: made once, the oldest used forgotten, errors tried again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
import streamlit as st

from mwviz_app.shared import _Held, made, shared


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    st.cache_resource.clear()
    yield
    st.cache_resource.clear()


def test_a_result_is_made_once_and_the_one_used_longest_ago_is_forgotten() -> None:
    asked: list[int] = []

    @shared(2)
    def one(number: int) -> list[int]:
        asked.append(number)
        return [number]

    assert one(1) is one(1)
    one(2)
    one(1)
    one(3)
    assert asked == [1, 2, 3]
    one(1)
    one(2)
    assert asked == [1, 2, 3, 2]


def test_what_was_made_is_known_without_making_it() -> None:
    asked: list[int] = []

    @shared(2)
    def double(number: int) -> int:
        asked.append(number)
        return 2 * number

    assert made(double, 3) is None
    assert asked == []
    assert double(3) == made(double, 3) == 6
    assert asked == [3]


def test_streamlits_own_clearing_forgets_and_an_error_is_not_kept() -> None:
    asked: list[str] = []

    @shared(2)
    def one(name: str) -> str:
        asked.append(name)
        if len(asked) == 1:
            raise ValueError(name)
        return name

    with pytest.raises(ValueError, match="a"):
        one("a")
    assert one("a") == one("a") == "a"
    st.cache_resource.clear()
    one("a")
    assert asked == ["a", "a", "a"]


def test_sessions_that_ask_at_once_get_one_result_and_do_not_wait_for_others() -> None:
    asked: list[int] = []
    go = threading.Event()

    @shared(4)
    def one(number: int) -> list[int]:
        asked.append(number)
        if number == 1:
            go.wait(30)
        return [number]

    found: list[list[int]] = []
    asking = [threading.Thread(target=lambda: found.append(one(1))) for _ in range(3)]
    for thread in asking:
        thread.start()
    while not asked:
        time.sleep(0.01)
    assert one(2) == [2]
    go.set()
    for thread in asking:
        thread.join()
    assert asked == [1, 2]
    assert all(each is found[0] for each in found)


class StoppedError(Exception):
    """What Streamlit raises in a run that a click has overtaken."""


def test_a_run_that_stops_at_the_end_of_its_spinner_leaves_the_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextmanager
    def stopping(_: str) -> Iterator[None]:
        try:
            yield
        finally:
            raise StoppedError

    monkeypatch.setattr(st, "spinner", stopping)
    asked: list[int] = []

    @shared(2, "Reading")
    def one(number: int) -> int:
        asked.append(number)
        return number

    with pytest.raises(StoppedError):
        one(1)
    assert one(1) == 1
    assert asked == [1]


def test_what_is_made_within_says_nothing_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    @contextmanager
    def noted(text: str) -> Iterator[None]:
        said.append(text)
        yield

    monkeypatch.setattr(st, "spinner", noted)

    @shared(2, "Reading")
    def inner(number: int) -> int:
        return number

    @shared(2, "Rebuilding")
    def outer(number: int) -> int:
        return inner(number) + 1

    assert (outer(1), inner(2)) == (2, 2)
    assert said == ["Rebuilding", "Reading"]


def test_errors_leave_nothing_behind_and_who_waits_still_makes_it_alone() -> None:
    held = _Held()
    within: list[int] = []
    first, both = threading.Event(), threading.Barrier(3)

    def fail() -> None:
        with suppress(ValueError), held.turn("key"):
            first.set()
            both.wait(30)
            while held.making["key"][1] < 3:
                time.sleep(0.01)
            raise ValueError("gone")

    def wait() -> None:
        first.wait(30)
        both.wait(30)
        with held.turn("key"):
            within.append(1)
            time.sleep(0.05)
            within.append(-1)

    asking = [threading.Thread(target=each) for each in (fail, wait, wait)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert within == [1, -1, 1, -1]
    assert held.making == {}
