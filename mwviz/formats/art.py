"""ART trajectories: exchanges with an endpoint, or messages in which each choice is a call.

Fields of OpenPipe/ART's `Trajectory` and `TrajectoryGroup` in copies of several ages: the first had
`messages_and_choices` (commit d8ffe32), then `additional_histories` for what was not append-only.
Versions of late 2026 keep `exchanges` instead, lists `chat_completions`, `completions`, `responses`
and `messages` of {request, response, start_time, end_time}: what was sent and came back, call by
call. A trajectory has one of both; exchanges are read where there are any. What is not known: in
histories the order of calls across them, and ids and logprobs if the log left them out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mwviz.formats.api_log import exchange_calls
from mwviz.formats.call_fields import moment
from mwviz.formats.calls import read_generic
from mwviz.formats.chat import Pool
from mwviz.formats.exchange import Exchange, exchange
from mwviz.formats.fields import FieldError, Json, Object, number, objects_in, shown
from mwviz.formats.openai_responses import Chains
from mwviz.formats.percall import Row, gather, strays
from mwviz.formats.records import Record, Records
from mwviz.rollout import Call, Rollout

CHOICES, EXCHANGES = "messages_and_choices", "exchanges"
HISTORIES = "additional_histories"
PROTOCOLS = ("chat_completions", "completions", "responses", "messages")
INJECTED = "replies that were put in rather than sampled are context, as the file tells them apart"


def detects(head: Sequence[Record]) -> bool:
    """Whether a record is a trajectory, or a group of them, with exchanges or choices."""
    return any(_trajectories(record.value) for record in head)


def reads(records: Records) -> list[Rollout]:
    """One rollout a trajectory; its additional histories are lineages."""
    return gather(records, _rows)


def _trajectories(value: Json) -> list[Object]:
    given = objects_in(value, "trajectories") or ([value] if isinstance(value, dict) else [])
    return [one for one in given if _is_trajectory(one)]


def _is_trajectory(value: Object) -> bool:
    return isinstance(value.get(CHOICES), list) or bool(_exchanges(value))


def _exchanges(trajectory: Object) -> list[Object]:
    """Requests with their responses, of all endpoints, in the order in which they began."""
    given = trajectory.get(EXCHANGES)
    found = [item for key in PROTOCOLS for item in objects_in(given, key)]
    return sorted(found, key=_started)


def _started(item: Object) -> float:
    try:
        return moment(item, "start_time") or 0.0
    except FieldError:
        return 0.0


def _rows(record: Record, pool: Pool) -> Iterator[Row | FieldError]:
    trajectories = _trajectories(record.value)
    if not trajectories:
        raise FieldError(f"{shown(record.value)}, expected trajectories with exchanges or choices")
    yield from strays(record.value, "trajectories", _is_trajectory, "trajectory")
    for at, trajectory in enumerate(trajectories):
        name = f"line {record.line}, trajectory {at}"
        value = trajectory.get("reward")
        reward = number(trajectory, "reward") if isinstance(value, int | float) else None
        if exchanges := _exchanges(trajectory):
            yield from _exchanged(name, exchanges, record.line, pool, reward)
            continue
        yield from strays(trajectory, HISTORIES, lambda h: CHOICES in h, "history")
        for history in [trajectory, *objects_in(trajectory, HISTORIES)]:
            for item in _chosen(history, record.line, pool):
                if isinstance(item, FieldError):
                    yield item
                else:
                    yield Row(name, item, (INJECTED,), reward)


def _exchanged(
    name: str, exchanges: list[Object], line: int, pool: Pool, reward: float | None
) -> Iterator[Row | FieldError]:
    """The calls of a trajectory's exchanges."""
    chains = Chains()
    for item in exchanges:
        try:
            found: Exchange | None = exchange(item, line)
            if found is None:
                raise FieldError("an exchange without a request and its response")
            time = moment(item, "start_time")
            for call, doubts in exchange_calls(found, pool, chains):
                yield Row(name, call if time is None else replace(call, time=time), doubts, reward)
        except FieldError as error:
            yield error


def _is_said(item: Object) -> bool:
    return "role" in item or isinstance(item.get("message"), dict)


def _chosen(history: Object, line: int, pool: Pool) -> Iterator[Call | FieldError]:
    """A call for each choice, on all messages before it in its history."""
    before: list[Json] = []
    yield from strays(history, CHOICES, _is_said, "message or choice")
    for item in filter(_is_said, objects_in(history, CHOICES)):
        message = item.get("message")
        if not isinstance(message, dict):
            before.append(item)
            continue
        generic: Object = {
            "messages": list(before),
            "completion": message,
            "tools": history.get("tools"),
            "finish": item.get("finish_reason"),
        }
        before.append(message)
        try:
            yield read_generic(generic, line, pool)
        except FieldError as error:
            yield error
