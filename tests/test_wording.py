from __future__ import annotations

import pytest

from mwviz.wording import counted, digits, duration, listed, percent, stored


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


def test_a_share_of_nothing_is_no_number() -> None:
    assert [percent(share) for share in (None, 0.0, 10 / 13, 1.0)] == ["-", "0 %", "77 %", "100 %"]
    assert (percent(10 / 13, 1, gap=""), percent(None, 1, gap="")) == ("76.9%", "-")


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (1e-5, "0.00001"),
        (1.26e-5, "0.000013"),
        (-4.04e-5, "-0.00004"),
        (0.0123, "0.012"),
        (1.333, "1.3"),
        (0.0, "0"),
        (2e-7, "2·10⁻⁷"),
        (-1.25e-12, "-1.2·10⁻¹²"),
        (151_904.0, "150,000"),
        (float("nan"), "nan"),
    ],
)
def test_a_number_is_told_as_people_write_it(number: float, told: str) -> None:
    assert digits(number) == told


def test_as_many_digits_count_as_are_asked_for() -> None:
    assert [digits(1.2345e-5, 3), digits(0.71234, 3), digits(12_345.6, 4)] == [
        "0.0000123",
        "0.712",
        "12,350",
    ]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.2, "about 1 s"),
        (59.0, "about 59 s"),
        (59.9, "about 60 s"),
        (520.0, "about 9 min"),
        (3600.0, "about 1 h 0 min"),
        (9000.0, "about 2 h 30 min"),
    ],
)
def test_a_time_is_told_in_the_unit_that_people_would_take(seconds: float, told: str) -> None:
    assert duration(seconds) == told


def test_names_are_listed_in_words() -> None:
    assert [listed(list(some)) for some in ("", "a", "ab", "abc")] == [
        "", "a", "a and b", "a, b and c",
    ]  # fmt: skip
    assert listed(["a", "b"], "or") == "a or b"
    assert [listed(list("abcd"), most=most) for most in (2, 4)] == [
        "a, b and 2 more", "a, b, c and d",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (1, "1 byte"),
        (949, "949 bytes"),
        (1_234, "1.23 kB"),
        (131_400_000, "131 MB"),
        (2_000_000_000, "2 GB"),
    ],
)
def test_a_size_is_told_with_three_digits(count: int, told: str) -> None:
    assert stored(count) == told
