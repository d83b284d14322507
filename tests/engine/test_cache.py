"""A decode loop that really evicts cache entries, against one packed row that never does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import DynamicCache

import mwviz
from mwviz.engine.model import Model
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz.rollout import Call, Rollout
from mwviz.views import build_view
from tests.engine import tiny
from tests.engine.evicting import Loop, call, streaming

ROUNDING = 1e-4
"""Nats; the loop adds in another order than the packed row."""
VOCABULARY = 256
PROMPT, DECODED = 14, 40


@torch.no_grad()
def decode(model: Model, every: int) -> Rollout:
    """The call log of a decode loop that evicts before every `every`-th token that it reads."""
    random = np.random.default_rng(6)
    loop = Loop(model, DynamicCache(), [], [])
    for token in random.permutation(VOCABULARY)[:PROMPT].tolist():
        loop.tokens.append(token)
        said = loop.feed()
    calls: list[Call] = []
    prompt, start, logprobs = list(loop.tokens), PROMPT, list[float]()
    for step in range(DECODED):
        if step and step % every == 0:
            calls.append(call(loop, prompt, start, logprobs))
            loop.evict(streaming)
            prompt = [loop.tokens[place] for place in [*loop.kept, len(loop.tokens) - 1]]
            start, logprobs = len(loop.tokens), []
        if step:
            said = loop.feed()
        # No id twice, so that every token of the log is one unit.
        free = said.exp()
        free[loop.tokens] = 0
        drawn = int(random.choice(VOCABULARY, p=(free / free.sum()).numpy()))
        logprobs.append(float(said[drawn]))
        loop.tokens.append(drawn)
    calls.append(call(loop, prompt, start, logprobs))
    return Rollout("evicting", tuple(calls), semantics="kv_orig")


@pytest.mark.parametrize("every", [1, 4, 7])
def test_union_mask_gives_back_what_an_evicting_loop_said(every: int) -> None:
    model = tiny.model_of(tiny.llama_config(vocab_size=VOCABULARY))
    analysis = mwviz.analyse(decode(model, every))
    tree = analysis.tree
    assert len(analysis.junction_list) == (DECODED - 1) // every
    assert analysis.resolve(model, "exact") == "union_mask"
    found = finish(score(tree, analysis.view("union_mask"), model)).logprob
    assert len(found) == DECODED
    assert np.abs(found - tree.logprob).max() < ROUNDING
    assert not analysis.pairs("union_mask").diverging.any()
    assert analysis.view("union_mask").rows[0].size == PROMPT + DECODED


@torch.no_grad()
def converse(model: Model, rounds: int) -> Rollout:
    """Two agents in turns, each with a cache of its own, each reading what the other wrote."""
    random = np.random.default_rng(8)
    free = random.permutation(VOCABULARY).tolist()

    def fresh(count: int) -> list[int]:
        return [free.pop() for _ in range(count)]

    system, calls = fresh(4), list[Call]()
    loops = {name: Loop(model, DynamicCache(), [], []) for name in ("main", "helper")}
    news = {"main": [*system, *fresh(6)], "helper": [*system, *fresh(9)]}
    for turn in range(2 * rounds):
        name, other = ("main", "helper") if turn % 2 == 0 else ("helper", "main")
        loop = loops[name]
        loop.evict(streaming)
        prompt = [loop.tokens[place] for place in loop.kept] + loop.tokens[-1:] + news[name]
        if loop.tokens:
            said = loop.feed()
        for token in news[name]:
            loop.tokens.append(token)
            said = loop.feed()
        start, logprobs = len(loop.tokens), list[float]()
        for step in range(5):
            if step:
                said = loop.feed()
            odds = said.exp()
            odds[[token for token in range(VOCABULARY) if token not in free]] = 0
            drawn = int(random.choice(VOCABULARY, p=(odds / odds.sum()).numpy()))
            free.remove(drawn)
            logprobs.append(float(said[drawn]))
            loop.tokens.append(drawn)
        calls.append(replace(call(loop, prompt, start, logprobs), id=str(turn), lineage=name))
        news[name], news[other] = fresh(1), news[other] + loop.tokens[start : start + 3]
    return Rollout("two agents", tuple(calls), semantics="kv_orig")


def test_each_agents_row_gives_back_what_its_own_evicting_loop_said() -> None:
    model = tiny.model_of(tiny.llama_config(vocab_size=VOCABULARY))
    analysis = mwviz.analyse(converse(model, 4))
    tree, view = analysis.tree, analysis.view("union_mask")
    assert len(analysis.junction_list) == 6
    assert len(view.rows) == 2
    assert (view.multiplicity == 1).all()
    found = finish(score(tree, view, model)).logprob
    assert np.abs(found - tree.logprob).max() < ROUNDING
    assert not analysis.pairs("union_mask").diverging.any()
    assert not analysis.pairs("union_mask").totals["tainted"]
    anew = finish(score(tree, analysis.view("logit_tree"), model)).logprob
    off = np.abs(anew - tree.logprob)
    assert off.max() > 0.1
    judged = analysis.pairs("logit_tree")
    assert set(np.flatnonzero(off > ROUNDING)) <= set(np.flatnonzero(judged.diverging))
    # A row in the order in which both agents wrote shows each text that it never saw.
    assert analysis.pairs("replay").totals["foreign"] > 0
    assert analysis.pairs("replay").totals["tainted"] > 0


def test_encoding_the_kept_text_anew_is_another_function() -> None:
    model = tiny.model_of(tiny.llama_config(vocab_size=VOCABULARY))
    analysis = mwviz.analyse(decode(model, 4))
    tree = analysis.tree
    for method in ("logit_tree", "packed_mask"):
        found = finish(score(tree, analysis.view(method), model)).logprob
        off = np.abs(found - tree.logprob)
        assert off[tree.call == 0].max() < ROUNDING
        assert off[tree.call > 0].max() > 0.1
        assert set(np.flatnonzero(off > ROUNDING)) <= set(
            np.flatnonzero(analysis.pairs(method).diverging)
        )


def test_nothing_evicted_is_every_view_at_once() -> None:
    model = tiny.model_of(tiny.llama_config(vocab_size=VOCABULARY))
    rollout = decode(model, DECODED + 1)
    analysis = mwviz.analyse(replace(rollout, semantics="re_prefill"))
    for method in ("union_mask", "logit_tree", "replay"):
        found = finish(score(analysis.tree, build_view(analysis.tree, method), model)).logprob
        assert np.abs(found - analysis.tree.logprob).max() < ROUNDING
