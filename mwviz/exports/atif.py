"""ATIF trajectories: a new part at each eviction, what it keeps marked as copied context.

The format lists steps, not prompts; parts joined by `continued_trajectory_ref` are how it says that
a context was replaced. Sub-agents have files of their own. Token ids, where recorded, make each
call exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple, cast

from mwviz.errors import TraceError
from mwviz.exports.chat import is_plain, without_tools
from mwviz.formats.fields import Json, Object, decoded
from mwviz.formats.mwviz1_writer import id_list, logprob_list
from mwviz.rollout import Call, Message, Part, Rollout

VERSION = "ATIF-v1.7"


def trajectories(rollout: Rollout, stem: str) -> dict[str, Object]:
    """The documents of a rollout by file name, the main agent's first; `stem` is what they share.

    Every further agent has files of its own, which the main agent's step before its first call
    refers to.

    Raises:
        TraceError: The rollout has no messages, or some that a step cannot hold; says which call.
    """
    main = rollout.calls[0].lineage if rollout.calls else None
    names = {main: _Name(rollout.id, stem)}
    agents: dict[str | None, list[_Part]] = {main: []}
    for call in rollout.calls:
        if call.lineage not in names:
            number = len(names)
            name = _Name(call.lineage or f"sub-agent-{number}", stem, number)
            names[call.lineage], agents[call.lineage] = name, []
            agents[main][-1].refer(name)
        parts = agents[call.lineage]
        prompt = _prompt(rollout, call)
        if not parts or not parts[-1].continues(prompt):
            before = parts[-1].context if parts else None
            parts.append(_Part(names[call.lineage], call, prompt, number=len(parts), before=before))
        parts[-1].add(call, prompt)
    documents: dict[str, Object] = {}
    for parts in agents.values():
        for part, following in zip(parts, [*parts[1:], None], strict=True):
            if following is not None:
                part.document["continued_trajectory_ref"] = following.file
            documents[part.file] = part.document
    return documents


class _Name(NamedTuple):
    """What an agent is called, and its files."""

    session: str
    stem: str
    number: int = 0
    """Of the agent; 0 is the main one."""

    def file(self, part: int) -> str:
        """The file of one of its parts, by plain name."""
        agent = f".sub-agent-{self.number}" if self.number else ""
        continued = f".cont-{part}" if part else ""
        return f"{self.stem}.trajectory{agent}{continued}.json"


def _prompt(rollout: Rollout, call: Call) -> Sequence[Message]:
    if call.prompt is None:
        raise TraceError(
            f"rollout {rollout.id!r}, call {call.id!r}: no messages are recorded, expected them; "
            "take --as calls"
        )
    for message in (*call.prompt, *(call.completion or ())):
        tools = [part.name for part in message.parts] == ["tools"]
        result = [part.kind for part in message.parts] == ["tool_result"]
        if not (tools or result or is_plain(message)):
            kinds = ", ".join(part.kind for part in message.parts)
            raise TraceError(
                f"rollout {rollout.id!r}, call {call.id!r}: a step cannot hold a message of "
                f"{kinds}; take --as calls"
            )
    return call.prompt


class _Part:
    """One trajectory: calls that only extend the context."""

    def __init__(
        self,
        name: _Name,
        call: Call,
        prompt: Sequence[Message],
        *,
        number: int,
        before: Sequence[bytes] | None,
    ) -> None:
        """Starts with the prompt of its first call.

        Args:
            name: of the agent and its files.
            call: the first call of the part.
            prompt: its messages.
            number: of the part, from 0.
            before: content keys of the context that the part before ended with; None if none is.
        """
        tools, messages = without_tools(prompt)
        agent: Object = {"name": name.session if name.number else "agent", "version": "1"}
        if call.model is not None:
            agent["model_name"] = call.model
        if isinstance(tools, list):
            agent["tool_definitions"] = tools
        if number:
            agent["extra"] = {"continuation_index": number}
        self.file = name.file(number)
        self._steps: list[Object] = []
        self.context = [m.content_key for m in prompt[: len(prompt) - len(messages)]]
        self._answers: Object | None = None
        self.document: Object = {
            "schema_version": VERSION,
            "session_id": name.session,
            "agent": agent,
            "steps": cast("Json", self._steps),
        }
        for message in messages if before is not None else ():
            self._say(message, copied=message.content_key in (before or ()))

    def continues(self, prompt: Sequence[Message]) -> bool:
        """Whether the prompt starts with the context so far."""
        keys = [message.content_key for message in prompt[: len(self.context)]]
        return keys == self.context

    def add(self, call: Call, prompt: Sequence[Message]) -> None:
        """The call's new messages, then its reply."""
        for message in prompt[len(self.context) :]:
            self._say(message, copied=False)
        for message in call.completion or ():
            self._say(message, copied=False, sampled=True)
        if call.completion:
            step = self._steps[-1]
            step |= {"metrics": _metrics(call), "llm_call_count": 1}
            if call.time is not None:
                step["timestamp"] = datetime.fromtimestamp(call.time, UTC).isoformat()

    def refer(self, agent: _Name) -> None:
        """Says, at the latest step of the agent or its user, that another agent begins."""
        steps = [step for step in self._steps if step["source"] != "system"] or self._steps
        if not steps:
            raise TraceError(f"agent {agent.session!r} begins before any message; take --as calls")
        reference: Json = {"session_id": agent.session, "trajectory_path": agent.file(0)}
        _results(steps[-1]).append({"subagent_trajectory_ref": [reference]})

    def _say(self, message: Message, *, copied: bool, sampled: bool = False) -> None:
        self.context.append(message.content_key)
        if message.role == "tool" and self._answers is not None:
            result = message.parts[0]
            _results(self._answers).append({"source_call_id": result.id, "content": result.text})
            return
        step = _step(message, number=len(self._steps) + 1)
        if copied or (message.role == "assistant" and not sampled):
            step["is_copied_context"] = True
        self._steps.append(step)
        self._answers = step if message.role == "assistant" else None


def _results(step: Object) -> list[Json]:
    """The results of a step, to be added to."""
    observation = step.setdefault("observation", {"results": []})
    return cast("list[Json]", cast("Object", observation)["results"])


def _step(message: Message, *, number: int) -> Object:
    source = {"assistant": "agent", "system": "system"}.get(message.role, "user")
    step: Object = {"step_id": number, "source": source, "message": _text(message.parts)}
    if reasoning := [part.text for part in message.parts if part.kind == "reasoning"]:
        step["reasoning_content"] = reasoning[0]
    calls: list[Json] = [
        {
            "tool_call_id": part.id,
            "function_name": part.name,
            "arguments": decoded(part.text),
        }
        for part in message.parts
        if part.kind == "tool_call"
    ]
    return step | ({"tool_calls": calls} if calls else {})


def _text(parts: Sequence[Part]) -> Json:
    texts = [part.text for part in parts if part.kind in ("text", "tool_result")]
    if len(texts) == 1:
        return texts[0]
    return [{"type": "text", "text": text} for text in texts] if texts else ""


def _metrics(call: Call) -> Object:
    usage = call.usage
    metrics: Object = {
        "prompt_tokens": None if usage is None else usage.prompt,
        "completion_tokens": None if usage is None else usage.completion,
        "cached_tokens": None if usage is None else usage.cached,
        "prompt_token_ids": id_list(call.prompt_ids),
        "completion_token_ids": id_list(call.completion_ids),
        "logprobs": logprob_list(call.logprobs),
    }
    return {key: value for key, value in metrics.items() if value is not None}
