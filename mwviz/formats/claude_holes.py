"""What a Claude Code file leaves out of each call's context, with sizes from the token counts.

Within one generation (between two compactions) reported prompt tokens are a straight line over the
rebuilt characters; what the line leaves over at zero characters is not in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from mwviz.formats.claude_context import Chain
from mwviz.rollout import Call, Hole, Message

CHARACTERS_PER_TOKEN = 2.5
"""Of sessions with tool output; used where a file has too few counts to fit its own."""
PLAUSIBLE = (1.5, 6.0)
"""Characters a token that a fit may come out at."""
NOTICED = 3000
"""Tokens from which on a remainder after a compaction counts as a hole."""
SYSTEM = "system prompt and tool list are not in the file"
REATTACHED = "text re-attached after the compaction is not in the file"
THINKING = "thinking text is empty in the file"
EARLIER = "the context before the first record of its chain is not in the file"


@dataclass(frozen=True, slots=True)
class _Generation:
    """The calls of one lineage between two compactions."""

    calls: list[int]
    start: str
    """`start`, `boundary` or `gone`: how its context begins."""


def with_holes(calls: Sequence[Call], chains: Sequence[Chain]) -> list[Call]:
    """The calls with their holes; a call with a hole in its messages is `partial`."""
    sizes = _Sizes()
    generations = _generations(calls, chains)
    rate = _rate(calls, generations, sizes)
    result = list(calls)
    systems: dict[str | None, int | None] = {}
    for generation in generations:
        lineage = calls[generation.calls[0]].lineage
        left = _remainder([calls[at] for at in generation.calls], rate, sizes)
        if lineage not in systems:
            systems[lineage] = left if generation.start == "start" else _cached(calls, generations)
        shared = _holes(calls[generation.calls[0]], generation.start, left, systems[lineage])
        for at in generation.calls:
            thinking = (Hole(THINKING),) if _lacks_thinking(calls[at]) else ()
            partial = len(shared) > 1 or bool(thinking)
            result[at] = replace(
                calls[at],
                holes=(*shared, *thinking),
                content="partial" if partial else calls[at].content,
            )
    return result


class _Sizes:
    """Characters of prompts; each message is measured once."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def __call__(self, messages: Iterable[Message]) -> int:
        return sum(self._one(message) for message in messages)

    def _one(self, message: Message) -> int:
        key = id(message)
        if key not in self._known:
            self._known[key] = sum(len(p.text) + len(p.name or "") for p in message.parts)
        return self._known[key]


def _generations(calls: Sequence[Call], chains: Sequence[Chain]) -> list[_Generation]:
    found: dict[tuple[str | None, str], _Generation] = {}
    for at, (call, chain) in enumerate(zip(calls, chains, strict=True)):
        boundary = chain.root if chain.root and chain.root.kind == "boundary" else None
        start = "boundary" if boundary else "gone" if chain.gone else "start"
        key = (call.lineage, boundary.uuid if boundary else start)
        found.setdefault(key, _Generation([], start)).calls.append(at)
    return list(found.values())


def _rate(calls: Sequence[Call], generations: list[_Generation], sizes: _Sizes) -> float:
    characters = tokens = 0
    for generation in generations:
        for before, after in pairwise(calls[at] for at in generation.calls):
            if before.usage and after.usage:
                grown = (after.usage.prompt or 0) - (before.usage.prompt or 0)
                written = sizes(after.prompt or ()) - sizes(before.prompt or ())
                if grown > 0 and written > 0:
                    characters, tokens = characters + written, tokens + grown
    rate = characters / tokens if tokens else 0.0
    return rate if PLAUSIBLE[0] <= rate <= PLAUSIBLE[1] else CHARACTERS_PER_TOKEN


def _remainder(calls: list[Call], rate: float, sizes: _Sizes) -> int | None:
    """Prompt tokens that the rebuilt text does not account for, over one generation."""
    left = [
        call.usage.prompt - sizes(call.prompt or ()) / rate
        for call in calls
        if call.usage and call.usage.prompt
    ]
    return max(0, round(median(left))) if left else None


def _cached(calls: Sequence[Call], generations: list[_Generation]) -> int | None:
    """Tokens cached at the first call after a compaction: only the system prompt and tools are."""
    firsts = [calls[g.calls[0]] for g in generations if g.start == "boundary"]
    found = [call.usage.cached for call in firsts if call.usage and call.usage.cached]
    return min(found, default=None)


def _holes(first: Call, start: str, left: int | None, system: int | None) -> tuple[Hole, ...]:
    rest = None if left is None or system is None else max(0, left - system)
    known = Hole(SYSTEM, tokens=system)
    if start == "gone":
        return (known, Hole(EARLIER, tokens=rest))
    if start == "boundary" and (rest is None or rest >= NOTICED):
        summaries = [m.id for m in first.prompt or () if m.mark == "summary"]
        return (known, Hole(REATTACHED, after=summaries[-1] if summaries else None, tokens=rest))
    return (known,)


def _lacks_thinking(call: Call) -> bool:
    messages = (*(call.prompt or ()), *(call.completion or ()))
    return any(p.kind == "reasoning" and not p.text for m in messages for p in m.parts)
