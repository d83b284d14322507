from __future__ import annotations

import pytest

from mwviz.wording import counted


@pytest.mark.parametrize(
    ("number", "told"),
    [(0, "0 branches"), (1, "1 branch"), (2, "2 branches"), (1234, "1,234 branches")],
)
def test_a_noun_is_in_the_singular_only_for_one(number: int, told: str) -> None:
    assert counted(number, "branch", "branches") == told


def test_a_plural_ends_in_s_where_none_is_given() -> None:
    assert (counted(1, "sampled token"), counted(3, "sampled token")) == (
        "1 sampled token",
        "3 sampled tokens",
    )
