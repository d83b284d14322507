"""Tinker trajectories as JSON: transitions of an observation's tokens and an action's.

Fields of tinker_cookbook/rl/types.py (commit 30a5f55): a group has `trajectories_G` and
`final_rewards_G`, a trajectory `transitions`, a transition `ob` (a ModelInput: `chunks`, of which
the kind `encoded_text` has `tokens`), `ac` (`tokens`, `maybe_logprobs`) and `reward`. The cookbook
writes none of it by itself: its `*_rollout_summaries.jsonl` (rollout_logging.py, commit be51622)
hold the lengths only (`ob_len`, `ac_len`), which is said when one is opened. What is not known:
images and other chunks without tokens; a call whose observation has one is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mwviz.formats.calls import read_generic
from mwviz.formats.chat import Pool
from mwviz.formats.fields import (
    FieldError,
    Json,
    Object,
    child,
    label,
    members,
    number,
    objects_in,
    score,
    shown,
)
from mwviz.formats.percall import Row, gather, strays
from mwviz.formats.records import Record, Records
from mwviz.formats.step_calls import MAIN
from mwviz.rollout import Call, Rollout

GROUP, STEPS = "trajectories_G", "transitions"
LENGTHS = ("ob_len", "ac_len")
NO_TOKENS = (
    "a rollout summary, which holds the lengths of observations and actions, no tokens: write the "
    "transitions of the trajectories as JSON instead"
)


def detects(head: Sequence[Record]) -> bool:
    """Whether a record is a trajectory, a group of them, or a summary of one."""
    return any(_trajectories(record.value) or _is_summary(record.value) for record in head)


def reads(records: Records) -> list[Rollout]:
    """One rollout a trajectory."""
    return gather(records, _rows)


def _trajectories(value: Json) -> list[Object]:
    given = objects_in(value, GROUP) or ([value] if isinstance(value, dict) else [])
    return [one for one in given if any("ob" in s and "ac" in s for s in objects_in(one, STEPS))]


def _is_summary(value: Json) -> bool:
    return any(all(key in step for key in LENGTHS) for step in objects_in(value, "steps"))


def _rows(record: Record, pool: Pool) -> Iterator[Row | FieldError]:
    value, found = record.value, _trajectories(record.value)
    if _is_summary(value):
        raise FieldError(NO_TOKENS)
    if not found or not isinstance(value, dict):
        raise FieldError(f"{shown(value)}, expected trajectories with their transitions")
    finals = members(value, "final_rewards_G") or []
    yield from strays(value, GROUP, lambda one: STEPS in one, "trajectory of transitions")
    for at, trajectory in enumerate(found):
        steps = objects_in(trajectory, STEPS)
        name = label(trajectory, "id") or f"line {record.line}, trajectory {at}"
        reward = sum(number(step, "reward") or 0.0 for step in steps)
        reward += _final(finals, at)
        for step in steps:
            try:
                yield Row(name, _call(step, record.line, pool), (), reward)
            except FieldError as error:
                yield error


def _final(rewards: list[Json], at: int) -> float:
    """What a trajectory got at its end; 0 where that is no number."""
    found = rewards[at] if at < len(rewards) else None
    name = f"final_rewards_G[{at}]"
    return score({name: found}, name) or 0.0


def _call(step: Object, line: int, pool: Pool) -> Call:
    action = child(step, "ac") or {}
    generic: Object = {
        "lineage": MAIN,
        "prompt_ids": _observed(step.get("ob")),
        "completion_ids": action.get("tokens"),
        "logprobs": action.get("maybe_logprobs", action.get("logprobs")),
        "reward": step.get("reward"),
    }
    return read_generic(generic, line, pool)


def _observed(value: Json) -> Json:
    """The tokens of a ModelInput, or of a plain list of them."""
    if not isinstance(value, dict):
        return value
    tokens: list[Json] = []
    for chunk in objects_in(value, "chunks"):
        inner = members(chunk, "tokens")
        if inner is None:
            raise FieldError(f"a chunk of the kind {shown(chunk.get('type'))} has no tokens")
        tokens += inner
    return tokens
