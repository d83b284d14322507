"""verl's agent-loop outputs as JSON: one row of tokens an agent; FoldAgent writes one a branch.

Fields of verl's `AgentLoopOutput` (prompt_ids, response_ids, response_mask, response_logprobs,
reward_score, extra_fields), as `agents/fold_agent.py` of sunnweiwei/FoldAgent fills them (commit
0aa8ff1): `extra_fields` holds agent_name (main, `#0-...` for a branch), uid, gen_uid and the
agent's messages. A branch begins with all messages of the main agent, runs on, and only its last
message returns to main: a fold. Rows come main first; a branch's calls are put behind the call of
main that opened it, by the messages that both share. In evaluation only main is written. What is
not known: ids that a branch's history was sampled with (it is encoded again), and, without
messages, when a branch ran.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mwviz.formats.fields import (
    FieldError,
    Json,
    Object,
    child,
    label,
    number,
    objects,
    shown,
    token_ids,
)
from mwviz.formats.origin import Origin, read_origin, with_tokenizers
from mwviz.formats.percall import Row, gather
from mwviz.formats.records import Record, Records
from mwviz.formats.row_logs import row_doubts
from mwviz.formats.step_calls import MAIN
from mwviz.formats.token_rows import marks, row_calls, row_logprobs, token_row
from mwviz.rollout import Call, Hint, Rollout

ROW = frozenset({"prompt_ids", "response_ids", "response_mask"})
UNPLACED = "its row has no messages that say when the branch ran: it is put behind main"
FOLD = Hint("fold", "a branch returned its message and is gone")


def detects(head: Sequence[Record]) -> bool:
    """Whether a record is a row with prompt, response and its mask, or a list of them."""
    return any(_outputs(record.value) for record in head)


def reads(records: Records) -> list[Rollout]:
    """One rollout of all rows of one sampled task."""
    groups: dict[str, list[_Agent]] = {}
    last: dict[str, Record] = {}
    samples: dict[str, int] = {}
    for record in records:
        outputs = _outputs(record.value)
        if not outputs:
            records.drop(record, f"{shown(record.value)}, expected an agent's row of tokens")
        for at, value in enumerate(outputs):
            try:
                agent = _agent(value, f"row on line {record.line}, {at}", record.line)
            except FieldError as error:
                records.drop(record, str(error))
                continue
            if agent.name == MAIN:
                samples[agent.task] = samples.get(agent.task, 0) + 1
            sample = samples.get(agent.task, 1)
            name = agent.task if sample == 1 else f"{agent.task}-{sample}"
            groups.setdefault(name, []).append(agent)
            last[name] = record
    rows = [row for name, agents in groups.items() for row in _ordered(name, agents)]
    found = gather(records, lambda _record, _pool: rows, given=list(last.values())[:1])
    return with_tokenizers(found, {name: agents[0].origin for name, agents in groups.items()})


def _outputs(value: Json) -> list[Object]:
    given = value if isinstance(value, list) else [value]
    return [one for one in given if isinstance(one, dict) and one.keys() >= ROW]


@dataclass(frozen=True, slots=True, eq=False)
class _Agent:
    task: str
    name: str
    calls: list[Call]
    doubts: tuple[str, ...]
    origin: Origin
    messages: list[Object]
    reward: float | None


def _agent(value: Object, default: str, line: int) -> _Agent:
    extra = child(value, "extra_fields") or {}
    parts = [found for key in ("uid", "gen_uid") if (found := label(extra, key))]
    prompt, reply = token_ids(value, "prompt_ids"), token_ids(value, "response_ids")
    mask = marks(value, "response_mask")
    if prompt is None or reply is None or mask is None:
        raise FieldError("a row without prompt_ids, response_ids or response_mask")
    ids = np.concatenate((prompt, reply), dtype=np.int32)
    row = token_row(ids, mask, row_logprobs(value, "response_logprobs"))
    origin = read_origin(extra)
    return _Agent(
        task=" ".join(parts) or default,
        name=label(extra, "agent_name") or MAIN,
        calls=[origin.mark(call) for call in row_calls(row, set(), line)],
        doubts=row_doubts(row, origin),
        origin=origin,
        messages=objects(extra, "messages") or [],
        reward=number(value, "reward_score"),
    )


def _ordered(name: str, agents: list[_Agent]) -> Iterator[Row]:
    """The calls of main, those of each branch behind the call that opened it."""
    main = next((agent for agent in agents if agent.name == MAIN), agents[0])
    branches: dict[int, list[_Agent]] = {}
    for agent in agents:
        if agent is not main:
            branches.setdefault(_opened(main, agent), []).append(agent)
    hint: tuple[Hint, ...] = ()
    for at in range(len(main.calls) + 1):
        if at:
            yield _row(name, main, main.calls[at - 1], hint, main.doubts)
            hint = ()
        for branch in branches.get(at, ()):
            for call in branch.calls:
                doubts = branch.doubts if branch.messages else (*branch.doubts, UNPLACED)
                yield _row(name, main, call, hint, doubts)
                hint = ()
            hint = (FOLD,) if branch.calls else hint


def _row(
    name: str, main: _Agent, call: Call, hints: tuple[Hint, ...], doubts: tuple[str, ...]
) -> Row:
    call = replace(call, lineage=MAIN, hints=hints)
    return Row(name, call, doubts, main.reward)


def _opened(main: _Agent, branch: _Agent) -> int:
    """How many replies of main the branch begins with; all of them if its messages do not tell."""
    shared = 0
    for ours, theirs in zip(main.messages, branch.messages, strict=False):
        if ours != theirs:
            break
        shared += ours.get("role") == "assistant"
    return min(shared, len(main.calls)) if shared else len(main.calls)
