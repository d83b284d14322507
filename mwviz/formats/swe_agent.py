"""SWE-agent `.traj` documents: the processed messages of each step, in three generations.

From 1.1 on, `query` is what was sent. In 1.0, `messages` was written after the step, so it shows
the next one's prompt. Older files hold the unprocessed history only: what was left out of a prompt
is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mwviz.formats.calls import read_generic
from mwviz.formats.chat import Pool, read_messages
from mwviz.formats.fields import FieldError, Json, Object, objects, objects_in, shown
from mwviz.formats.fields import string as text
from mwviz.formats.percall import Row, gather, strays
from mwviz.formats.records import Record, Records
from mwviz.rollout import Call, Message, Rollout

NAME = "traj"
STEP = frozenset({"action", "observation", "response"})
SHIFTED = (
    "its prompt is the list that was written after the step before; requests that were repeated in "
    "between are not in the file, and the list after the last step was sent in no call"
)
UNPROCESSED = (
    "only the whole history is in the file: what the harness left out of the prompt is not known"
)


def detects(head: Sequence[Record]) -> bool:
    """Whether a record is a document with steps."""
    return any(_steps(record.value) for record in head)


def reads(records: Records) -> list[Rollout]:
    """One rollout a document."""
    return gather(records, _rows)


def _steps(value: Json) -> list[Object]:
    return [step for step in objects_in(value, "trajectory") if step.keys() >= STEP]


def _rows(record: Record, pool: Pool) -> Iterator[Row | FieldError]:
    value, steps = record.value, _steps(record.value)
    if not steps or not isinstance(value, dict):
        raise FieldError(f"{shown(value)}, expected a document with a trajectory of steps")
    yield from strays(value, "trajectory", lambda step: step.keys() >= STEP, "step")
    environment = value.get("environment")
    name = environment if isinstance(environment, str) and environment else NAME
    history = _Sent(objects(value, "history") or [], pool, record.line)
    if any("query" in step for step in steps):
        yield from (Row(name, history.queried(step)) for step in steps if step.get("query"))
    elif any("messages" in step for step in steps):
        yield from (Row(name, call, (SHIFTED,)) for call in history.shifted(steps))
    else:
        yield from (Row(name, call, (UNPROCESSED,)) for call in history.unprocessed())


class _Sent:
    """The messages of one document, as they were sent."""

    def __init__(self, history: list[Object], pool: Pool, line: int) -> None:
        self.history, self.pool, self.line = history, pool, line
        self._replies = {text(item, "content") or "": item for item in history if _is_reply(item)}

    def queried(self, step: Object) -> Call:
        """The call of a step that says what it was sent."""
        return self._call(objects(step, "query") or [], self._reply(step))

    def shifted(self, steps: list[Object]) -> Iterator[Call]:
        """Calls whose prompts stand in the step before; the first one's is cut off its own list."""
        before: list[Object] | None = None
        for step in steps:
            after = objects(step, "messages") or []
            if before is None:
                before = after[: next((n for n, m in enumerate(after) if _is_reply(m)), 0)]
            reply = next((m for m in reversed(after) if _is_reply(m)), None)
            yield replace(self._call(before, reply or self._reply(step)), content="rebuilt")
            before = after

    def unprocessed(self) -> Iterator[Call]:
        """Each reply of the history, on all messages before it."""
        for at, item in enumerate(self.history):
            if _is_reply(item):
                yield replace(self._call(self.history[:at], item), content="unknown")

    def _reply(self, step: Object) -> Object:
        """The reply of a step: the history's message, which has its tool calls, else its text."""
        said = text(step, "response") or ""
        whole: Object = {"role": "assistant", "content": said}
        if calls := step.get("tool_calls"):
            return {**whole, "tool_calls": calls}
        return self._replies.get(said, whole)

    def _call(self, prompt: list[Object], reply: Object) -> Call:
        bare: Object = {"messages": [], "completion": _bare(reply)}
        call = read_generic(bare, self.line, self.pool)
        return replace(call, prompt=self._messages(prompt))

    def _messages(self, values: list[Object]) -> tuple[Message, ...]:
        return read_messages([_bare(value) for value in values], self.pool, self.line)


def _is_reply(item: Object) -> bool:
    """Whether the model wrote it: demonstrations are context."""
    return item.get("role") == "assistant" and not item.get("is_demo")


def _bare(item: Object) -> Object:
    """The message with its tool-call id under the name that chats give it."""
    ids = item.get("tool_call_ids")
    if isinstance(ids, list) and ids and "tool_call_id" not in item:
        return {**item, "tool_call_id": ids[0]}
    return item
