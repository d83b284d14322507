from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mwviz.births import NEVER
from mwviz.tainting import Keys, tainted_in_context, tainted_key_by_key


@st.composite
def rows(draw: st.DrawFn) -> tuple[Keys, list[int], list[int]]:
    """A row that mostly shows a context in order, with atoms that are gone, moved or doubled."""
    count = draw(st.integers(1, 7))
    size = [draw(st.integers(1, 3)) for _ in range(count)]
    held = [draw(st.integers(0, 5)) > 0 for _ in range(count)]
    at, place = [], 0
    for length, true in zip(size, held, strict=True):
        at.append(place if true else -1)
        place += length * true
    order = list(range(count))
    if draw(st.integers(0, 3)) == 0:
        order = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=count))
    before = np.cumsum([0, *(size[atom] for atom in order)])[:-1]
    until = [
        draw(st.sampled_from([int(start) + size[atom] + more for more in (0, 1, 2, 4)] + [NEVER]))
        for start, atom in zip(before, order, strict=True)
    ]
    moved = [draw(st.sampled_from([0, 0, 0, 0, 1])) for _ in order]
    keys = Keys(
        before.astype(np.int64),
        np.array(until, dtype=np.int64),
        np.array(order, dtype=np.int64),
        before + np.array(moved, dtype=np.int64),
    )
    if draw(st.booleans()):
        again = (column[-1:] for column in keys._replace(until=np.array([NEVER])))
        keys = Keys(*(np.append(c, own) for c, own in zip(keys, again, strict=True)))
    return keys, at, size


@settings(max_examples=2000)
@given(row=rows())
def test_the_first_wrong_atom_taints_what_looking_key_by_key_finds(
    row: tuple[Keys, list[int], list[int]],
) -> None:
    keys, at, size = row[0], np.array(row[1], dtype=np.int64), np.array(row[2], dtype=np.int64)
    fast = tainted_in_context(keys, at, size)
    assert fast.tolist() == tainted_key_by_key(keys, at, size).tolist()


def test_a_row_that_stands_as_its_context_has_nothing_tainted_until_something_left() -> None:
    place = np.arange(4, dtype=np.int64)
    at, size = place, np.ones(4, dtype=np.int64)
    whole = Keys(place, np.full(4, NEVER), place, place)
    assert not tainted_in_context(whole, at, size).any()
    left = whole._replace(until=np.array([2, NEVER, NEVER, NEVER]))
    assert tainted_in_context(left, at, size).tolist() == [False, False, True, True]
