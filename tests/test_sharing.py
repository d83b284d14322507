from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mwviz import load
from mwviz.sharing import Shared, Sharing, begins
from mwviz.views import build_view

ITEMS = st.lists(st.integers(0, 3), max_size=6)
FLAT = ("rightmost", "call_by_call", "logit_tree", "branch_all")


def chat(messages: int) -> bytes:
    roles = ("user", "assistant")
    records = ({"role": roles[n % 2], "content": f"message {n}"} for n in range(messages))
    return "\n".join(json.dumps(record) for record in records).encode()


@given(st.lists(st.tuples(st.integers(0, 9), ITEMS), max_size=8))
def test_a_shared_sequence_reads_like_the_tuple_it_stands_for(
    steps: list[tuple[int, list[int]]],
) -> None:
    grown: list[Shared[int]] = [Shared()]
    plain: list[tuple[int, ...]] = [()]
    for place, items in steps:
        at = place % len(grown)
        grown.append(grown[at].extended(items))
        plain.append((*plain[at], *items))
    for shared, truth in zip(grown, plain, strict=True):
        assert shared == truth
        assert tuple(shared) == truth
        assert len(shared) == len(truth)
        assert shared[1:-1] == truth[1:-1]
        assert [shared[-1 - i] for i in range(len(truth))] == list(reversed(truth))
        assert hash(shared) == hash(truth)
        assert repr(shared) == repr(truth)
        assert begins(shared, truth[:2])
        with pytest.raises(IndexError):
            shared[len(truth)]


@given(st.lists(ITEMS, max_size=8))
def test_sequences_that_are_handed_out_stay_what_they_were(prompts: list[list[int]]) -> None:
    sharing: Sharing[int] = Sharing()
    found = [sharing("main", prompt) for prompt in prompts]
    assert found == prompts


def test_only_what_is_added_is_kept() -> None:
    sharing: Sharing[int] = Sharing()
    found = [sharing(None, range(size)) for size in range(1, 200)]
    assert all(found[0].shares(other) for other in found)
    other = sharing("another", range(5))
    assert not found[0].shares(other)
    assert not found[0].shares(sharing(None, [7, 8]))


def test_the_prompts_of_a_chat_share_all_their_messages_and_tokens() -> None:
    analysis = load(chat(400)).analyses[0]
    calls, encoded = analysis.rollout.calls, analysis.encoding.calls
    first = calls[0].prompt
    assert isinstance(first, Shared)
    assert all(first.shares(call.prompt or ()) for call in calls)
    for shared in ([c.prompt for c in encoded], [c.spans for c in encoded]):
        assert isinstance(shared[0], Shared)
        assert all(shared[0].shares(other) for other in shared)


def test_a_context_that_is_only_extended_is_one_run_of_every_row() -> None:
    tree = load(chat(400)).analyses[0].tree
    for method in FLAT:
        assert {len(row.length) for row in build_view(tree, method).rows} == {1}, method


def kept_bytes(messages: int) -> int:
    """Bytes that a chat's rollout, tokens, tree and views hold on to."""
    text = chat(messages)
    tracemalloc.start()
    analysis = load(text).analyses[0]
    rows = [build_view(analysis.tree, method) for method in FLAT]
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(rows) == len(FLAT)
    return held


def test_memory_grows_with_the_messages_not_with_their_square() -> None:
    small, large = kept_bytes(500), kept_bytes(2000)
    assert large < 5 * small
