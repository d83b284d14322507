"""Work that can be stopped between its parts: it pauses there, and gives its result at last."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TypeVar

from mwviz.engine.steps import Result, Step

Found = TypeVar("Found")
Pausing = Generator[None, None, Found]
"""To stop it, close it."""


def paused(steps: Iterator[Step[Result]]) -> Pausing[Result]:
    """Pauses after every step of the engine's work, which ends where it is closed."""
    assert isinstance(steps, Generator)
    result: Result | None = None
    with closing(steps):
        for step in steps:
            result = step.result
            yield
    assert result is not None, "the last step carries the result"
    return result
