"""Codex session files (JSON Lines event logs) to rollouts, rebuilt by replay.

Three generations: a compaction that names its summary only, one that holds the history it leaves,
one that refers to earlier items. The tool list is never in the file; encrypted reasoning and the
summary of a remote compaction keep their place without text.

Read in openai/codex's `codex-history` and its scan of rollouts for a model's context (autumn 2026):
an entry of `replacement_history_entries` is `inline` (item, metadata), `reference` (item_id) or
`reference_v2` (item_id, source_digest: a SHA-256 of the whole item, which is not checked here); a
reference means the newest older item of that id, be it a response item, an item of an older
`replacement_history` or an inline entry. A record with a `guardian_history` and neither of both
lists says nothing of the model's context. `ghost_snapshot` items never reach the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from mwviz.formats.call_fields import moment
from mwviz.formats.chat import Pool
from mwviz.formats.codex_items import SUMMARY, is_sampled, read_item, read_items, reply
from mwviz.formats.fields import FieldError, Object, child, count, label, objects, string
from mwviz.formats.records import Record, Records
from mwviz.formats.replay import Replay, Unknown, each, listed
from mwviz.formats.sizes import characters, characters_per_token, used
from mwviz.rollout import Call, Hint, Hole, Message, Part, Rollout, Usage

KINDS = ("session_meta", "response_item", "turn_context", "event_msg", "compacted")
SHOWN_ONLY = (
    *("agent_message", "agent_reasoning", "agent_reasoning_raw_content", "user_message"),
    *("agent_reasoning_section_break", "background_event", "context_compacted", "error", "warning"),
    *("deprecation_notice", "entered_review_mode", "exited_review_mode", "model_reroute"),
    *("plan_update", "session_configured", "shutdown_complete", "stream_error", "task_complete"),
    *("thread_name_updated", "turn_aborted", "turn_complete", "turn_diff", "view_image_tool_call"),
)
"""Events for the user's eyes."""
STAGES = ("_begin", "_end", "_delta", "_started", "_completed", "_request", "_response", "_updated")
"""How such events end that tell a step of something."""
SESSION = "session"
"""Id of the rollout if no record names it."""
TOOLS = "tool list is not in the file"
SYSTEM = "system prompt is not in the file"
REINJECTED = "what stood in front of the kept user messages after the compaction is not in the file"
INLINE = ("inline", "item")
GUARDIAN = "guardian_history"
"""What a reviewer of tool calls saw; a record with nothing else changes no context."""
UNRESOLVED = "an earlier message that the compaction kept is not in the file"


def detects(head: Sequence[Record]) -> bool:
    """Whether a record has the type and the payload of a session's record."""
    return any(
        isinstance(record.value, dict)
        and record.value.get("type") in KINDS
        and isinstance(record.value.get("payload"), dict)
        for record in head
    )


def reads(records: Records) -> list[Rollout]:
    """One rollout: the session; sub-agents write files of their own."""
    session = _Session()
    each(records, session.take, "a session record")
    session.close()
    calls = _with_sizes(session.replay.calls)
    return [Rollout(session.id or SESSION, calls, warnings=tuple(session.warnings()))]


