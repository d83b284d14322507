"""Eviction trees for front-end tests, from calls that are lists of token ids."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mwviz.compare import compare
from mwviz.engine.scores import Floor, Scores
from mwviz.junctions import find_junctions
from mwviz.pairs import Pairs, count_pairs
from mwviz.payload import Contents
from mwviz.rollout import Call, Rollout, Semantics
from mwviz.tokens import CallTokens, Encoding
from mwviz.tree import EvictionTree, build_tree
from mwviz.views import View, build_view

VIEWS = ("rightmost", "replay", "packed_mask")
CACHE_VIEWS = ("rightmost", "packed_mask", "union_mask")
"""What a rollout whose cache kept its entries is laid out as."""


class UnitCall(NamedTuple):
    """One call whose token ids name the token itself: an id that returns is the same token."""

    prompt: list[int]
    completion: list[int]
    lineage: int = 0


def unit_tree(calls: Sequence[UnitCall]) -> EvictionTree:
    """The eviction tree of recorded ids without messages."""
    rollout, encoding = unit_log(calls)
    return build_tree(encoding, rollout)


def unit_contents(
    calls: Sequence[UnitCall],
    views: Sequence[str] = VIEWS,
    *,
    semantics: Semantics = "re_prefill",
) -> Contents:
    """Everything the workbench draws of some calls, with drift that is made up."""
    rollout, encoding = unit_log(calls)
    rollout = replace(rollout, semantics=semantics)
    tree = build_tree(encoding, rollout)
    junctions = find_junctions(tree, encoding, rollout)
    laid = tuple(build_view(tree, name) for name in views)
    told = {}
    for view in laid:
        pairs = count_pairs(tree, view)
        told[view.method] = compare(
            tree,
            rollout,
            pairs=pairs,
            junctions=junctions,
            reference=_scores("logit_tree", np.full(view.targets, -2, np.float32)),
            view=_scores(view.method, _made_up(pairs, view)),
        )
    return Contents(tree, word, encoding, junctions, laid, told)


def _made_up(pairs: Pairs, view: View) -> npt.NDArray[np.float32]:
    """Log-probabilities that differ from -2 where the view's pairs differ from the truth."""
    wrong = sum(pairs.of(name) for name in ("future", "erased", "stale", "foreign", "lost"))
    wave = np.sin(np.arange(view.targets) * 0.7)
    drift = np.where(pairs.diverging, np.log1p(wrong) * wave * 0.5, 0)
    return np.where(view.multiplicity > 0, -2 + drift, np.nan).astype(np.float32)


def _scores(method: str, logprob: npt.NDArray[np.float32]) -> Scores:
    return Scores(
        method=method,
        model="made",
        kernel="none",
        dtype="float32",
        device="cpu",
        logprob=logprob,
        entropy=np.zeros_like(logprob),
        rank=np.zeros(len(logprob), dtype=np.int32),
        hidden=None,
        floor=Floor(1e-4, 1e-3, 10),
        seconds=0.0,
    )


def unit_log(calls: Sequence[UnitCall]) -> tuple[Rollout, Encoding]:
    """Recorded ids without messages, as a rollout and its encoding."""
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
    return rollout, Encoding(tokens, tokenizer="made", rendering="recorded")


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


def dropping_calls(calls: int = 30, seed: int = 5) -> list[UnitCall]:
    """An agent whose oldest results leave by and by: a cache can keep the rest in place."""
    draw = random.Random(seed)
    fresh = iter(range(10**9))
    blocks = [[next(fresh) for _ in range(60)]]
    log: list[UnitCall] = []
    for index in range(calls):
        if index % 5 == 4:
            del blocks[1:3]
        completion = [next(fresh) for _ in range(draw.randint(8, 20))]
        log.append(UnitCall([token for part in blocks for token in part], completion))
        blocks += [completion, [next(fresh) for _ in range(draw.randint(10, 40))]]
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
