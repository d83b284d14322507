"""MemexRL episodes: steps of an agent that compresses its messages and reads archived ones back.

Read in `src/agents/` of Accenture/MemexRL (agent.py, tool_agent.py and memory/mixin.py at commit
ab89e9b). An episode has the shape of rLLM's, but `chat_completions` of a step is the list after it,
with the reply and what was found. A compression leaves the system message, the task and one user
message with the summary; blocks that were put aside are appended when they are read back. The call
that compressed has no step: the list before each compression stands in `info.sft_segments` of the
trajectory, the last list as its `final` segment, so segments are read where there are any. Else a
step's prompt is `chat_completions_at_generation`, if it was filled, or what stands before its reply
in `chat_completions`. What is not known: the call that compressed, where the file has no segments;
the archive itself. Its training rows are slime samples with `episode_uid` (format `slime`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mwviz.formats.calls import read_generic
from mwviz.formats.chat import Pool
from mwviz.formats.fields import (
    FieldError,
    Json,
    Object,
    label,
    number,
    objects,
    objects_in,
    shown,
    string,
)
from mwviz.formats.percall import Row, gather, strays
from mwviz.formats.records import Record, Records
from mwviz.formats.step_calls import MAIN
from mwviz.rollout import Call, Hint, Message, Rollout

STEP = "is_compression_boundary"
SEGMENTS = "sft_segments"
SUMMARY = Hint("summary", "the agent compressed its messages")
NAMES = ("agent", "memory_agent")
"""What it calls a trajectory that was given no name."""


def detects(head: Sequence[Record]) -> bool:
    """Whether a record is an episode, or a trajectory, of steps that may compress."""
    return any(_trajectories(record.value) for record in head)


def reads(records: Records) -> list[Rollout]:
    """One rollout an episode; its trajectories are agents."""
    return gather(records, _rows)


def _segments(trajectory: Object) -> list[Object]:
    return objects_in(trajectory.get("info"), SEGMENTS) or objects_in(trajectory, SEGMENTS)


def _trajectories(value: Json) -> list[Object]:
    """The trajectories of an episode, or the one that the record is."""
    given = objects_in(value, "trajectories") or ([value] if isinstance(value, dict) else [])
    return [one for one in given if _is_trajectory(one)]


def _is_trajectory(value: Object) -> bool:
    steps = objects_in(value, "steps")
    return bool(_segments(value)) or any(STEP in step for step in steps)


def _rows(record: Record, pool: Pool) -> Iterator[Row | FieldError]:
    value, found = record.value, _trajectories(record.value)
    if not found or not isinstance(value, dict):
        raise FieldError(f"{shown(value)}, expected an episode of steps that may compress")
    name = label(value, "id") or label(value, "uid") or f"episode on line {record.line}"
    yield from strays(value, "trajectories", _is_trajectory, "trajectory of such steps")
    for trajectory in found:
        given = label(trajectory, "name")
        lineage = MAIN if given is None or given in NAMES else given
        calls = _of_segments if _segments(trajectory) else _of_steps
        for call in calls(trajectory, record.line, pool):
            if isinstance(call, FieldError):
                yield call
            else:
                yield Row(name, replace(call, lineage=lineage), (), number(trajectory, "reward"))


def _of_segments(trajectory: Object, line: int, pool: Pool) -> Iterator[Call | FieldError]:
    """Every reply in the lists that the compressions ended, each on all before it."""
    for place_of in (trajectory.get("info"), trajectory):
        yield from strays(place_of, SEGMENTS, lambda s: "messages" in s, "segment with messages")
    for at, segment in enumerate(_segments(trajectory)):
        try:
            yield from strays(segment, "messages", lambda m: "role" in m, "message")
            chat = objects(segment, "messages") or []
            hint: tuple[Hint, ...] = (SUMMARY,) if at else ()
            for place, message in enumerate(chat):
                if message.get("role") == "assistant":
                    yield replace(_call(chat[:place], message, line, pool), hints=hint)
                    hint = ()
        except FieldError as error:
            yield error


def _of_steps(trajectory: Object, line: int, pool: Pool) -> Iterator[Call | FieldError]:
    """Every step that says what it replied."""
    hint: tuple[Hint, ...] = ()
    yield from strays(trajectory, "steps", _is_step, "step with its reply")
    for step in filter(_is_step, objects_in(trajectory, "steps")):
        try:
            reply: Object = {"role": "assistant", "content": string(step, "model_response")}
            call = _call(_prompt(step), reply, line, pool)
            yield replace(call, reward=number(step, "reward"), hints=hint)
            hint = (SUMMARY,) if step.get(STEP) else ()
        except FieldError as error:
            yield error


def _is_step(value: Object) -> bool:
    return "model_response" in value


def _prompt(step: Object) -> list[Object]:
    """What the step was sent, as far as its lists tell."""
    if exact := objects(step, "chat_completions_at_generation"):
        return exact
    said = string(step, "model_response")
    before = objects(step, "chat_completions_before_compression")
    chat = before if step.get(STEP) and before else objects(step, "chat_completions") or []
    for place in range(len(chat) - 1, -1, -1):
        if chat[place].get("role") == "assistant" and chat[place].get("content") == said:
            return chat[:place]
    raise FieldError("a step whose reply is not in its list of messages: its prompt is not known")


def _call(prompt: list[Object], reply: Object, line: int, pool: Pool) -> Call:
    bare: list[Json] = [{k: v for k, v in message.items() if k != "metadata"} for message in prompt]
    call = read_generic({"messages": bare, "completion": reply}, line, pool)
    marked = [_marked(m, read) for m, read in zip(prompt, call.prompt or (), strict=True)]
    return replace(call, prompt=tuple(pool(message) for message in marked))


def _marked(given: Object, read: Message) -> Message:
    """A message that a compression left says so in its metadata."""
    metadata = given.get("metadata")
    made = isinstance(metadata, dict) and bool(metadata.get("compression"))
    return replace(read, mark="summary") if made else read
