"""Results that all sessions share: made once, the oldest used forgotten, errors tried again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import streamlit as st

from mwviz_app.shared import shared


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    st.cache_resource.clear()
    yield
    st.cache_resource.clear()


def test_a_result_is_made_once_and_the_one_used_longest_ago_is_forgotten() -> None:
    made: list[int] = []

    @shared(2)
    def one(number: int) -> list[int]:
        made.append(number)
        return [number]

    assert one(1) is one(1)
    one(2)
    one(1)
    one(3)
    assert made == [1, 2, 3]
    one(1)
    one(2)
    assert made == [1, 2, 3, 2]


def test_streamlits_own_clearing_forgets_and_an_error_is_not_kept() -> None:
    made: list[str] = []

    @shared(2)
    def one(name: str) -> str:
        made.append(name)
        if len(made) == 1:
            raise ValueError(name)
        return name

    with pytest.raises(ValueError, match="a"):
        one("a")
    assert one("a") == one("a") == "a"
    st.cache_resource.clear()
    one("a")
    assert made == ["a", "a", "a"]


def test_sessions_that_ask_at_once_get_one_result_and_do_not_wait_for_others() -> None:
    made: list[int] = []
    go = threading.Event()

    @shared(4)
    def one(number: int) -> list[int]:
        made.append(number)
        if number == 1:
            go.wait(30)
        return [number]

    found: list[list[int]] = []
    asking = [threading.Thread(target=lambda: found.append(one(1))) for _ in range(3)]
    for thread in asking:
        thread.start()
    while not made:
        time.sleep(0.01)
    assert one(2) == [2]
    go.set()
    for thread in asking:
        thread.join()
    assert made == [1, 2]
    assert all(each is found[0] for each in found)
