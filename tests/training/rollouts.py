"""Small rollouts of recorded ids with log-probabilities and rewards."""

from __future__ import annotations

import numpy as np

from mwviz.analysis import Analysis
from mwviz.rollout import Call, Rollout
from tests.engine import tiny
from tests.engine.tiny import Calls

FOLD = (
    ([0, 1, 2, 3], [4, 5, 6]),
    ([0, 1, 2, 3, 4, 5, 6, 7, 8], [9, 10]),
    ([0, 1, 20, 21, 7, 8, 9, 10], [11, 12, 13]),
)
"""A summary (20, 21) in front of a kept tail."""


def analysis(
    name: str,
    calls: Calls,
    *,
    reward: float | None = None,
    logprobs: bool = True,
    temperature: float | None = 1.0,
) -> Analysis:
    random = np.random.default_rng(len(name) + len(calls))
    made = []
    for index, (prompt, completion) in enumerate(calls):
        said = -1.0 - random.exponential(1.5, len(completion)).astype(np.float32)
        made.append(
            Call(
                f"{name}{index}",
                prompt_ids=np.array(prompt, dtype=np.int32),
                completion_ids=np.array(completion, dtype=np.int32),
                logprobs=said if logprobs else None,
                temperature=temperature,
            )
        )
    return Analysis(Rollout(name, tuple(made), reward=reward))


def three(*, logprobs: bool = True) -> tuple[Analysis, ...]:
    """Drops, a rewind and a fold, with rewards 1, 0 and 0."""
    return (
        analysis("drops", tiny.RUNNING_EXAMPLE, reward=1.0, logprobs=logprobs),
        analysis("rewind", tiny.REWIND, reward=0.0, logprobs=logprobs),
        analysis("fold", FOLD, reward=0.0, logprobs=logprobs),
    )
