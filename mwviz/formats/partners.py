"""What a trace should hold in pairs: a call and its reply, a tool call and its result.

A name that a changed byte made odd, or a message that a harness lost, shows in what referred to it.
A call at the end of all contexts has no result yet; names that no one refers to tell nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mwviz.formats.fields import named, shown
from mwviz.rollout import Call, Message, Rollout
from mwviz.sharing import begins


def unpaired(rollout: Rollout) -> Iterator[str]:
    """A warning for results whose call, and calls whose result, is not in the rollout."""
    asked: dict[str, int | None] = {}
    answered: dict[str, int | None] = {}
    passed: dict[str, int | None] = {}
    for message, last in _messages(rollout.calls):
        for part in message.parts:
            if part.kind == "tool_call" and part.id:
                asked.setdefault(part.id, message.line)
                if not last:
                    passed.setdefault(part.id, message.line)
            elif part.kind == "tool_result" and part.id:
                answered.setdefault(part.id, message.line)
    if asked:
        lost = {name: line for name, line in answered.items() if name not in asked}
        yield from _told("tool results answer a call that is not in the trace", lost)
    if answered:
        open_ = {name: line for name, line in passed.items() if name not in answered}
        yield from _told("tool calls have no result in the trace, though it goes on", open_)


def unanswered(rollout: Rollout) -> Iterator[str]:
    """A warning for requests whose reply the trace neither holds nor says to have failed."""
    lost = {
        call.id: call.line
        for call in rollout.calls
        if call.completion is None and call.completion_ids is None and call.finish is None
    }
    yield from _told("calls have no reply in the trace, and nothing says that they failed", lost)


def _messages(calls: Sequence[Call]) -> Iterator[tuple[Message, bool]]:
    """Each message object where it first stands, and whether it was the end of that context.

    A prompt that goes on from the one before is not walked again; its new messages, and the last
    one before them, are.
    """
    latest: dict[str | None, Sequence[Message]] = {}
    seen: set[tuple[int, bool]] = set()
    for call in calls:
        prompt = call.prompt or ()
        before = latest.get(call.lineage, ())
        start = max(0, len(before) - 1) if before and begins(prompt, before) else 0
        latest[call.lineage] = prompt
        new = [*prompt[start:], *(call.completion or ())]
        for message in new:
            last = message is new[-1]
            if (id(message), last) not in seen:
                seen.add((id(message), last))
                yield message, last


def _told(what: str, names: dict[str, int | None]) -> Iterator[str]:
    if names:
        told = [
            f"{shown(name)} (line {line})" if line else shown(name) for name, line in names.items()
        ]
        yield f"{len(told)} {what}: {named(told)}"
