"""OpenHands conversations (a folder of events, or a list of them) to rollouts, by replay.

A condensation forgets events and leaves a summary. The summariser's own call is not in the events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mwviz.formats.call_fields import moment, read_usage
from mwviz.formats.chat import canonical, read_blocks, read_message, tools_message
from mwviz.formats.fields import (
    FieldError,
    Object,
    child,
    count,
    label,
    members,
    objects,
    string,
    token_ids,
)
from mwviz.formats.media import as_text
from mwviz.formats.openhands_view import Event, View, summary_id
from mwviz.formats.records import Record, Records
from mwviz.formats.replay import Replay, Unknown, each, listed
from mwviz.rollout import Call, Message, Part, Rollout, Usage

CONVERSATION = "conversation"
"""Id of the rollout if no file names it."""
RESULTS = {
    "ObservationEvent": "observation",
    "AgentErrorEvent": "error",
    "UserRejectObservation": "rejection_reason",
}
"""Events that answer a tool call, and where the answer stands."""
ASIDE = (
    "CondensationRequest",
    "ConversationStateUpdateEvent",
    "ConversationErrorEvent",
    "PauseEvent",
    "InterruptEvent",
    "LLMCompletionLogEvent",
    "HookExecutionEvent",
    "StreamingDeltaEvent",
)
"""Events that no context holds."""
KINDS = ("SystemPromptEvent", "MessageEvent", "ActionEvent", "Condensation", "TokenEvent", *RESULTS)


def detects(head: Sequence[Record]) -> bool:
    """Whether a record is an event with one of the kinds of the software agent SDK."""
    return any(
        isinstance(record.value, dict)
        and record.value.get("kind") in KINDS
        and "source" in record.value
        for record in head
    )


def reads(records: Records) -> list[Rollout]:
    """One rollout for each conversation; a folder may hold several, each behind its state."""
    talks = [_Conversation()]

    def take(record: Object, line: int) -> None:
        if _is_state(record) and (talks[-1].id or talks[-1].known):
            talks.append(_Conversation())
        talks[-1].take(record, line)

    each(records, take, "an event")
    return [talk.rollout() for talk in talks]


def _is_state(record: Object) -> bool:
    return "kind" not in record and "stats" in record


@dataclass(slots=True)
class _Conversation:
    """The events up to the one of this moment."""

    id: str | None = None
    view: View = field(default_factory=lambda: View(Replay("main")))
    usages: dict[str, Usage] = field(default_factory=dict)
    """Token counts by response."""
    known: set[str] = field(default_factory=set)
    last: str | None = None
    unknown: Unknown = field(default_factory=Unknown)
    jumps: list[int] = field(default_factory=list)
    loose: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)

    def take(self, record: Object, line: int) -> None:
        """Apply one event.

        Raises:
            FieldError: It is not what its kind says.
        """
        kind = string(record, "kind")
        if _is_state(record):
            self.id = self.id or label(record, "id")
            self._counts(child(record, "stats") or {})
            return
        identity = label(record, "id")
        if kind not in KINDS or identity is None:
            if kind not in ASIDE:
                self.unknown.meet(kind, line, "event")
            return
        if identity in self.known:
            raise FieldError(f"repeats the event {identity}")
        self._apply(record, kind, identity, line)
        parent = string(record, "parent_id")
        if parent is not None and parent != self.last:
            (self.jumps if parent in self.known else self.loose).append(line)
        self.known |= {identity, *([summary_id(identity)] if kind == "Condensation" else [])}
        self.last = identity

    def _apply(self, record: Object, kind: str, identity: str, line: int) -> None:
        if kind == "Condensation":
            self._condense(record, identity, line)
        elif kind == "TokenEvent":
            self._ids(record)
        else:
            event = _event(record, kind, identity, line)
            if kind == "SystemPromptEvent" and (tools := members(record, "tools")):
                self.view.head(tools_message(tools, line))
            self.view.add(event)

    def rollout(self) -> Rollout:
        """The conversation so far."""
        self.view.close()
        calls = tuple(self.view.with_usage(self.usages))
        return Rollout(self.id or CONVERSATION, calls, warnings=tuple(self.warnings()))

    def warnings(self) -> list[str]:
        """What a reader of the result should know."""
        several = (
            "events hang on an earlier one than the one before; they are read where they stand"
        )
        one = "event hangs on an earlier one than the one before; it is read where it stands"
        return [
            *self.unknown.warnings,
            *listed(several, self.jumps, one=one),
            *listed(
                "events hang on one that is not in the file",
                self.loose,
                one="event hangs on one that is not in the file",
            ),
            *listed(
                "condensations forget an event that is not in the file",
                self.lost,
                one="condensation forgets an event that is not in the file",
            ),
        ]

    def _condense(self, record: Object, identity: str, line: int) -> None:
        forgotten = members(record, "forgotten_event_ids")
        if forgotten is None:
            raise FieldError("a condensation that names no events, expected forgotten_event_ids")
        if any(not isinstance(name, str) or name not in self.known for name in forgotten):
            self.lost.append(line)
        self.view.condense(
            {name for name in forgotten if isinstance(name, str)},
            summary=string(record, "summary"),
            offset=count(record, "summary_offset"),
            id=identity,
        )

    def _ids(self, record: Object) -> None:
        """Token ids of the call before, as the engine gave them."""
        prompt, reply = (token_ids(record, f"{of}_token_ids") for of in ("prompt", "response"))
        self.view.close()
        calls = self.view.replay.calls
        if not calls or calls[-1].prompt_ids is not None or prompt is None or reply is None:
            raise FieldError("token ids that belong to no call")
        calls[-1] = replace(
            calls[-1], prompt_ids=prompt, completion_ids=reply, tokens="recorded", content="exact"
        )

    def _counts(self, stats: Object) -> None:
        """Token counts of the conversation's state file, one for each response."""
        for metrics in (child(stats, "usage_to_metrics") or {}).values():
            for used in objects(metrics, "token_usages") or () if isinstance(metrics, dict) else ():
                found, response = _usage(used), string(used, "response_id")
                if found and response:
                    self.usages[response] = found


