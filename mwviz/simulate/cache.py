"""Cache-level eviction: entries leave the cache, the rest stay as they were computed.

Works on token ids: the recorded ones if the main agent's contexts only ever grew, else those of the
flattened messages in the structure's own rendering. Calls then hold ids and no messages, since a
cut message has no text of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mwviz.analysis import Analysis
from mwviz.encoding import CallTokens
from mwviz.rendering import RECORDED
from mwviz.rollout import Call, Hint, Ints, TokenFidelity
from mwviz.simulate.clearing import Append
from mwviz.simulate.context import option
from mwviz.simulate.replay import Replayed, recorded, replay
from mwviz.simulate.transcript import flatten
from mwviz.simulate.writer import Writer
from mwviz.tokenizer import UNKNOWN, WORDS


@dataclass(frozen=True, slots=True)
class CacheWindow:
    """The first tokens and the newest ones stay in the cache."""

    sinks: int = option(4, "first tokens that always stay")
    size: int = option(1_020, "newest tokens that stay")
    every: int = option(0, "decoded tokens after which it evicts again; 0: only before each call")

    def stays(self, position: int) -> Stays:
        """Tokens that stay in front of a position."""
        sinks = min(self.sinks, position)
        return Stays(sinks, max(sinks, position - self.size), position)


class Stays(NamedTuple):
    """Tokens of a growing context that a prompt or a call shows."""

    sinks: int
    """The first so many, and then"""
    start: int
    """the tokens from here"""
    end: int
    """up to here."""

    def of(self, context: Ints) -> Ints:
        """int32: these tokens of the growing context."""
        return np.concatenate((context[: self.sinks], context[self.start : self.end]))

    def within(self, before: Stays) -> tuple[tuple[int, int], ...]:
        """Which ranges of what an earlier call shows stay, in tokens of that call."""
        found = []
        for start, end, shift in (
            (0, before.sinks, 0),
            (before.start, before.end, before.start - before.sinks),
        ):
            for first, last in ((0, self.sinks), (self.start, self.end)):
                stays = max(start, first) - shift, min(end, last) - shift
                if stays[0] < stays[1]:
                    found.append(stays)
        return tuple(found)


def replay_cache(
    analysis: Analysis, policy: CacheWindow, *, name: str, tokenizer: str | None
) -> Replayed:
    """All calls with the token ids that a policy leaves in the cache."""
    source, warnings = _growing(analysis, tokenizer)
    encoding, tree = source.encoding, source.tree
    fidelity: TokenFidelity = "recorded" if encoding.rendering == RECORDED else "rendered"
    hint = Hint("drop", f"simulated: {name}")
    calls: list[Call] = []
    before: Stays | None = None
    for index, call in enumerate(source.rollout.calls):
        named = replace(recorded(call), lineage=tree.lineages[tree.lineage[index]], tokens=fidelity)
        tokens = encoding.calls[index]
        context = tokens.context
        if tree.lineage[index] != tree.main_lineage:
            whole = Stays(0, 0, tokens.prompt_length)
            calls.append(_part(named, context, whole, None, hint))
            continue
        for part in _parts(named, tokens, policy):
            stays = policy.stays(part.start)
            calls.append(_part(part.call, context[: part.end], stays, before, hint))
            before = stays._replace(end=part.end)
    off_policy = tuple(call.id for call in calls if hint in call.hints)
    told = f"simulated: {name} changed nothing"
    if off_policy:
        told = (
            f"simulated: the completions of {len(off_policy)} of {len(calls)} calls are "
            "off-policy, recorded with more in the cache than is shown"
        )
    known = encoding.tokenizer not in (UNKNOWN, WORDS)
    return Replayed(
        tuple(calls), off_policy, (*warnings, told), encoding.tokenizer if known else None
    )


class _Part(NamedTuple):
    """What a call samples before it evicts again."""

    call: Call
    start: int
    """Tokens in front of it."""
    end: int


def _parts(call: Call, tokens: CallTokens, policy: CacheWindow) -> list[_Part]:
    """The call, cut wherever the policy evicts while it decodes."""
    start, end = tokens.prompt_length, len(tokens.context)
    starts = [start]
    if policy.every:
        starts = list(range(start, end, policy.every)) or starts
    ends = [*starts[1:], end]
    if len(starts) == 1:
        return [_Part(call, start, end)]
    return [
        _Part(replace(call, id=f"{call.id}.{part}"), *bounds)
        for part, bounds in enumerate(zip(starts, ends, strict=True))
    ]


def _part(call: Call, context: Ints, stays: Stays, before: Stays | None, hint: Hint) -> Call:
    """A call in token ids, its prompt what is left of a growing context.

    Args:
        call: what else is known of it.
        context: int32: all up to the end of what it samples.
        stays: its prompt.
        before: what the agent's call before shows; None for its first, or if it never evicts.
        hint: says that something was evicted.
    """
    evicted = stays.start > stays.sinks
    return replace(
        call,
        prompt=None,
        completion=None,
        prompt_ids=stays.of(context),
        completion_ids=context[stays.end :],
        spans=None,
        logprobs=None,
        kept=None if before is None else stays.within(before),
        content="rebuilt" if evicted and call.content == "exact" else call.content,
        hints=(hint,) if evicted else (),
    )


class _Growing(NamedTuple):
    """A rollout in which the main agent's contexts only ever grow."""

    analysis: Analysis
    warnings: tuple[str, ...]


def _growing(analysis: Analysis, tokenizer: str | None) -> _Growing:
    """The rollout itself if it is one with recorded ids, else its flattened messages."""
    tree = analysis.tree
    broken = tree.lineage[tree.junction_calls] == tree.main_lineage
    if analysis.encoding.rendering == RECORDED and not broken.any():
        return _Growing(analysis, ())
    transcript = flatten(analysis)
    flat = replay(transcript, Append(), Writer(tokenizer), name="none").calls
    rollout = replace(analysis.rollout, calls=flat, tokenizer=None)
    return _Growing(Analysis(rollout, tokenizer=tokenizer), transcript.warnings)
