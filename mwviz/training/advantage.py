"""Advantages from the rewards that rollouts recorded. Numpy only.

The mean over rollouts with the same first prompt (the same task) is the baseline, that over all
where a task has one rollout only; both are divided by the spread. Letters: C calls.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mwviz.analysis import Analysis
from mwviz.errors import TraceError
from mwviz.rollout import Floats, Rollout


def recorded_advantages(analyses: Sequence[Analysis]) -> tuple[float, ...]:
    """One advantage a rollout, for all its calls; mean about 0, of the order of 1.

    Raises:
        TraceError: a rollout has no reward or no log-probabilities, or all rewards of every task
            are equal, so that there is nothing to learn from.
    """
    for analysis in analyses:
        if np.isnan(recorded_logprobs(analysis)).all():
            raise TraceError(
                f"rollout {analysis.rollout.id!r} has no recorded log-probabilities of temperature "
                "1, which a policy gradient needs; record them, or take the objective nll"
            )
    return reward_advantages([analysis.rollout for analysis in analyses])


def reward_advantages(rollouts: Sequence[Rollout]) -> tuple[float, ...]:
    """`recorded_advantages` of rollouts whether or not they have log-probabilities.

    Raises:
        TraceError: a rollout has no reward, or all rewards of every task are equal.
    """
    rewards = np.array([recorded_reward(rollout) for rollout in rollouts])
    tasks = [_task(rollout) for rollout in rollouts]
    spread = float(rewards.std())
    found = []
    for index, task in enumerate(tasks):
        group = rewards[[other == task for other in tasks]]
        alone = len(group) == 1
        middle, width = (rewards.mean(), spread) if alone else (group.mean(), float(group.std()))
        found.append(float((rewards[index] - middle) / width) if width > 0 else 0.0)
    if not any(found):
        raise TraceError(
            f"all rewards are equal ({rewards[0]:g}), so no rollout is better than another; "
            "take rollouts with other rewards, or the objective nll"
        )
    return tuple(found)


def recorded_reward(rollout: Rollout) -> float:
    """That of the rollout, else the sum over its calls.

    Raises:
        TraceError: it has none.
    """
    if rollout.reward is not None:
        return rollout.reward
    given = [call.reward for call in rollout.calls if call.reward is not None]
    if not given:
        raise TraceError(
            f"rollout {rollout.id!r} has no reward, which a policy gradient needs; "
            "record one, or take the objective nll"
        )
    return float(sum(given))


def recorded_logprobs(analysis: Analysis) -> Floats:
    """float32 (M,): recorded log-probabilities in nats; NaN where sampled at another temperature.

    A call that recorded no temperature is taken to have sampled at 1.
    """
    odd = [call.temperature not in (None, 1.0) for call in analysis.rollout.calls]
    tree = analysis.tree
    return np.where(np.array(odd, dtype=bool)[tree.call], np.nan, tree.logprob)


def _task(rollout: Rollout) -> bytes:
    """What the first call was asked: its token ids, else its messages."""
    for call in rollout.calls[:1]:
        if call.prompt_ids is not None:
            return np.asarray(call.prompt_ids, dtype=np.int32).tobytes()
        said = [
            (message.role, [(part.kind, part.text, part.name) for part in message.parts])
            for message in call.prompt or ()
        ]
        return repr(said).encode(errors="backslashreplace")
    return b""
