"""A decode loop that keeps its cache at some junctions and encodes anew at others."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from transformers import DynamicCache

import mwviz
from mwviz.badge import badge
from mwviz.engine.model import Model
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz.rollout import Call, Floats, Rollout, Semantics
from tests.engine import tiny
from tests.engine.evicting import Loop, call, streaming

ROUNDING = 1e-4
"""Nats; the loop adds in another order than the packed rows."""
PROMPT, BETWEEN = 14, 6
KEPT: Semantics = "kv_orig"
ANEW: Semantics = "re_prefill"
WORDS: tuple[Semantics, ...] = (KEPT, ANEW, KEPT, KEPT, ANEW, ANEW, KEPT)
"""What is done at each junction."""


@torch.no_grad()
def decode(model: Model, words: tuple[Semantics, ...], *, units: bool) -> Rollout:
    """The call log of a loop that evicts before every word and does what it says.

    Args:
        model: decodes.
        words: of the junctions.
        units: whether no id occurs twice; else ids repeat all the time.
    """
    random = np.random.default_rng(4)
    vocabulary = model.module.config.vocab_size
    loop = Loop(model, DynamicCache(), [], [])
    free = random.permutation(vocabulary).tolist()
    first = free[:PROMPT] if units else random.integers(0, vocabulary, PROMPT).tolist()
    del free[:PROMPT]
    for token in first:
        loop.tokens.append(token)
        said = loop.feed()
    calls: list[Call] = []
    ranges: tuple[tuple[int, int], ...] | None = None
    prompt, shown = list(loop.tokens), list(range(PROMPT))
    for word in (*words, None):
        start, logprobs = len(loop.tokens), list[float]()
        for step in range(BETWEEN):
            if step:
                said = loop.feed()
            odds = said.exp()
            if units:
                odds[[token for token in range(vocabulary) if token not in free]] = 0
            drawn = int(random.choice(vocabulary, p=(odds / odds.sum()).numpy()))
            if units:
                free.remove(drawn)
            logprobs.append(float(said[drawn]))
            loop.tokens.append(drawn)
        own = call(loop, prompt, start, logprobs)
        calls.append(replace(own, id=str(len(calls)), kept=ranges, lineage="main"))
        if word is None:
            break
        calls[-1] = replace(calls[-1], semantics=words[len(calls) - 2] if calls[1:] else None)
        shown += range(start, len(loop.tokens))
        assert loop.evict(streaming)
        stays = [*loop.kept, len(loop.tokens) - 1]
        prompt = [loop.tokens[place] for place in stays]
        ranges = runs([shown.index(place) for place in stays])
        said = loop.feed() if word == KEPT else loop.refill()
        shown = stays if word == KEPT else list(range(len(prompt)))
    calls[-1] = replace(calls[-1], semantics=words[-1])
    return Rollout("mixed", tuple(calls), semantics="re_prefill")


def runs(places: list[int]) -> tuple[tuple[int, int], ...]:
    cuts = [0, *(i + 1 for i, (a, b) in enumerate(pairwise(places)) if b != a + 1), len(places)]
    return tuple((places[a], places[b - 1] + 1) for a, b in pairwise(cuts))


@pytest.mark.parametrize("units", [True, False])
def test_each_junctions_own_word_gives_back_what_the_loop_said(units: bool) -> None:
    model = tiny.model_of(tiny.llama_config(vocab_size=256 if units else 24))
    rollout = decode(model, WORDS, units=units)
    analysis = mwviz.analyse(rollout)
    tree = analysis.tree
    assert tree.semantics == "mixed"
    assert [call.semantics for call in rollout.calls[1:]] == list(WORDS)
    assert [j.call for j in analysis.junction_list] == list(range(1, len(WORDS) + 1))
    assert analysis.resolve(model, "exact") == "union_mask"
    view = analysis.view("union_mask")
    assert len(view.rows) == 1 + WORDS.count(ANEW)
    assert (view.multiplicity == 1).all()
    assert off(rollout, model, "union_mask").max() < ROUNDING
    assert not analysis.pairs("union_mask").diverging.any()
    assert not analysis.pairs("union_mask").totals["tainted"]
    assert badge(analysis, "union_mask").exact_for == ("mixed",)


@pytest.mark.parametrize("units", [True, False])
def test_every_simple_reading_of_a_mix_is_another_function(units: bool) -> None:
    model = tiny.model_of(tiny.llama_config(vocab_size=256 if units else 24))
    rollout = decode(model, WORDS, units=units)
    call_of = mwviz.analyse(rollout).tree.call
    for word, method in ((KEPT, "union_mask"), (ANEW, "logit_tree")):
        other = WORDS.index(ANEW if word == KEPT else KEPT) + 1
        alike = replace(rollout, calls=tuple(replace(c, semantics=word) for c in rollout.calls))
        wrong = off(alike, model, method)
        assert wrong[call_of < other].max() < ROUNDING
        assert wrong[call_of >= other].max() > 0.1
    # The same layout under the right words is a recompute: off where something was kept.
    anew = off(rollout, model, "logit_tree")
    judged = mwviz.analyse(rollout).pairs("logit_tree")
    assert anew.max() > 0.1
    assert set(np.flatnonzero(anew > ROUNDING)) <= set(np.flatnonzero(judged.diverging))
    assert not (set(np.flatnonzero(judged.diverging)) & set(np.flatnonzero(call_of == 0)))


def test_a_call_that_only_goes_on_fills_its_cache_anew_if_it_says_so() -> None:
    """What had left is then in no state any more: the cache before differs from a fresh one."""
    model = tiny.model_of(tiny.llama_config(vocab_size=256))
    rollout = decode(model, (KEPT,), units=True)
    first, second = rollout.calls
    assert second.prompt_ids is not None
    assert second.completion_ids is not None
    extended = np.concatenate((second.prompt_ids, second.completion_ids))
    third = replace(second, id="2", prompt_ids=extended, semantics="re_prefill", kept=None)
    third = replace(third, completion_ids=np.array([255], dtype=np.int32), logprobs=None)
    analysis = mwviz.analyse(replace(rollout, calls=(first, second, third)))
    assert analysis.tree.semantics == "mixed"
    assert analysis.tree.cache.tolist() == [0, 0, 1]
    rows = analysis.view("union_mask").rows
    assert rows[1].positions.tolist() == list(range(len(extended) + 1))
    silent = replace(third, semantics=None)
    analysis = mwviz.analyse(replace(rollout, calls=(first, second, silent)))
    assert analysis.tree.cache.tolist() == [0, 0, 0]


def off(rollout: Rollout, model: Model, method: str) -> Floats:
    """Nats between what a method gives each sampled token and what the loop did."""
    analysis = mwviz.analyse(rollout)
    found = finish(score(analysis.tree, analysis.view(method), model)).logprob
    assert len(found) == len(analysis.tree.logprob)
    apart: Floats = np.abs(found - analysis.tree.logprob)
    return apart
