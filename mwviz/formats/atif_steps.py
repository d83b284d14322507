"""The steps of one ATIF trajectory to calls: contexts rebuilt, compactions kept apart.

The format lists evicted steps beside live ones. What a call saw is therefore rebuilt by rule, or
taken from the token ids where the steps have them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from mwviz.formats.calls import read_generic
from mwviz.formats.chat import Pool, arguments, read_blocks, tools_message
from mwviz.formats.fields import Json, Object, child, count, label, objects
from mwviz.formats.fields import string as text
from mwviz.formats.percall import Row
from mwviz.rollout import Call, ContentFidelity, Hint, Hole, Message, Part

MAIN = "main"
COMPACTION = re.compile(r"summari[sz]|compact|condens|hand ?off", re.IGNORECASE)
"""Words of a system step in mid-run that say that the context was replaced."""
DUMMY = 16
"""Token ids in an unbroken row of whole numbers from which they are taken for placeholders."""
HANDED = "-questions"
"""End of the name of Terminus' sub-agent whose exchange stands in the new context."""
REPLACED = "the text that replaced the steps before a compaction"
REBUILT = "its prompt is rebuilt from the steps: edits of the context leave no record in the file"
LOST = "what replaced the steps before a compaction is not in the file"
DUMMIES = "its token ids count up one by one: they are placeholders and are not used"
SUMS = "its step stands for several requests: its token counts are sums"


@dataclass(slots=True)
class Trajectory:
    """One trajectory while its steps are read."""

    document: Object
    rollout: str
    lineage: str
    line: int
    pool: Pool
    context: list[Message] = field(default_factory=list)
    opening: list[Message] = field(default_factory=list)
    """What stands before the first reply: it survives every compaction."""
    replied: bool = False
    compacted: bool = False
    """Whether a compaction stands before the next reply."""
    lost: bool = False
    """Whether the text behind the latest compaction is not known."""

    def open(self) -> None:
        """Start with the tool list, if the file has one."""
        agent = child(self.document, "agent") or {}
        if tools := agent.get("tool_definitions"):
            self.opening.append(self.pool(tools_message(tools, self.line)))
            self.context.extend(self.opening)

    def compact(self, handed: list[Object]) -> None:
        """Leave the opening only, with the exchange that the new context starts with."""
        self.context = list(self.opening)
        self.compacted, self.lost = True, not handed
        for step in handed:
            self.context.extend(self._messages(step))

    def add(self, step: Object) -> None:
        """A step that is context and no call."""
        found = self._messages(step)
        self.context.extend(found)
        if not self.replied and step.get("source") != "agent":
            self.opening.extend(found)
        self.replied = self.replied or step.get("source") == "agent"

    def call(self, step: Object) -> Row:
        """The call of an agent's step, on the context before it."""
        reply, *after = self._messages(step)
        metrics = child(step, "metrics") or {}
        agent = child(self.document, "agent") or {}
        call = read_generic(
            {
                "call": self._call_name(step),
                "messages": [],
                "lineage": self.lineage,
                "usage": metrics,
                "model": text(step, "model_name") or text(agent, "model_name"),
                "time": step.get("timestamp"),
                "prompt_ids": metrics.get("prompt_token_ids"),
                "completion_ids": metrics.get("completion_token_ids"),
                "logprobs": metrics.get("logprobs"),
            },
            self.line,
            self.pool,
        )
        call, doubts = self._judged(replace(call, completion=(reply,)), step)
        hints = (Hint("summary", "the file tells of a compaction"),) if self.compacted else ()
        self.context.extend((reply, *after))
        self.replied, self.compacted = True, False
        return Row(self.rollout, replace(call, hints=hints), doubts)

    def _call_name(self, step: Object) -> str:
        name = label(step, "step_id") or ""
        return name if self.lineage == MAIN or not name else f"{self.lineage}/{name}"

    def _judged(self, call: Call, step: Object) -> tuple[Call, tuple[str, ...]]:
        """The call with its prompt, by ids if they can be trusted; what is in doubt about it."""
        several = (SUMS,) if (count(step, "llm_call_count") or 1) > 1 else ()
        ids = call.prompt_ids
        if ids is not None and call.completion_ids is not None and not _counts_up(ids):
            return replace(call, prompt=None), several
        dummies = (DUMMIES,) if ids is not None else ()
        content: ContentFidelity = "partial" if self.lost else "rebuilt"
        said = replace(
            call,
            prompt=tuple(self.context),
            prompt_ids=None,
            completion_ids=None,
            logprobs=None,
            tokens="rendered",
            content=content,
            holes=(Hole(REPLACED),) if self.lost else (),
        )
        return said, (LOST if self.lost else REBUILT, *dummies, *several)

    def _messages(self, step: Object) -> list[Message]:
        """The step's own message, then one for each result that its tools gave."""
        source = text(step, "source") or "user"
        parts = tuple(_parts(step))
        role = "assistant" if source == "agent" else source
        found = [Message(role, parts, line=self.line)]
        found += [_result(result, self.line) for result in results(step) if _has_content(result)]
        return [self.pool(message) for message in found]


def is_compaction(step: Object, trajectory: Trajectory) -> bool:
    """Whether a step in mid-run says that the context was replaced."""
    if step.get("source") != "system" or not trajectory.replied:
        return False
    said = "\n".join(part.text for part in read_blocks(step.get("message")))
    return bool(COMPACTION.search(said)) or any(refers_to(step))


def results(step: Object) -> list[Object]:
    """What the tools of a step gave."""
    return objects(child(step, "observation") or {}, "results") or []


def refers_to(step: Object) -> Iterator[Object]:
    """The sub-trajectories that a step's results refer to."""
    for result in results(step):
        given = result.get("subagent_trajectory_ref")
        refs: list[Json] = given if isinstance(given, list) else [given]
        yield from (ref for ref in refs if isinstance(ref, dict))


def _counts_up(ids: np.ndarray) -> bool:
    return len(ids) >= DUMMY and bool((np.diff(ids) == 1).all())


def _parts(step: Object) -> Iterator[Part]:
    if reasoning := text(step, "reasoning_content"):
        yield Part("reasoning", reasoning)
    yield from read_blocks(step.get("message"))
    for call in objects(step, "tool_calls") or ():
        name, given = text(call, "function_name") or "", call.get("arguments")
        yield Part("tool_call", arguments(given), name=name, id=text(call, "tool_call_id"))


def _has_content(result: Object) -> bool:
    return result.get("content") is not None


def _result(result: Object, line: int) -> Message:
    """A tool's result; without a call it answers, it came as a user's message."""
    asked = text(result, "source_call_id")
    parts = tuple(read_blocks(result["content"]))
    if asked is None:
        return Message("user", parts, line=line)
    found = (replace(p, kind="tool_result", id=asked) if p.kind == "text" else p for p in parts)
    return Message("tool", tuple(found), line=line)
