"""The list of events that an OpenHands agent sees, and the calls made on it.

A condensation forgets events and puts a summary at a place counted in events, so the list is kept
by event; events of one response are one message.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from itertools import groupby

from mwviz.formats.replay import Replay, merged
from mwviz.rollout import Call, Hint, Message, Part, Usage


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """One event of the list."""

    id: str
    message: Message | None
    """None if another event of its response holds the message."""
    response: str | None = None
    """The response that it is a piece of; None if the model did not write it."""
    call: Call | None = None


@dataclass(slots=True)
class View:
    """The events that are seen, and the response that is being read."""

    replay: Replay
    header: list[Message] = field(default_factory=list)
    """What stands in front of all events and is never forgotten."""
    events: list[Event] = field(default_factory=list)
    pending: list[Event] = field(default_factory=list)
    responses: list[str] = field(default_factory=list)
    """The response of each call: its id, unless a later response has the same."""

    def add(self, event: Event) -> None:
        """See one more event."""
        if self.pending and self.pending[-1].response != event.response:
            self.close()
        if event.response is not None:
            self.pending.append(event)
            return
        self.events.append(event)
        if event.message is not None:
            self.replay.append(event.message)

    def head(self, message: Message) -> None:
        """Put a message in front of all events."""
        self.header.append(message)
        self.replay.append(message)

    def close(self) -> None:
        """End the response that is being read."""
        pieces = [event.message for event in self.pending if event.message is not None]
        first = self.pending[0] if self.pending else None
        if first is not None and first.call is not None:
            response = first.response or first.id
            fresh = response not in self.responses
            call = replace(first.call, id=response if fresh else first.id)
            self.replay.answer(call, *([merged(pieces)] if pieces else []))
            self.responses.append(response)
        elif pieces:
            self.replay.append(merged(pieces))
        self.events += self.pending
        self.pending = []

    def condense(
        self, forgotten: Collection[str], *, summary: str | None, offset: int | None, id: str
    ) -> None:
        """Forget events; the new summary stands for the old one, too."""
        self.close()
        line = len(self.events)
        self.events = [e for e in self.events if e.id not in forgotten and not _is_summary(e)]
        if summary is not None and offset is not None:
            said = Message("user", (Part("text", summary),), id=summary_id(id), mark="summary")
            self.events.insert(min(offset, len(self.events)), Event(summary_id(id), said))
        kind = "drop" if summary is None else "summary"
        gone = line - len(self.events) + (summary is not None)
        self.replay.replace(self._messages(), Hint(kind, f"{gone} events forgotten"))

    def with_usage(self, usages: dict[str, Usage]) -> list[Call]:
        """The calls, with the token counts that are known of their responses."""
        pairs = zip(self.replay.calls, self.responses, strict=True)
        return [replace(call, usage=usages.get(response, call.usage)) for call, response in pairs]

    def _messages(self) -> list[Message]:
        found = [*self.header]
        for response, group in groupby(self.events, key=lambda event: event.response):
            messages = [event.message for event in group if event.message is not None]
            found += [merged(messages)] if response is not None and messages else messages
        return found


def summary_id(condensation: str) -> str:
    """The id under which later events know the summary of a condensation."""
    return f"{condensation}-summary"


def _is_summary(event: Event) -> bool:
    return event.message is not None and event.message.mark == "summary"
