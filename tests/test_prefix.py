from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mwviz.prefix import common_prefix, common_start

FEW = st.lists(st.integers(0, 2), max_size=6)


@given(FEW, FEW, FEW)
def test_tokens_and_items_share_as_much_as_a_slow_look_says(
    start: list[int], left: list[int], right: list[int]
) -> None:
    left, right = start + left, start + right
    expected = max(
        size for size in range(min(len(left), len(right)) + 1) if left[:size] == right[:size]
    )
    arrays = [np.array(side, np.int32) for side in (left, right)]
    assert common_prefix(*arrays) == common_start(left, right) == expected


@pytest.mark.parametrize(
    ("left", "right", "size"), [("abc", "abd", 2), ("", "a", 0), ("a", "a", 1)]
)
def test_texts_share_characters(left: str, right: str, size: int) -> None:
    assert common_start(left, right) == size
