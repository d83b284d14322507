"""Advantages from rewards: which rollouts are of one task."""

from __future__ import annotations

import numpy as np
import pytest

from mwviz.errors import TraceError
from mwviz.rollout import Call, Message, Part, Rollout
from mwviz.training.advantage import reward_advantages


def test_the_same_messages_are_the_same_task() -> None:
    def rollout(name: str, question: str, reward: float) -> Rollout:
        asked = (Message("user", (Part("text", question),), id=name, line=ord(name)),)
        return Rollout(name, (Call(id="0", prompt=asked),), reward=reward)

    told = [rollout("a", "one", 0.0), rollout("b", "one", 2.0), rollout("c", "two \ud800", 5.0)]
    found = reward_advantages(told)
    assert found[:2] == (-1.0, 1.0), "of each other alone"
    rewards = np.array([0.0, 2.0, 5.0])
    assert found[2] == pytest.approx((5 - rewards.mean()) / rewards.std())


def test_a_file_without_rewards_or_with_equal_ones_says_so() -> None:
    ids = np.array([1, 2], dtype=np.int32)
    calls = (Call(id="0", prompt_ids=ids),)
    with pytest.raises(TraceError, match="'b' has no reward"):
        reward_advantages([Rollout("a", calls, reward=1.0), Rollout("b", calls)])
    with pytest.raises(TraceError, match=r"all rewards are equal \(1\)"):
        reward_advantages([Rollout("a", calls, reward=1.0), Rollout("b", calls, reward=1.0)])
