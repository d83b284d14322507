"""What a junction changed, as messages: the common ground of the rules that name its kind.

`A` is the lineage's previous context, `B` the new prompt, `l` the tokens they share at the start.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mwviz.encoding import CallTokens
from mwviz.rollout import Call, Message, Part, Span
from mwviz.runs import WINDOW
from mwviz.tree import EvictionTree
from mwviz.trie import Longs

SPEAKERS = frozenset({"system", "user", "assistant"})
"""Roles whose messages a summary stands for; tool results are answers to them."""


class Unit(NamedTuple):
    """A message after `l`, or one id of a unit log."""

    start: int
    end: int
    role: str
    kind: str
    kept: bool
    """Whether all of it is on the other side too."""


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """The previous context and the new prompt after `l`, by token and by message."""

    depth: int
    """`l`: branch depth, in tokens."""
    before: Longs
    """int64: nodes of A after `l`."""
    after: Longs
    """int64: nodes of B after `l`."""
    goes: npt.NDArray[np.bool_]
    """bool (before,): True where the token is only in A: evicted."""
    comes: npt.NDArray[np.bool_]
    """bool (after,): True where the token is only in B: inserted."""
    sampled: npt.NDArray[np.bool_]
    """bool (after,): True where the call just before sampled the token."""
    opens_with_completion: bool
    """Whether what stands at `l` is the previous completion, from its first token on."""
    returns: npt.NDArray[np.bool_]
    """bool (after,): True where an older context than A first showed the token."""
    left: tuple[Unit, ...] | None
    """Messages of A after `l`; None if the log has no messages."""
    right: tuple[Unit, ...] | None
    """Messages of B after `l`; None if the log has no messages."""

    @property
    def tail(self) -> int:
        """Tokens of `after` up to the end of the kept tail; what follows is the next turn.

        Where messages are known only whole ones count as kept: a summary may quote what left.
        """
        if self.right is not None:
            return max((unit.end for unit in self.right if unit.kept), default=0)
        kept = np.flatnonzero(~self.comes)
        return int(kept[-1]) + 1 if len(kept) else 0

    @property
    def restores(self) -> bool:
        """Whether older text stands in front of the kept tail: a whole message, or a long run."""
        if self.right is None:
            return int(self.returns[: self.tail].sum()) >= WINDOW
        inside = (unit for unit in self.right if unit.start < self.tail)
        return any(bool(self.returns[unit.start : unit.end].all()) for unit in inside)

    @property
    def keeps_tail(self) -> bool:
        """Whether text that the call just before did not sample is retained behind what came."""
        retained = ~self.comes
        if self.right is not None:
            retained = np.zeros(len(self.comes), dtype=bool)
            for unit in self.right:
                retained[unit.start : unit.end] = unit.kept
        came = self.sampled if self.opens_with_completion else ~retained
        first = int(came.argmax()) if came.any() else len(came)
        return bool((retained & ~self.sampled)[first:].any())


def change_at(tree: EvictionTree, tokens: tuple[CallTokens, ...], call: int, depth: int) -> Change:
    """What changed between a call's prompt and the previous context of its lineage."""
    previous = int(tree.previous[call])
    context, own = tree.context(previous), tree.context(call)
    prompt = own[: tree.prompt_length[call]]
    before, after = context[depth:], prompt[depth:]
    origin = tree.origin
    goes = ~np.isin(origin[before], origin[prompt])
    comes = ~np.isin(origin[after], origin[context])
    known = tree.first_call[tree.segment_of(origin[after])] < call
    completion = context[tree.prompt_length[previous] :]
    by_message = bool(tokens[previous].spans or tokens[call].spans)
    units = not by_message and len(np.unique(tree.ids[own])) == len(own)
    asked = tuple(span for span in tokens[call].spans if span.end <= len(prompt))
    return Change(
        depth=depth,
        before=before,
        after=after,
        goes=goes,
        comes=comes,
        sampled=np.isin(origin[after], origin[completion]),
        opens_with_completion=bool(
            len(after) and len(completion) and origin[after[0]] == origin[completion[0]]
        ),
        returns=comes & known,
        left=_units(tokens[previous].spans, depth, goes) if by_message or units else None,
        right=_units(asked, depth, comes) if by_message or units else None,
    )


def _units(spans: Sequence[Span], depth: int, changed: npt.NDArray[np.bool_]) -> tuple[Unit, ...]:
    """Messages that reach past `l`, by their tokens after it; ids where there are no messages."""
    size = len(changed)
    if not spans:
        return tuple(Unit(i, i + 1, "", "", not changed[i]) for i in range(size))
    units = []
    for span in spans:
        start, end = max(span.start - depth, 0), min(span.end - depth, size)
        if start < end:
            kept = not changed[start:end].any()
            units.append(Unit(start, end, span.role, span.kind, kept))
    return tuple(units)


def messages_of(call: Call) -> tuple[Message, ...] | None:
    """All messages of a call's prompt and completion, None if either is not recorded."""
    if call.prompt is None or call.completion is None:
        return None
    return (*call.prompt, *call.completion)


def same_start(left: Sequence[Message] | None, right: Sequence[Message] | None, *, of: str) -> bool:
    """Whether the new prompt starts with the previous messages, read in one of three ways.

    Args:
        left: messages of the previous context.
        right: messages of the new prompt.
        of: `text` (as they are), `content` (JSON spacing, key order and empty parts aside) or
            `answer` (without reasoning).
    """
    if not left or not right or len(right) < len(left):
        return False
    return all(
        _reading(a, of) == _reading(b, of) for a, b in zip(left, right[: len(left)], strict=True)
    )


def _reading(message: Message, of: str) -> tuple[object, ...]:
    parts = message.parts
    if of == "answer":
        parts = tuple(part for part in parts if part.kind != "reasoning")
    if of == "text":
        return (message.role, *((p.kind, p.text, p.name) for p in parts))
    canonical = tuple((p.kind, _canonical(p), p.name) for p in parts)
    return (message.role, *(part for part in canonical if part[1] or part[2]))


def _canonical(part: Part) -> str:
    text = part.text.strip()
    if not text.startswith(("{", "[")):
        return text
    try:
        return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return text
