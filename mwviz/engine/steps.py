"""Long work as an iterator of steps: what is done, how long the rest takes, at last the result.

To cancel, stop iterating. No torch here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

Result = TypeVar("Result")


class Step(NamedTuple, Generic[Result]):
    """How far the work has come."""

    done: int
    """Units finished; what a unit is (tokens, targets) the work says."""
    total: int
    eta: float
    """Seconds still to go at the speed so far."""
    result: Result | None = None
    """Only in the last step."""


def remaining(seconds: float, done: int, total: int) -> float:
    """Seconds still to go if the rest takes as long a unit as what is done."""
    return seconds / done * (total - done) if done else 0.0


def finish(steps: Iterable[Step[Result]]) -> Result:
    """Runs the work to its end and gives its result."""
    result = None
    for step in steps:
        result = step.result
    assert result is not None, "the last step carries the result"
    return result