@dataclass(slots=True)
class _Session:
    """The session up to the record of this moment."""

    id: str | None = None
    replay: Replay = field(default_factory=lambda: Replay("main", (Hole(SYSTEM), Hole(TOOLS))))
    model: str | None = None
    pending: list[Message] = field(default_factory=list)
    """Pieces of the completion that is being read."""
    started: float | None = None
    """Time of its first piece."""
    items: dict[str, tuple[Object, int]] = field(default_factory=dict)
    """Items by id, for compactions that refer to them."""
    typed: set[str] = field(default_factory=set)
    """Texts that a person typed: each starts a turn."""
    total: Object | None = None
    unknown: Unknown = field(default_factory=Unknown)
    uncounted: list[int] = field(default_factory=list)
    unresolved: list[int] = field(default_factory=list)
    pool: Pool = field(default_factory=Pool)

    def take(self, record: Object, line: int) -> None:
        """Apply one record.

        Raises:
            FieldError: It is not what its type says.
        """
        kind = string(record, "type") or "none"
        payload = child(record, "payload")
        if kind not in KINDS:
            self.unknown.meet(kind, line)
            return
        if payload is None:
            raise FieldError("no payload, expected an object")
        if kind == "response_item":
            self._item(payload, line, moment(record, "timestamp"))
        elif kind == "event_msg":
            self._event(payload, line)
        elif kind == "compacted":
            self._compacted(payload, line)
        elif kind == "turn_context":
            self.model = string(payload, "model") or self.model
        else:
            self._meta(payload, line)

    def warnings(self) -> list[str]:
        """What a reader of the result should know."""
        return [
            *self.unknown.warnings,
            *listed(
                "token counts belong to no reply in the file (a summariser's call, a failed one)",
                self.uncounted,
                one="token count belongs to no reply in the file (a summariser's or a failed call)",
            ),
            *listed(
                "items that compactions keep are not in the file",
                self.unresolved,
                one="item that a compaction keeps is not in the file",
            ),
        ]

    def close(self) -> None:
        """End the completion that is being read."""
        if self.pending:
            number = len(self.replay.calls) + 1
            call = Call(
                f"call-{number}", model=self.model, time=self.started, line=self.pending[0].line
            )
            self.replay.answer(call, reply(self.pending, self.replay))
            self.pending, self.started = [], None

    def _meta(self, payload: Object, line: int) -> None:
        """The header; it is repeated on every resume."""
        identity = label(payload, "id")
        text = string(child(payload, "base_instructions") or {}, "text")
        self.id = self.id or identity
        if not text or identity != self.id:
            return
        system = self.pool(Message("system", (Part("text", text),), line=line))
        history = self.replay.history
        self.close()
        self.replay.holes = (Hole(TOOLS),)
        rest = history[1:] if history and history[0].role == "system" else history
        self.replay.replace([system, *rest])

    def _item(self, payload: Object, line: int, time: float | None) -> None:
        message = read_item(payload, line, self.replay)
        if identity := string(payload, "id"):
            self.items[identity] = (payload, line)
        if message is None:
            return
        if is_sampled(payload):
            self.started = time if not self.pending else self.started
            self.pending.append(message)
            return
        self.close()
        self.replay.append(message)

    def _event(self, payload: Object, line: int) -> None:
        kind = string(payload, "type")
        if kind == "token_count":
            self._counted(child(payload, "info") or {}, line)
        elif kind == "user_message":
            self.typed.add((string(payload, "message") or "").strip())
        elif kind == "thread_rolled_back":
            turns = count(payload, "num_turns")
            if turns is None:
                raise FieldError("turns are rolled back, but num_turns does not say how many")
            self._rolled_back(turns)
        elif kind not in SHOWN_ONLY and not (kind or "").endswith(STAGES):
            self.unknown.meet(kind, line, "event")

    def _is_turn(self, message: Message) -> bool:
        return message.role == "user" and not message.mark and message.text.strip() in self.typed

    def _rolled_back(self, number: int) -> None:
        self.close()
        starts = [at for at, m in enumerate(self.replay.history) if self._is_turn(m)]
        if number and starts:
            at = starts[-min(number, len(starts))]
            self.replay.cut(at, Hint("rewind", f"{number} turns rolled back"))

    def _counted(self, info: Object, line: int) -> None:
        """Token counts of the call that ended last; repeated counts say nothing new."""
        last, total = child(info, "last_token_usage") or {}, child(info, "total_token_usage")
        usage = Usage(
            count(last, "input_tokens"),
            count(last, "output_tokens"),
            count(last, "cached_input_tokens"),
        )
        if not usage.prompt or (total is not None and total == self.total):
            return
        self.total = total
        self.close()
        calls = self.replay.calls
        if calls and calls[-1].usage is None:
            calls[-1] = replace(calls[-1], usage=usage)
        else:
            self.uncounted.append(line)

    def _compacted(self, payload: Object, line: int) -> None:
        entries = objects(payload, "replacement_history_entries")
        kept = objects(payload, "replacement_history")
        if entries is None and kept is None and payload.get(GUARDIAN) is not None:
            return
        self.close()
        summary = string(payload, "message") or ""
        if entries is not None:
            found, lost = self._resolved(entries, line)
        elif kept is not None:
            found, lost = [(item, line) for item in kept], 0
        else:
            self._by_rule(summary, line)
            return
        messages = read_items(found, self.replay)
        self.items.update((i, e) for e in found if (i := string(e[0], "id")))
        if not any(m.mark == "summary" for m in messages):
            messages = _marked(messages, summary)
        if lost and messages:
            self.unresolved += [line] * lost
            self.replay.lacks(messages[0], UNRESOLVED)
        self._replace(messages, payload)

    def _resolved(self, entries: list[Object], line: int) -> tuple[list[tuple[Object, int]], int]:
        """Items of the entries, and how many refer to an item that is not in the file."""
        found: list[tuple[Object, int]] = []
        for entry in entries:
            if string(entry, "type") == INLINE[0]:
                found.append((child(entry, INLINE[1]) or {}, line))
            elif known := self.items.get(string(entry, "item_id") or ""):
                found.append(known)
        return found, len(entries) - len(found)

    def _by_rule(self, summary: str, line: int) -> None:
        """The first generation: user messages are kept, the summary stands behind them."""
        users = [m for m in self.replay.history if m.role == "user" and m.mark is None]
        typed = [m for m in users if self._is_turn(m)]
        header = [m for m in self.replay.history[:1] if m.role == "system"]
        last = Message(
            "user",
            (Part("text", summary),),
            id=f"compacted-{line}",
            mark="summary",
            line=line,
        )
        self.replay.lacks(last, REINJECTED)
        self.replay.replace([*header, *(typed or users), last], Hint("summary"))

    def _replace(self, messages: list[Message], payload: Object) -> None:
        header = [m for m in self.replay.history[:1] if m.role == "system" and m.id is None]
        window = count(payload, "window_number")
        opaque = any(part.name == "compaction" for m in messages for part in m.parts)
        said = ["remote"] if opaque else []
        said += [f"window {window}"] if window is not None else []
        self.replay.replace([*header, *messages], Hint("summary", ", ".join(said)))


