"""Reported numbers against rebuilt contexts, worked out by hand on chats of known sizes."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from mwviz.analysis import Analysis
from mwviz.evidence import doubts, told
from mwviz.retokenised import Retokenised, retokenised
from mwviz.rollout import Call, Message, Part, Rollout, Usage
from mwviz.summary import summarise, warnings
from mwviz.tokenizer import WordTokenizer
from mwviz.tokens import CallTokens, Encoding, tokenizer_for
from mwviz.trace import load
from tests.formats.test_samples import sample

HIDDEN, RATE = 5_000, 2
"""Tokens of a made provider: so many not in the log, so many for each of ours."""


def words(number: int, role: str) -> Message:
    return Message(role, (Part("text", " word" * number),))


def chat(*extra: int, cached: tuple[int | None, ...] = ()) -> Analysis:
    """Four turns of growing prompts; the provider counts `RATE * ours + HIDDEN + extra`."""
    before: tuple[Message, ...] = ()
    calls = []
    for at in range(len(extra)):
        before = (*before, words(400 * (at + 1), "user"))
        calls.append(Call(str(at), prompt=before, completion=(words(50, "assistant"),)))
        before = (*before, words(50, "assistant"))
    sizes = Analysis(Rollout("r", tuple(calls)), tokenizer="words/1").tree.prompt_length
    used = [RATE * int(size) + HIDDEN + more for size, more in zip(sizes, extra, strict=True)]
    kept = (*cached, *[None] * (len(calls) - len(cached)))
    with_usage = (
        Call(
            c.id,
            prompt=c.prompt,
            completion=c.completion,
            usage=Usage(total, 50, None if hit is None else min(hit, total)),
        )
        for c, total, hit in zip(calls, used, kept, strict=True)
    )
    return Analysis(Rollout("r", tuple(with_usage)), tokenizer="words/1")


def test_a_straight_line_gives_rate_and_hidden_text() -> None:
    usage = chat(0, 0, 0, 0).evidence.usage
    assert usage is not None
    assert (usage.slope, usage.offset, usage.error, usage.off) == (RATE, HIDDEN, 0, ())
    assert usage.calls == 4


def test_a_call_off_the_line_is_named() -> None:
    analysis = chat(0, 0, 0, 9_000, 0, 0, 0, 0)
    usage = analysis.evidence.usage
    assert usage is not None
    assert [off.call for off in usage.off] == [3]
    (text,) = doubts(analysis.evidence)
    assert text.startswith("call 3: the provider counted")
    assert text in warnings(analysis)


def test_counts_of_too_few_or_equal_sizes_give_no_line() -> None:
    assert chat(0, 0).evidence.usage is None
    bare = Analysis(Rollout("r", chat(0, 0, 0).rollout.calls[:0]))
    assert bare.evidence.usage is None


def test_the_cache_cannot_hold_more_than_was_sent_before() -> None:
    fine = chat(0, 0, 0, 0, cached=(None, 5_000, 7_000, 9_000)).evidence.cache
    assert fine is not None
    assert (fine.calls, fine.broken) == (3, ())


def test_a_cache_that_holds_what_was_rebuilt_as_changed_is_a_doubt() -> None:
    sizes = (3_000, 3_500, 4_000)
    calls = [
        Call(str(at), prompt=(words(size, "user"),), completion=(words(5, "assistant"),))
        for at, size in enumerate(sizes)
    ]
    before = (*(calls[-1].prompt or ()), words(5, "assistant"))
    calls += [
        Call(f"more-{at}", prompt=(*before, *[words(500, "user")] * at), completion=())
        for at in (1, 2, 3)
    ]
    shown = Analysis(Rollout("r", tuple(calls)), tokenizer="words/1").tree.prompt_length
    told_by = tuple(
        Call(
            c.id,
            prompt=c.prompt,
            completion=c.completion,
            lineage="main",
            usage=Usage(int(size), 5, int(size) - 100 if c.id == "2" else None),
        )
        for c, size in zip(calls, shown, strict=True)
    )
    changed = tuple(
        Call(
            c.id,
            prompt=c.prompt
            if c.id != "2"
            else (Message("user", (Part("text", "other" + " word" * 4_000),)),),
            completion=c.completion,
            lineage="main",
            usage=c.usage,
        )
        for c in told_by
    )
    assert not Analysis(Rollout("r", told_by), tokenizer="words/1").evidence.cache.broken  # type: ignore[union-attr]
    cache = Analysis(Rollout("r", changed), tokenizer="words/1").evidence.cache
    assert cache is not None
    assert [off.call for off in cache.broken] == [2]


def encoding(completions: list[list[int]], prompts: list[list[int]]) -> Encoding:
    calls = tuple(
        CallTokens((np.array(prompt, np.int32),), np.array(ids, np.int32), ())
        for prompt, ids in zip(prompts, completions, strict=True)
    )
    return Encoding(calls, "t", "recorded")


def test_ids_that_their_own_text_does_not_give_are_counted() -> None:
    tokenizer = WordTokenizer(("he", "llo", "hello", " you"))
    made = encoding([[0, 1], [2, 3], []], [[2], [0, 1, 3], [2, 3]])
    assert retokenised(made, tokenizer) == Retokenised(2, 1, 3, 1)
    assert retokenised(made, None) is None


@pytest.mark.embedded
def test_untuned_completions_of_the_recorded_rollouts_are_often_not_canonical() -> None:
    if tokenizer_for("SmolLM2-135M-Instruct") is None:
        pytest.skip("the embedded model is not set up: mwviz doctor --install-model")
    found = {
        a.rollout.id: a.evidence.retokenised for a in load(sample("smollm2/calls.jsonl")).analyses
    }
    untuned = [one for name, one in found.items() if one and not name.startswith("sft-")]
    total = sum(one.completions for one in untuned)
    assert (total, sum(one.changed_completions for one in untuned)) == (76, 28)
    assert sum(one.changed_prompts or 0 for one in untuned) == 37


@pytest.mark.parametrize(
    ("name", "calls", "error"),
    [
        ("claude_code/compact-13-calls.jsonl", 12, 0.002),
        ("claude_code/parallel-tools-compact.jsonl", 20, 0.003),
        ("claude_code/micro-compact.jsonl", 57, 0.006),
        ("claude_code/silent-micro-compact.jsonl", 54, 0.008),
        ("claude_code/two-compactions.jsonl", 169, 0.01),
        ("codex/remote-compaction.jsonl", 280, 0.01),
        ("pi/two-compactions.jsonl", 471, 0.02),
    ],
)
def test_rebuilt_sizes_of_real_traces_follow_the_reported_ones(
    name: str, calls: int, error: float
) -> None:
    """Errors are shares of the median prompt, about twice what was measured."""
    (analysis,) = load(sample(name)).analyses
    usage, cache = analysis.evidence.usage, analysis.evidence.cache
    assert usage is not None
    assert cache is not None
    assert usage.calls == calls
    assert usage.share < error
    assert 0.3 < usage.slope < 3
    assert len(cache.broken) <= 0.02 * cache.calls


def test_inspect_tells_the_evidence_in_lines() -> None:
    analysis = chat(0, 0, 0, 0, cached=(None, 5_000, 7_000, 9_000))
    lines = list(told(asdict(analysis.evidence)))
    assert lines[0].startswith("reported tokens: 2.000 for each rebuilt one + 5,000 not in the log")
    assert lines[1] == "cached tokens: bound kept in 3 of 3 calls"
    assert list(told({"usage": None, "cache": None, "retokenised": None})) == []
    assert "evidence" in summarise(load(b'{"prompt_ids":[1],"completion_ids":[2]}'))["rollouts"][0]
