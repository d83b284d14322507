"""OpenHands event streams of the first generation (V0) to rollouts, rebuilt by replay.

Every action of the agent carries the response it came from. A condensation forgets events and
leaves a summary; the words in which some observations reach the model are not in the stream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from mwviz.formats.call_fields import moment, read_usage
from mwviz.formats.chat import canonical, read_message, tools_message
from mwviz.formats.fields import FieldError, Json, Object, child, count, members, objects, string
from mwviz.formats.media import media_part
from mwviz.formats.openhands_view import Event, View
from mwviz.formats.records import Record, Records
from mwviz.formats.replay import Replay, listed
from mwviz.rollout import Call, Hole, Message, Part, Rollout

STREAM = "stream"
"""Id of the rollout: the events do not name their conversation."""
TOOLS = "tool list is not in the file"
WORDED = "workspace context is put in words that are not in the file"
ASIDE = ("null", "agent_state_changed", "change_agent_state", "condensation_request", "pause")
"""Actions and observations that no context holds."""


def detects(head: Sequence[Record]) -> bool:
    """Whether a record is a numbered action or observation with a source."""
    return any(isinstance(record.value, dict) and _is_event(record.value) for record in head)


def _is_event(value: Object) -> bool:
    if not isinstance(value.get("id"), int) or "timestamp" not in value:
        return False
    if isinstance(value.get("action"), str):
        return isinstance(value.get("args"), dict)
    return isinstance(value.get("observation"), str) and "content" in value


def reads(records: Records) -> list[Rollout]:
    """One rollout: the stream in the order of its numbers."""
    found: dict[int, tuple[Object, int]] = {}
    stream = _Stream()
    order: dict[int, Record] = {}
    for record in records:
        value = record.value
        if not isinstance(value, dict) or not _is_event(value):
            records.drop(record, "neither an action nor an observation with a number")
            continue
        number = count(value, "id") if _is_count(value) else None
        if number is None:
            records.drop(record, "an event whose number is negative")
        elif number in found:
            same = canonical(found[number][0]) == canonical(value)
            stream.repeated += [] if same else [record.line]
        else:
            found[number], order[number] = (value, record.line), record
    for number in sorted(found):
        try:
            stream.take(*found[number])
        except FieldError as error:
            records.drop(order[number], str(error))
    stream.view.close()
    calls = tuple(stream.view.replay.calls)
    return [Rollout(STREAM, calls, warnings=tuple(stream.warnings()))]


def _is_count(value: Object) -> bool:
    number = value["id"]
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


@dataclass(slots=True)
class _Stream:
    """The events up to the one of this moment."""

    view: View = field(default_factory=lambda: View(Replay("main", (Hole(TOOLS),))))
    seen: set[str] = field(default_factory=set)
    """Responses whose message is in the list."""
    repeated: list[int] = field(default_factory=list)
    untold: Counter[str] = field(default_factory=Counter)

    def take(self, record: Object, line: int) -> None:
        """Apply one event.

        Raises:
            FieldError: It is not what its type says.
        """
        action, observation = string(record, "action"), string(record, "observation")
        kind = action or observation or ""
        identity = str(count(record, "id"))
        if kind in ASIDE or (action == "recall"):
            return
        if action == "condensation":
            self._condense(child(record, "args") or {}, identity)
        elif action == "system":
            self._system(child(record, "args") or {}, identity, line)
        elif observation:
            self._observation(record, identity, line)
        elif record.get("source") == "agent":
            self._action(record, identity, line)
        else:
            args = child(record, "args") or {}
            text = string(args, "content") if kind == "message" else canonical(args)
            self._say("user", text or "", identity, line, images=args.get("image_urls"))

    def warnings(self) -> list[str]:
        """What a reader of the result should know."""
        untold = (
            f"{number} agent actions of the type {kind} carry no response; each counts as a call"
            for kind, number in self.untold.items()
        )
        return [
            *untold,
            *listed(
                "events repeat a number with other content; the first is kept",
                self.repeated,
                one="event repeats a number with other content; the first is kept",
            ),
        ]

    def _say(self, role: str, text: str, identity: str, line: int, *, images: Json = None) -> None:
        message = Message(role, (Part("text", text), *_pictures(images)), id=identity, line=line)
        self.view.add(Event(identity, message))

    def _system(self, args: Object, identity: str, line: int) -> None:
        if tools := members(args, "tools"):
            self.view.head(tools_message(tools, line))
            self.view.replay.holes = ()
        self._say("system", string(args, "content") or "", identity, line)

    def _action(self, record: Object, identity: str, line: int) -> None:
        metadata = child(record, "tool_call_metadata") or {}
        response = child(metadata, "model_response")
        when = moment(record, "timestamp")
        if response is None:
            args = child(record, "args") or {}
            said = string(args, "content") or string(args, "thought") or string(record, "message")
            self.untold[string(record, "action") or ""] += 1
            message = Message("assistant", (Part("text", said or ""),), id=identity, line=line)
            call = Call(identity, time=when, line=line)
            self.view.add(Event(identity, message, identity, call))
            self.view.close()
            return
        name = string(response, "id") or f"event-{identity}"
        if name in self.seen:
            self.view.add(Event(identity, None))
            return
        self.seen.add(name)
        choice = next(iter(objects(response, "choices") or ()), {})
        message = read_message(child(choice, "message") or {}, line=line, role="assistant")
        call = Call(
            identity,
            usage=read_usage(child(response, "usage")),
            model=string(response, "model"),
            finish=string(choice, "finish_reason"),
            time=when,
            line=line,
        )
        reply = Message(message.role, message.parts, id=identity, line=line)
        self.view.add(Event(identity, reply, name, call))
        self.view.close()

    def _observation(self, record: Object, identity: str, line: int) -> None:
        text = string(record, "content") or ""
        extras = record.get("extras")
        pictures = _pictures(extras.get("image_urls") if isinstance(extras, dict) else None)
        metadata = child(record, "tool_call_metadata") or {}
        called = string(metadata, "tool_call_id")
        if called is not None:
            part = Part("tool_result", text, id=called)
            name = string(metadata, "function_name")
            message = Message("tool", (part, *pictures), id=identity, name=name, line=line)
            self.view.add(Event(identity, message))
            return
        message = Message("user", (Part("text", text), *pictures), id=identity, line=line)
        if record.get("observation") == "recall":
            self.view.replay.lacks(message, WORDED)
        self.view.add(Event(identity, message))

    def _condense(self, args: Object, identity: str) -> None:
        first, last = (
            count(args, "forgotten_events_start_id"),
            count(args, "forgotten_events_end_id"),
        )
        named = members(args, "forgotten_event_ids")
        if named is not None:
            forgotten = {str(name) for name in named}
        elif first is not None and last is not None:
            known = (event.id for event in self.view.events)
            forgotten = {name for name in known if name.isdigit() and first <= int(name) <= last}
        else:
            raise FieldError("a condensation that names no events, expected ids or a range")
        self.view.condense(
            forgotten,
            summary=string(args, "summary"),
            offset=count(args, "summary_offset"),
            id=identity,
        )


def _pictures(urls: Json) -> tuple[Part, ...]:
    """Placeholders of the images that an event shows beside its text."""
    given = urls if isinstance(urls, list) else []
    return tuple(media_part({"type": "image", "url": url}) for url in given if url)