def _usage(used: Object) -> Usage | None:
    cached = count(used, "cache_read_tokens")
    found = read_usage(used)
    return Usage(found.prompt, found.completion, cached) if found else None


def _event(record: Object, kind: str, identity: str, line: int) -> Event:
    if kind == "SystemPromptEvent":
        texts = [child(record, "system_prompt"), child(record, "dynamic_context")]
        parts = tuple(p for text in texts if text for p in read_blocks([text]))
        return Event(identity, Message("system", parts, id=identity, line=line))
    if kind in RESULTS:
        return Event(identity, _answer(record, RESULTS[kind], identity, line))
    message = _said(record, kind, identity, line)
    response = string(record, "llm_response_id")
    if kind == "MessageEvent" and record.get("source") != "agent":
        return Event(identity, message)
    call = Call(identity, time=moment(record, "timestamp"), line=line)
    return Event(identity, message, response or identity, call)


def _said(record: Object, kind: str, identity: str, line: int) -> Message:
    if kind == "MessageEvent":
        value = child(record, "llm_message")
        if value is None:
            raise FieldError("no llm_message, expected one in a MessageEvent")
        found = read_message(value, line=line)
        more = tuple(read_blocks(record.get("extended_content")))
    else:
        thought, call = record.get("thought"), child(record, "tool_call")
        value = {"content": thought, "tool_calls": [call] if call else []}
        value["reasoning_content"] = string(record, "reasoning_content")
        found, more = read_message(value, line=line, role="assistant"), ()
    thinking = _thinking(record if kind == "ActionEvent" else value)
    return Message(found.role, (*thinking, *found.parts, *more), id=identity, line=line)


def _thinking(value: Object) -> tuple[Part, ...]:
    """Thinking blocks, where the reply has no reasoning text beside them."""
    if value.get("reasoning_content"):
        return ()
    texts = [string(block, "thinking") for block in objects(value, "thinking_blocks") or ()]
    return tuple(Part("reasoning", text) for text in texts if text)


def _answer(record: Object, key: str, identity: str, line: int) -> Message:
    value = record.get(key)
    if isinstance(value, dict):
        content = value.get("content", value.get("output"))
        held = {name: item for name, item in value.items() if name != "kind"}
        parts = read_blocks(content) if content is not None else [Part("text", canonical(held))]
    else:
        parts = read_blocks(value)
    text = as_text((*parts, *read_blocks(record.get("extended_content"))))
    part = Part("tool_result", text, id=string(record, "tool_call_id"))
    return Message("tool", (part,), id=identity, name=string(record, "tool_name"), line=line)
