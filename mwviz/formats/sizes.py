"""Rebuilt prompts against reported token counts: characters a token, and what is left over."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from mwviz.rollout import Call, Message
from mwviz.sharing import begins

CHARACTERS_PER_TOKEN = 2.5
"""Of sessions with tool output; used where a file has too few counts to fit its own."""
PLAUSIBLE = (1.5, 6.0)
"""Characters a token that a fit may come out at."""


def characters(calls: Sequence[Call]) -> list[int]:
    """Characters of each prompt; what a call repeats of its lineage is not counted again."""
    latest: dict[str | None, tuple[Sequence[Message], int]] = {}
    found: list[int] = []
    for call in calls:
        prompt = call.prompt or ()
        before, size = latest.get(call.lineage, ((), 0))
        if not begins(prompt, before):
            before, size = (), 0
        size += sum(_length(message) for message in prompt[len(before) :])
        latest[call.lineage] = (prompt, size)
        found.append(size)
    return found


def characters_per_token(
    calls: Sequence[Call], generations: Sequence[Sequence[int]], sizes: Sequence[int]
) -> float:
    """How much text a reported token stood for where prompts grew within a generation."""
    written = counted = 0
    for generation in generations:
        for before, after in pairwise(generation):
            grown = used(calls[after]) - used(calls[before])
            added = sizes[after] - sizes[before]
            if grown > 0 and added > 0 and used(calls[before]):
                written, counted = written + added, counted + grown
    rate = written / counted if counted else 0.0
    return rate if PLAUSIBLE[0] <= rate <= PLAUSIBLE[1] else CHARACTERS_PER_TOKEN


def used(call: Call) -> int:
    """Prompt tokens that the provider reported; 0 if it reported none."""
    return (call.usage.prompt or 0) if call.usage else 0


def _length(message: Message) -> int:
    return sum(len(part.text) + len(part.name or "") for part in message.parts)
