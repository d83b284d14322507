"""What a Claude Code file leaves out of each call's context, with sizes from the token counts.

Within one generation (between two compactions) reported prompt tokens are a straight line over the
rebuilt characters; what the line leaves over at zero characters is not in the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from mwviz.formats.claude_chains import Chain
from mwviz.formats.sizes import characters, characters_per_token, used
from mwviz.rollout import Call, Hole

NOTICED = 3000
"""Tokens from which on a remainder after a compaction counts as a hole."""
SYSTEM = "system prompt and tool list are not in the file"
REATTACHED = "text re-attached after the compaction is not in the file"
THINKING = "thinking text is empty in the file"
GUESSED = "its context rests on a link by file order, which is a guess"
EARLIER = "the context before the first record of its chain is not in the file"


@dataclass(frozen=True, slots=True)
class _Generation:
    """The calls of one lineage between two compactions."""

    calls: list[int]
    start: str
    """`start`, `boundary` or `gone`: how its context begins."""


def with_holes(calls: Sequence[Call], chains: Sequence[Chain]) -> list[Call]:
    """The calls with their holes; a call with a hole in its messages is `partial`."""
    sizes = characters(calls)
    lacking = _lacking(calls)
    generations = _generations(calls, chains)
    rate = characters_per_token(calls, [g.calls for g in generations], sizes)
    result = list(calls)
    systems: dict[str | None, int | None] = {}
    for generation in generations:
        lineage = calls[generation.calls[0]].lineage
        left = _remainder(calls, generation.calls, rate, sizes)
        if lineage not in systems:
            systems[lineage] = left if generation.start == "start" else _cached(calls, generations)
        shared = _holes(calls[generation.calls[0]], generation.start, left, systems[lineage])
        for at in generation.calls:
            own: tuple[Hole, ...] = (Hole(THINKING),) if _lacks(calls[at], lacking) else ()
            own += (Hole(GUESSED),) if chains[at].guessed else ()
            partial = len(shared) > 1 or bool(own)
            result[at] = replace(
                calls[at],
                holes=(*shared, *own),
                content="partial" if partial else calls[at].content,
            )
    return result


def _generations(calls: Sequence[Call], chains: Sequence[Chain]) -> list[_Generation]:
    found: dict[tuple[str | None, str], _Generation] = {}
    for at, (call, chain) in enumerate(zip(calls, chains, strict=True)):
        boundary = chain.root if chain.root and chain.root.kind == "boundary" else None
        start = "boundary" if boundary else "gone" if chain.gone else "start"
        key = (call.lineage, boundary.uuid if boundary else start)
        found.setdefault(key, _Generation([], start)).calls.append(at)
    return list(found.values())


def _remainder(
    calls: Sequence[Call], generation: list[int], rate: float, sizes: Sequence[int]
) -> int | None:
    """Prompt tokens that the rebuilt text does not account for, over one generation."""
    left = [used(calls[at]) - sizes[at] / rate for at in generation if used(calls[at])]
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


def _lacking(calls: Sequence[Call]) -> set[int]:
    """Replies, by object, whose thinking text is empty."""
    return {
        id(message)
        for call in calls
        for message in call.completion or ()
        if any(part.kind == "reasoning" and not part.text for part in message.parts)
    }


def _lacks(call: Call, lacking: set[int]) -> bool:
    messages = (*(call.prompt or ()), *(call.completion or ()))
    return bool(lacking) and any(id(message) in lacking for message in messages)
