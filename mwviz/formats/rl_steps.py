"""Step records of rLLM, Agent Lightning and AReaL: each step is a call.

rLLM's `Episode.to_dict` (rllm/agents/agent.py, commit 1da0085) holds every step's whole chat, its
reply last. The episodes that its evaluations save, a JSON document each, may be compact
(rllm/eval/episode_compact.py, commit 623bf19, before that episode_codec.py, 8fe38b9): a trajectory
keeps each message once, as a node with its parent, and a step names the last one and how many there
are. Its gateway's traces are the format `rllm-gateway`. Agent Lightning's `Rollout` with triplets,
whose sides may hold anything: agentlightning/types/core.py, commit 097d0e1; what its newer gateway
stores was not looked at. AReaL's text export of interactions is as the formats page read it.
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
    child,
    label,
    number,
    objects,
    objects_in,
    shown,
)
from mwviz.formats.percall import Row, gather, strays
from mwviz.formats.records import Record, Records
from mwviz.rollout import Call, Rollout

RLLM = frozenset({"trajectories", "is_correct"})
STEP = frozenset({"prompt_ids", "response_ids", "chat_completions"})
CHAT = STEP | {"chat_completions_ref"}
"""Fields of which a step has some."""
SIDES = frozenset({"prompt", "response"})
ASKED = frozenset({"request", "response"})
DEFAULT_NAME = "default_traj_name"
"""What rLLM calls a trajectory that was given no name."""


def detects_rllm(head: Sequence[Record]) -> bool:
    """Whether a record is an episode with trajectories of steps."""
    return any(_episodes(record.value) for record in head)


def reads_rllm(records: Records) -> list[Rollout]:
    """One rollout an episode; its trajectories are agents."""
    return gather(records, _rllm_rows)


def detects_lightning(head: Sequence[Record]) -> bool:
    """Whether a record is a rollout with triplets."""
    return any(_triplets(record.value) for record in head)


def reads_lightning(records: Records) -> list[Rollout]:
    """One rollout a record."""
    return gather(records, _lightning_rows)


def detects_areal(head: Sequence[Record]) -> bool:
    """Whether a record is an export of interactions."""
    return any(_interactions(record.value) for record in head)


def reads_areal(records: Records) -> list[Rollout]:
    """One rollout a record."""
    return gather(records, _areal_rows)


def _episodes(value: Json) -> list[Object]:
    """The trajectories of an episode, or the one that the record is."""
    if isinstance(value, dict) and value.keys() >= RLLM:
        return objects_in(value, "trajectories")
    steps = objects_in(value, "steps")
    known = steps and isinstance(value, dict) and steps[0].keys() >= STEP
    return [value] if known and isinstance(value, dict) else []


def _rllm_rows(record: Record, pool: Pool) -> Iterator[Row | FieldError]:
    trajectories, value = _episodes(record.value), record.value
    if not trajectories or not isinstance(value, dict):
        raise FieldError(f"{shown(value)}, expected an episode with its trajectories")
    name = label(value, "id") or label(value, "uid") or f"episode on line {record.line}"
    yield from strays(value, "trajectories", lambda t: "steps" in t, "trajectory with steps")
    for trajectory in trajectories:
        given = label(trajectory, "name")
        lineage = "main" if given in (None, DEFAULT_NAME) else given
        nodes = child(trajectory, "message_nodes") or {}
        yield from strays(trajectory, "steps", lambda step: bool(step.keys() & CHAT), "step")
        for step in objects_in(trajectory, "steps"):
            if not step.keys() & CHAT:
                continue
            try:
                call = _step(_expanded(step, nodes), record.line, pool)
                yield Row(name, replace(call, lineage=lineage), (), _number(trajectory, "reward"))
            except FieldError as error:
                yield error


def _expanded(step: Object, nodes: Object) -> Object:
    """A step with the messages of its chat, which a compact episode names by the last of them."""
    chat = step.get("chat_completions")
    named = chat.get("messages_ref") if isinstance(chat, dict) else step.get("chat_completions_ref")
    if named is None:
        return step
    match named:
        case [at, size]:
            last = at
        case _:
            raise FieldError(f"{shown(named)}, expected the last message and their number")
    messages: list[Json] = []
    while at is not None:
        node = nodes.get(at) if isinstance(at, str) else None
        if not isinstance(node, dict) or len(messages) > len(nodes):
            raise FieldError(f"message_nodes has no way from {shown(last)} to a first message")
        messages.append(node.get("m"))
        at = node.get("p")
    if len(messages) != size:
        raise FieldError(f"message_nodes gives {len(messages)} messages, expected {shown(size)}")
    return {**step, "chat_completions": messages[::-1]}


def _step(step: Object, line: int, pool: Pool) -> Call:
    """A step of rLLM; empty lists stand for what was not recorded."""
    chat = objects(step, "chat_completions") or []
    reply = chat[-1] if chat and chat[-1].get("role") == "assistant" else None
    prompt: list[Json] = list(chat[:-1] if reply else chat)
    generic: Object = {
        "messages": prompt or None,
        "completion": reply or step.get("model_response"),
        "prompt_ids": step.get("prompt_ids") or None,
        "completion_ids": step.get("response_ids") or None,
        "logprobs": step.get("logprobs") or None,
        "reward": step.get("reward"),
        "weights": step.get("weight_version"),
    }
    return read_generic(generic, line, pool)


def _triplets(value: Json) -> list[Object]:
    found = objects_in(value, "triplets")
    return [triplet for triplet in found if triplet.keys() >= SIDES]


def _lightning_rows(record: Record, pool: Pool) -> Iterator[Row | FieldError]:
    triplets, value = _triplets(record.value), record.value
    if not triplets or not isinstance(value, dict):
        raise FieldError(f"{shown(value)}, expected a rollout with its triplets")
    name = label(value, "rollout_id") or f"rollout on line {record.line}"
    yield from strays(value, "triplets", lambda t: t.keys() >= SIDES, "prompt and response")
    for triplet in triplets:
        try:
            call = _triplet(triplet, record.line, pool)
        except FieldError as error:
            yield error
            continue
        yield Row(name, call, (), _number(value, "final_reward"))


def _triplet(triplet: Object, line: int, pool: Pool) -> Call:
    prompt, reply = _side(triplet["prompt"]), _side(triplet["response"])
    metadata = child(triplet, "metadata") or {}
    generic: Object = {
        "prompt_ids": prompt.get("token_ids"),
        "messages": prompt.get("messages"),
        "completion_ids": reply.get("token_ids"),
        "completion": reply.get("message"),
        "logprobs": reply.get("logprobs"),
        "reward": triplet.get("reward"),
        "lineage": metadata.get("agent_name"),
    }
    return read_generic(generic, line, pool)


def _side(value: Json) -> Object:
    """Token ids, messages or text of one side of a triplet."""
    if isinstance(value, str):
        return {"messages": [{"role": "user", "content": value}], "message": value}
    if isinstance(value, list):
        ids = all(isinstance(item, int) for item in value)
        return {"token_ids": value} if ids else {"messages": value, "message": value}
    return value if isinstance(value, dict) else {}


def _interactions(value: Json) -> list[Object]:
    found = objects_in(value, "interactions")
    return [item for item in found if item.keys() >= ASKED]


def _areal_rows(record: Record, pool: Pool) -> Iterator[Row | FieldError]:
    found, value = _interactions(record.value), record.value
    if not found or not isinstance(value, dict):
        raise FieldError(f"{shown(value)}, expected an export with its interactions")
    name = label(value, "id") or label(value, "session_id") or f"export on line {record.line}"
    yield from strays(value, "interactions", lambda i: i.keys() >= ASKED, "request and response")
    for item in found:
        request = item["request"]
        if isinstance(request, dict):
            request = request.get("messages", request.get("input"))
        if isinstance(request, str):
            request = [{"role": "user", "content": request}]
        generic: Object = {
            "messages": request,
            "completion": _reply(item["response"]),
            "reward": item.get("reward"),
        }
        try:
            yield Row(name, read_generic(generic, record.line, pool))
        except FieldError as error:
            yield error


def _reply(response: Json) -> Json:
    """The message of a response that may be the whole answer of an endpoint."""
    choices = objects_in(response, "choices")
    return choices[0].get("message") if choices else response


def _number(value: Object, key: str) -> float | None:
    return number(value, key) if isinstance(value.get(key), int | float) else None
