"""What Qwen-Agent cuts from a list of messages before it sends them, worked out again.

The rule is that of `_truncate_input_messages_roughly` in qwen-agent 0.0.34 (2026-02); older
versions only kept what fits from the end. Tokens are counted over each message's stripped text,
or over its function call, without roles. If they exceed what the limit leaves beside the system
message, turns of a person are gone through from the oldest on: one that fits the overshoot goes
whole; of the first that does not, tool results become one word or lose their middle, then middle
steps go, then the results of the last step shrink, then any text. Every call starts anew from the
whole list. A cut message keeps neither its name nor its function call.

It is as exact as the tokenizer: the package counts with Qwen's own, whose tokenizer.json has to be
given. Literal special tokens in a text count as text here. Lists with images or files are refused:
their names count too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from mwviz.rollout import Ints

VERSION = "qwen-agent 0.0.34"
RESULT = "function"
OMITTED = "omit"
ELLIPSIS = "..."


class Tokens(Protocol):
    """What counts and cuts text."""

    def encode(self, texts: Sequence[str]) -> list[Ints]:
        """int32 (T,): ids of each text."""

    def piece(self, token: int) -> bytes | None:
        """UTF-8 bytes of a token."""


class Spoken(NamedTuple):
    """One message as the rule sees it."""

    role: str
    text: str
    """What is cut."""
    counted: str
    """What is counted: the stripped text, or the function call as Python writes it."""


class Kept(NamedTuple):
    """One message of the shortened list."""

    at: int
    """Its place in the whole list."""
    text: str | None = None
    """Its new text; None if it is unchanged."""
    bare: bool = False
    """Whether its name and function call are gone."""


class Truncation(NamedTuple):
    """The harness's limit, and the tokenizer it counts with."""

    limit: int
    tokens: Tokens


class ImpossibleError(Exception):
    """The harness refuses such a list under this limit, or makes something odd of it."""


def shortened(messages: Sequence[Spoken], truncation: Truncation) -> list[Kept]:
    """The messages that are sent, in order; the system message comes first if anything is cut.

    Raises:
        ImpossibleError: The rule ends in an error, or says a message twice.
    """
    systems = [at for at, m in enumerate(messages) if m.role == "system"]
    rest = [at for at, m in enumerate(messages) if m.role != "system"]
    if len(systems) > 1 or not rest or messages[rest[0]].role != "user":
        raise ImpossibleError("more than one system message, or none of a person first")
    sizes = [len(ids) for ids in truncation.tokens.encode([m.counted for m in messages])]
    room = truncation.limit - sum(sizes[at] for at in systems)
    over = sum(sizes[at] for at in rest) - room
    if over <= 0:
        return [Kept(at) for at in range(len(messages))]
    if room <= 0:
        raise ImpossibleError("the system message alone exceeds the limit")
    starts = [at for at in rest if messages[at].role == "user"]
    found = [Kept(at) for at in systems]
    for start, end in zip(starts, [*starts[1:], len(messages)], strict=True):
        turn = [at for at in rest if start <= at < end]
        if over <= 0:
            found += [Kept(at) for at in turn]
            continue
        cut = _Turn(messages, turn, truncation.tokens, {at: sizes[at] for at in turn}, over)
        found += cut.shortened(last=end == len(messages))
        over = cut.over
    return found


class _Turn:
    """One turn of a person, from its message to the last step before the next one."""

    def __init__(
        self,
        messages: Sequence[Spoken],
        turn: list[int],
        tokens: Tokens,
        sizes: dict[int, int],
        over: int,
    ) -> None:
        self.messages, self.turn, self.tokens = messages, turn, tokens
        self.sizes, self.over = sizes, over
        self.new = {at: Kept(at) for at in turn}

    def shortened(self, *, last: bool) -> list[Kept]:
        """What is left of it; `over` is then what is still too much."""
        total = sum(self.sizes.values())
        if total <= self.over:
            self.over -= total
            return []
        if len(self.turn) == 1 and not last:
            raise ImpossibleError("a turn without a reply had to be cut")
        kept = self.turn if len(self.turn) == 1 else self._cut_steps(self._steps(), last=last)
        if self.over > 0:
            self._shrink_ends(kept)
        self.over = 0
        return [self.new[at] for at in kept]

    def _cut_steps(self, steps: list[list[int]], *, last: bool) -> list[int]:
        """What stays when results shrink, middle steps go and the last results shrink."""
        spared = steps[-1][0] if last else len(self.messages)
        for at in self._results(self.turn):
            if at < spared and self.over > 0:
                self._shrink(at)
        if self.over <= 0:
            return self.turn
        if len(steps) == 1:
            raise ImpossibleError("a result stands behind a person's message")
        for step, after in pairwise(steps[1:]):
            self.over -= sum(self.sizes[at] for at in step)
            if self.over <= 0:
                return [*steps[0], *(at for at in self.turn if at >= after[0])]
        for at in self._results(steps[-1]):
            self._shrink(at)
        return [*steps[0], *steps[-1]]

    def _steps(self) -> list[list[int]]:
        """The person's message, then replies, each with the results that follow it."""
        steps: list[list[int]] = []
        for at in self.turn:
            role = self.messages[at].role
            before = self.messages[steps[-1][-1]].role if steps else None
            if role in (RESULT, before):
                steps[-1].append(at)
            else:
                steps.append([at])
        return steps

    def _results(self, places: list[int]) -> list[int]:
        return [at for at in places if self.messages[at].role == RESULT]

    def _shrink_ends(self, places: list[int]) -> None:
        """One message after the other down to the first that is cut, be it by nothing."""
        for at in places:
            cut = self.sizes[at] > self.over
            self._shrink(at)
            if cut:
                return

    def _shrink(self, at: int) -> None:
        """The message without the overshoot, or one word if it is no larger."""
        size = self.sizes[at]
        if size > self.over:
            self.new[at] = Kept(
                at, _cut(self.messages[at].text, size - self.over, self.tokens), True
            )
            self.over = 0
        else:
            self.new[at] = Kept(at, OMITTED, self.new[at].bare)
            self.over -= size
            self.sizes[at] = 0 if self.messages[at].role == RESULT else size


def _cut(text: str, size: int, tokens: Tokens) -> str:
    """The text's two ends around an ellipsis, `size` tokens in all."""
    ids, dots = (found.tolist() for found in tokens.encode([text, ELLIPSIS]))
    if len(ids) <= size:
        return text
    room = size - len(dots)
    kept = [*ids[: room // 2], *dots, *ids[-(room - room // 2) :]] if room > 0 else ids[:size]
    return b"".join(tokens.piece(token) or b"" for token in kept).decode("utf-8", "replace")
