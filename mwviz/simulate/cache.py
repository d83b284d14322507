"""Cache-level eviction: entries leave the cache, the rest stay as they were computed.

Works on token ids: the recorded ones if the main agent's contexts only ever grew, else those of the
flattened messages in the structure's own rendering. Calls then hold ids and no messages, since a
cut message has no text of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mwviz.analysis import Analysis
from mwviz.rendering import RECORDED
from mwviz.rollout import Call, Hint, TokenFidelity
from mwviz.simulate.clearing import Append
from mwviz.simulate.context import option
from mwviz.simulate.replay import Replayed, recorded, replay
from mwviz.simulate.transcript import flatten
from mwviz.simulate.writer import Writer
from mwviz.tokenizer import UNKNOWN, WORDS
from mwviz.tokens import CallTokens


@dataclass(frozen=True, slots=True)
class CacheWindow:
    """The first tokens and the newest ones stay in the cache."""

    sinks: int = option(4, "first tokens that always stay")
    size: int = option(1_020, "newest tokens that stay")
    every: int = option(0, "decoded tokens after which it evicts again; 0: only before each call")

    def newest(self, position: int) -> slice:
        """Tokens that stay in front of a position, the sinks apart."""
        return slice(max(min(self.sinks, position), position - self.size), position)


def replay_cache(
    analysis: Analysis, policy: CacheWindow, *, name: str, tokenizer: str | None
) -> Replayed:
    """All calls with the token ids that a policy leaves in the cache."""
    source, warnings = _growing(analysis, tokenizer)
    encoding, tree = source.encoding, source.tree
    fidelity: TokenFidelity = "recorded" if encoding.rendering == RECORDED else "rendered"
    hint = Hint("drop", f"simulated: {name}")
    calls: list[Call] = []
    for index, call in enumerate(source.rollout.calls):
        named = replace(recorded(call), lineage=tree.lineages[tree.lineage[index]])
        window = policy if tree.lineage[index] == tree.main_lineage else None
        parts = _parts(named, encoding.calls[index], window, hint)
        calls += [replace(part, tokens=fidelity) for part in parts]
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


def _parts(
    call: Call, tokens: CallTokens, policy: CacheWindow | None, hint: Hint
) -> Iterator[Call]:
    """The call with what is left of its prompt; several calls if it evicts while decoding."""
    context, start, end = tokens.context, tokens.prompt_length, len(tokens.context)
    step = policy.every if policy else 0
    begins = range(start, end, step) if step and end > start else range(start, start + 1)
    for part, begin in enumerate(begins):
        sinks, newest = 0, slice(0, begin)
        if policy is not None:
            sinks, newest = min(policy.sinks, begin), policy.newest(begin)
        evicted = newest.start > sinks
        yield replace(
            call,
            id=f"{call.id}.{part}" if len(begins) > 1 else call.id,
            prompt=None,
            completion=None,
            prompt_ids=np.concatenate((context[:sinks], context[newest]), dtype=np.int32),
            completion_ids=context[begin : begin + step if step else end],
            spans=None,
            logprobs=None,
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
