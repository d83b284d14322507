"""Eviction trees for front-end tests, built token by token from calls of a unit log."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mwviz.tree import EvictionTree


class UnitCall(NamedTuple):
    """One call whose token ids name the token itself: an id that returns is the same token."""

    prompt: list[int]
    completion: list[int]
    lineage: int = 0


def unit_tree(calls: Sequence[UnitCall]) -> EvictionTree:
    """The eviction tree of a unit log, by brute force over whole prefixes."""
    users: dict[tuple[int, ...], list[int]] = {}
    for index, call in enumerate(calls):
        context = tuple(call.prompt + call.completion)
        for end in range(1, len(context) + 1):
            users.setdefault(context[:end], []).append(index)
    order = _depth_first(users)
    node = {prefix: i for i, prefix in enumerate(order)}
    heads = [i for i, prefix in enumerate(order) if _starts_segment(prefix, order, i, users)]
    segment = {order[head]: s for s, head in enumerate(heads)}
    born: dict[int, int] = {}
    for i in sorted(range(len(order)), key=lambda i: (users[order[i]][0], len(order[i]))):
        born.setdefault(order[i][-1], i)
    targets = [
        (node[tuple((call.prompt + call.completion)[: len(call.prompt) + k + 1])], index, k)
        for index, call in enumerate(calls)
        for k in range(len(call.completion))
    ]
    above = [_node_above(order[t], node) for t, _, _ in targets]
    return EvictionTree(
        ids=np.array([prefix[-1] for prefix in order], dtype=np.int32),
        origin=_longs([born[prefix[-1]] for prefix in order]),
        start=_longs(heads),
        parent=_longs([_segment_above(order[head], segment) for head in heads]),
        depth=_longs([len(order[head]) - 1 for head in heads]),
        exit=_longs([_exit(head, order) for head in heads]),
        first_call=_longs([users[order[head]][0] for head in heads]),
        prompt_length=_longs([len(call.prompt) for call in calls]),
        tip=_longs([_node_of(call, node) for call in calls]),
        lineage=_longs([call.lineage for call in calls]),
        lineages=tuple(f"agent-{i}" for i in range(1 + max((c.lineage for c in calls), default=0))),
        query=_longs(above),
        token=_longs([t for t, _, _ in targets]),
        call=_longs([c for _, c, _ in targets]),
        offset=_longs([k for _, _, k in targets]),
        logprob=np.full(len(targets), np.nan, dtype=np.float32),
    )


def demo_calls(
    calls: int = 60, *, scale: int = 5, every: int = 9, seed: int = 7, helper: bool = False
) -> list[UnitCall]:
    """A search agent: results pile up, then a summary replaces all but the last two blocks."""
    draw = random.Random(seed)
    fresh = iter(range(10**9))

    def block(low: int, high: int) -> list[int]:
        return [next(fresh) for _ in range(draw.randint(low * scale // 10, high * scale // 10))]

    blocks = [block(90, 110), block(10, 20)]
    log: list[UnitCall] = []
    for index in range(calls):
        if index and index % every == 0:
            blocks = [*blocks[:2], block(20, 30), *blocks[-2:]]
        elif index % 7 == 5 and len(blocks) > 5:
            blocks = [*blocks[:3], block(1, 1), *blocks[4:]]
        completion = block(6, 14)
        log.append(UnitCall([token for part in blocks for token in part], completion))
        blocks += [completion, block(15, 50)]
        if helper and index % 15 == 10:
            log.extend(_helper_calls(block))
    return log


def _helper_calls(block: object) -> list[UnitCall]:
    assert callable(block)
    prompt = block(30, 40)
    log: list[UnitCall] = []
    for _ in range(4):
        log.append(UnitCall(list(prompt), block(5, 9), 1))
        prompt = [*prompt, *log[-1].completion, *block(8, 12)]
    return log


def word(token: int) -> bytes:
    """Text of a unit token: short words, some wide, some that only a careless page would obey."""
    words = ("search", " the", " result", " page", "\n", " 検索", " é", "\u202e", "<b>", " 42")
    return words[token % len(words)].encode()


def _depth_first(users: dict[tuple[int, ...], list[int]]) -> list[tuple[int, ...]]:
    children: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for prefix in users:
        children.setdefault(prefix[:-1], []).append(prefix)
    order: list[tuple[int, ...]] = []
    waiting = children.get((), [])[::-1]
    while waiting:
        prefix = waiting.pop()
        order.append(prefix)
        waiting.extend(children.get(prefix, [])[::-1])
    return order


def _starts_segment(
    prefix: tuple[int, ...],
    order: list[tuple[int, ...]],
    index: int,
    users: dict[tuple[int, ...], list[int]],
) -> bool:
    return index == 0 or order[index - 1] != prefix[:-1] or users[prefix] != users[prefix[:-1]]


def _segment_above(prefix: tuple[int, ...], segment: dict[tuple[int, ...], int]) -> int:
    for end in range(len(prefix) - 1, 0, -1):
        if prefix[:end] in segment:
            return segment[prefix[:end]]
    return -1


def _node_above(prefix: tuple[int, ...], node: dict[tuple[int, ...], int]) -> int:
    return node[prefix[:-1]] if len(prefix) > 1 else -1


def _node_of(call: UnitCall, node: dict[tuple[int, ...], int]) -> int:
    context = tuple(call.prompt + call.completion)
    return node[context] if context else -1


def _exit(head: int, order: list[tuple[int, ...]]) -> int:
    depth = len(order[head])
    end = head + 1
    while end < len(order) and order[end][:depth] == order[head]:
        end += 1
    return end


def _longs(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)
