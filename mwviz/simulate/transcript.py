"""A recorded rollout flattened: what its main agent was ever sent and said, in order.

The transcript starts with the first call's prompt. Every call adds its completion, and then what
the next prompt appended: the messages behind the last one that it shares with the previous context.
What the source's own harness did in front of that (a summary, a stub, a gap, restored text) is
undone; a summary behind which nothing was kept is left out where the log or the junction rules
know it for one. A prompt that was sampled again counts once, with its last completion. The other
lineages are not part of it: their calls are kept as they are, if their messages are recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mwviz.analysis import Analysis
from mwviz.errors import TraceError
from mwviz.prefix import common_start
from mwviz.rollout import Call, Message
from mwviz.tokens import without_ids
from mwviz.wording import counted

SUMMARIES = frozenset({"summary", "summary_tail"})


class Step(NamedTuple):
    """One call of the main agent."""

    call: Call
    """As recorded, under its lineage's name, without token ids."""
    added: Sequence[Message]
    """What was appended between the call before and this one; the whole prompt for the first."""


@dataclass(frozen=True, slots=True, eq=False)
class Transcript:
    """The main agent's steps, and where the calls of all agents stand."""

    order: tuple[Step | Call, ...]
    """Steps of the main agent and calls of the others, in the recorded order."""
    main: str
    """Name of the main lineage."""
    warnings: tuple[str, ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        """The main agent's steps."""
        return tuple(entry for entry in self.order if isinstance(entry, Step))


def flatten(analysis: Analysis) -> Transcript:
    """The transcript of the main lineage of an analysed rollout.

    Raises:
        TraceError: a call of the main agent has no messages.
    """
    rollout, tree = analysis.rollout, analysis.tree
    kinds = {junction.call: junction.kind for junction in analysis.junction_list}
    plain = without_ids(rollout).calls
    calls = [replace(c, lineage=tree.lineages[a]) for c, a in zip(plain, tree.lineage, strict=True)]
    main = tree.lineages[tree.main_lineage] if calls else "main"
    steps: dict[int, Step] = {}
    undone, previous = 0, -1
    for index, call in enumerate(calls):
        if call.lineage != main:
            continue
        if call.prompt is None:
            raise TraceError(
                f"rollout {rollout.id!r}, call {call.id!r} has no messages, expected them in every "
                "call of the main agent: contexts are simulated message by message"
            )
        if previous < 0:
            steps[index] = Step(call, call.prompt)
        elif _same(calls[previous].prompt, call.prompt):
            steps[index] = Step(call, steps.pop(previous).added)
        else:
            undone += kinds.get(index) is not None
            steps[index] = Step(call, _appended(calls[previous], call, kinds.get(index)))
        previous = index
    others = {i: c for i, c in enumerate(calls) if c.lineage != main and c.prompt is not None}
    order = tuple(steps[i] if i in steps else others[i] for i in sorted(steps | others))
    return Transcript(order, main, _warnings(calls, main, undone, kept=len(order)))


def _warnings(calls: list[Call], main: str, undone: int, *, kept: int) -> tuple[str, ...]:
    blind = sum(call.lineage != main and call.prompt is None for call in calls)
    again = len(calls) - kept - blind
    found = []
    if undone:
        found.append(f"undone: {counted(undone, 'change')} of the context by the recorded harness")
    if again:
        found.append(f"left out: {counted(again, 'call')} whose prompt was sampled again")
    if blind:
        found.append(f"left out, without messages: {counted(blind, 'call')} of other agents")
    return tuple(found)


def _appended(before: Call, call: Call, kind: str | None) -> tuple[Message, ...]:
    """What the prompt holds behind the last message of the previous context that it kept."""
    old = [_key(message) for message in (*(before.prompt or ()), *(before.completion or ()))]
    prompt = call.prompt or ()
    keys = [_key(message) for message in prompt]
    at = end = 0
    for index, key in enumerate(keys):
        if key in old[at:]:
            at = old.index(key, at) + 1
            end = index + 1
    new = list(prompt[end:])
    if kind in SUMMARIES and new and new[0].mark is None and end <= common_start(old, keys):
        del new[0]
    return tuple(message for message in new if message.mark not in ("summary", "placeholder"))


def _same(left: Sequence[Message] | None, right: Sequence[Message]) -> bool:
    return left is not None and [_key(m) for m in left] == [_key(m) for m in right]


def _key(message: Message) -> object:
    """Equal for the same message, whether its reasoning is still in it or not."""
    if message.id is not None and message.mark is None:
        return message.id
    said = (part for part in message.parts if part.kind != "reasoning")
    return (message.role, *((part.kind, part.text.strip(), part.name) for part in said))
