"""Eviction trees for front-end tests, from calls that are lists of token ids."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mwviz.rollout import Call, Rollout
from mwviz.tokens import CallTokens, Encoding
from mwviz.tree import EvictionTree, build_tree


class UnitCall(NamedTuple):
    """One call whose token ids name the token itself: an id that returns is the same token."""

    prompt: list[int]
    completion: list[int]
    lineage: int = 0


def unit_tree(calls: Sequence[UnitCall]) -> EvictionTree:
    """The eviction tree of recorded ids without messages."""
    tokens = tuple(
        CallTokens((np.array(call.prompt, np.int32),), np.array(call.completion, np.int32), ())
        for call in calls
    )
    rollout = Rollout(
        "made",
        tuple(
            Call(
                id=str(index),
                prompt_ids=told.prompt[0],
                completion_ids=told.completion,
                lineage=f"agent-{call.lineage}",
            )
            for index, (call, told) in enumerate(zip(calls, tokens, strict=True))
        ),
    )
    return build_tree(Encoding(tokens, tokenizer="made", rendering="recorded"), rollout)


def demo_calls(
    calls: int = 60, *, scale: int = 40, every: int = 9, seed: int = 7, helper: bool = False
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


def _helper_calls(block: Callable[[int, int], list[int]]) -> list[UnitCall]:
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