def _marked(messages: list[Message], summary: str) -> list[Message]:
    """The last user message is the summary where the record names its text."""
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if message.role == "user" and summary and message.text.strip() == summary.strip():
            return [*messages[:at], replace(message, mark="summary"), *messages[at + 1 :]]
    return messages


def _with_sizes(calls: list[Call]) -> tuple[Call, ...]:
    """The calls, their holes with sizes from the token counts.

    What the first prompt of all has over its text is the tool list; what the first prompt after a
    compaction has over that is the encrypted summary.
    """
    starts = [0, *(at for at, c in enumerate(calls) if any(h.kind == "summary" for h in c.hints))]
    generations = [range(a, b) for a, b in pairwise([*starts, len(calls)])]
    sizes = characters(calls)
    rate = characters_per_token(calls, generations, sizes)
    found: list[Call] = []
    tools: int | None = None
    for generation in filter(None, generations):
        first = calls[generation[0]]
        left = max(0, round(used(first) - sizes[generation[0]] / rate)) if used(first) else None
        tools = left if generation[0] == 0 else tools
        summary = None if left is None or tools is None else max(0, left - tools)
        known = {TOOLS: tools, SUMMARY: summary}
        for call in calls[generation[0] : generation[-1] + 1]:
            holes = tuple(replace(hole, tokens=known.get(hole.why)) for hole in call.holes)
            found.append(replace(call, holes=holes))
    return tuple(found)
