"""The scripted agent: it knows the way, and says what an agent should say at each call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from examples.search_world.chat import Chat
from examples.search_world.episode import Request, Sampled, Sampler

NONE = "none yet"
NOTE = "Note: "
"""What the line of a turn starts with that copies a fact from the tool's newest answer."""


class Expert(Sampler):
    """Notes each fact once, as soon as it has seen it; its summaries repeat all of them."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    def sample(self, requests: Sequence[Request]) -> list[Sampled]:
        """One completion a request; nothing is sampled, so there are no log-probabilities."""
        texts = [_summary(r) if r.kind == "summary" else _act(r) for r in requests]
        ends = np.array([self._chat.stop], dtype=np.int32)
        return [Sampled(np.concatenate((self._chat.encode(t), ends)), None) for t in texts]


def _act(request: Request) -> str:
    chain, found = request.episode.question.chain, request.episode.calls_here
    note = f"{NOTE}{chain[found - 1].sentence}.\n" if _sees_newest(request) else ""
    if found == len(chain):
        return f"{note}Answer: {chain[-1].value}"
    return f"{note}Search: {chain[found].subject}"


def _summary(request: Request) -> str:
    chain, found = request.episode.question.chain, request.episode.calls_here
    known = chain[:found] if _sees_newest(request) else chain[: max(found - 1, 0)]
    return f"Facts: {'; '.join(fact.sentence for fact in known) or NONE}."


def _sees_newest(request: Request) -> bool:
    newest = request.episode.newest
    return newest is not None and newest in request.messages
