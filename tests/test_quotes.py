from __future__ import annotations

import numpy as np

from mwviz import analyse
from mwviz.quotes import SHORTEST, quotes
from mwviz.rollout import Call, Ints, Rollout

OLD = list(range(20, 32))
"""What a tool said, twelve tokens."""


def ints(ids: list[int]) -> Ints:
    return np.array(ids, dtype=np.int32)


def told(said: list[int], kept: list[int]) -> list[tuple[int, int, int, bool]]:
    """Quotes of a rollout whose second call shows `kept` instead of `OLD`, and samples `said`."""
    contexts = (([1, 2, *OLD], [3]), ([1, 2, *kept, 4], said))
    calls = tuple(
        Call(id=str(n), prompt_ids=ints(p), completion_ids=ints(c), lineage="main")
        for n, (p, c) in enumerate(contexts)
    )
    analysis = analyse(Rollout("r", calls, semantics="re_prefill"))
    [junction] = analysis.junction_list
    found = quotes(analysis.tree, junction)
    return [(q.call, int(analysis.tree.offset[q.first]), q.tokens, q.shown) for q in found]


def test_a_long_stretch_of_what_left_is_a_quote() -> None:
    assert told([9, *OLD[2:10], 8], []) == [(1, 1, 8, False)]
    assert told([*OLD[:6], 9, *OLD[6:]], []) == [(1, 0, 6, False), (1, 7, 6, False)]


def test_short_stretches_and_reordered_text_are_no_quotes() -> None:
    assert told(OLD[: SHORTEST - 1], []) == []
    assert told(OLD[::-1], []) == []
    assert told([40, 41, 42, 43, 44, 45, 46], []) == []


def test_words_that_the_prompt_still_shows_are_said_to_be_there() -> None:
    assert told(OLD[:7], [*OLD[:3], 50, 51]) == []  # only four of them left
    contexts = (([1, 2, *OLD, 5, *OLD[:8]], [3]), ([1, 2, 5, *OLD[:8], 4], OLD[:7]))
    calls = tuple(
        Call(id=str(n), prompt_ids=ints(p), completion_ids=ints(c), lineage="main")
        for n, (p, c) in enumerate(contexts)
    )
    analysis = analyse(Rollout("r", calls, semantics="re_prefill"))
    found = quotes(analysis.tree, analysis.junction_list[0])
    assert [(q.tokens, q.shown) for q in found] == [(7, True)]
