"""Which entries a cache kept, from token ids or from the log's own word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import mwviz
from mwviz.analysis import Analysis
from mwviz.demos import DEMOS
from mwviz.entries import kept_ranges, told_ranges
from mwviz.errors import ViewError
from mwviz.rollout import Call, Ints, Rollout
from mwviz.runs import WINDOW
from mwviz.simulate import simulate
from mwviz.views.cache import cache_refusal
from tests.strategies import int_array

Ranges = list[list[int]]
BEFORE = [1, 2, 3, 9, 5, 6, 3, 7, 8, 4]


@pytest.mark.parametrize(
    ("prompt", "ranges", "doubtful"),
    [
        (BEFORE, [[0, 10]], 0),
        ([*BEFORE, 1, 2], [[0, 10]], 0),
        ([1, 2, 7, 8, 4, 11], [[0, 2], [7, 10]], 0),
        ([8, 4], [[8, 10]], 0),
        # The 3 at index 2 stands in front of what was kept and may be the one at index 6.
        ([1, 2, 3, 7, 8, 4], [[0, 3], [7, 10]], 1),
        # What follows may be the end of the context before, or new text that says the same.
        ([1, 2, 9, 6, 4, 11], [[0, 2]], 3),
        ([1, 2, 4, 11], [[0, 2], [9, 10]], 0),
        ([12, 13], [], 0),
    ],
)
def test_the_shortest_reading_counts_and_ties_are_doubtful(
    prompt: list[int], ranges: Ranges, doubtful: int
) -> None:
    found = kept_ranges(int_array(BEFORE), int_array(prompt))
    assert (found.ranges.tolist(), found.doubtful) == (ranges, doubtful)


def windows(alphabet: int, trials: int) -> Iterator[tuple[Ints, Ints, Ranges]]:
    """(context before, prompt, what was kept): its start and a window, then new text."""
    random = np.random.default_rng(alphabet)
    for _ in range(trials):
        size = int(random.integers(30, 90))
        before = random.integers(0, alphabet, size, dtype=np.int32)
        start = int(random.integers(1, 6))
        first = int(random.integers(start + 1, size - WINDOW))
        new = random.integers(0, alphabet, int(random.integers(0, 25)), dtype=np.int32)
        kept = [[0, start], [first, size]]
        yield before, np.concatenate((before[:start], before[first:], new)), kept


@pytest.mark.parametrize(("alphabet", "least"), [(8, 0.7), (40, 0.94), (1000, 0.99)])
def test_a_window_is_found_or_called_doubtful(alphabet: int, least: float) -> None:
    found = [(kept_ranges(b, p), kept) for b, p, kept in windows(alphabet, 1500)]
    sure = [one.ranges.tolist() == kept for one, kept in found if not one.doubtful]
    assert all(sure)
    assert len(sure) > least * len(found)


def test_what_the_log_says_was_kept_is_checked() -> None:
    before, prompt = int_array(BEFORE), int_array([1, 2, 3, 7, 8, 4, 1])
    told = told_ranges(((0, 2), (6, 7), (7, 10)), before, prompt)
    assert told is not None
    assert (told.ranges.tolist(), told.doubtful) == ([[0, 2], [6, 10]], 0)
    assert told_ranges((), before, prompt) is not None
    for wrong in (((0, 2), (7, 10)), ((0, 2), (6, 11)), ((6, 10), (0, 2)), ((0, 0),)):
        assert told_ranges(wrong, before, prompt) is None


def two_calls(kept: tuple[tuple[int, int], ...] | None) -> Analysis:
    def call(prompt: list[int], reply: list[int]) -> Call:
        ids = int_array(prompt), int_array(reply)
        return Call("c", prompt_ids=ids[0], completion_ids=ids[1], lineage="main")

    first, second = call(BEFORE[:8], BEFORE[8:]), call([1, 2, 3, 7, 8, 4, 1], [2, 9, 9])
    calls = (replace(first, id="0"), replace(second, id="1", kept=kept))
    return mwviz.analyse(Rollout("two", calls, semantics="kv_orig"))


def test_undecided_entries_are_refused_until_the_log_says_which_stayed() -> None:
    with pytest.raises(ViewError, match=r"call 1 do not tell.*several: 1\): record `kept`"):
        two_calls(None).view("union_mask")
    with pytest.raises(ViewError, match="call 1 does not start with what `kept` says"):
        two_calls(((0, 2), (7, 10))).view("union_mask")
    older, newer = two_calls(((0, 3), (7, 10))), two_calls(((0, 2), (6, 10)))
    for analysis, third in ((older, 2), (newer, 6)):
        context = analysis.tree.context(1)
        owners = analysis.tree.origin[context].tolist()
        assert owners[:6] == [0, 1, third, 7, 8, 9]
        assert analysis.tree.ids[context].tolist() == [1, 2, 3, 7, 8, 4, 1, 2, 9, 9]
        assert len(set(owners)) == 10
    positions = [a.view("union_mask").rows[0].visible_until[2] for a in (older, newer)]
    assert positions == [14, 9], "what left is seen by no token sampled after it left"


@pytest.mark.parametrize(
    ("demo", "size", "decided"),
    [
        *(("busy", size, False) for size in (60, 100, 150, 220, 400)),
        ("control", 100, False),
        ("control", 220, True),
        ("tidy", 150, True),
    ],
)
def test_a_simulated_window_says_what_it_kept(demo: str, size: int, *, decided: bool) -> None:
    """Without its word, ids either give the same entries or are called undecided."""
    (source,) = mwviz.load(DEMOS[0].path.with_name(f"{demo}.jsonl")).rollouts
    made = simulate(source, "streaming-llm", size=size)
    told = mwviz.analyse(made)
    assert told.view("union_mask").coverage == 1
    silent = replace(made, calls=tuple(replace(call, kept=None) for call in made.calls))
    found = mwviz.analyse(silent)
    assert (cache_refusal(found.tree) == "") == decided
    if decided:
        assert np.array_equal(found.tree.origin, told.tree.origin)
        assert np.array_equal(found.tree.ids, told.tree.ids)
