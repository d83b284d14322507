"""Arms that run side by side: when each has to stop, and after which step they are compared."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import torch

from examples.experiment.results import read_results

LATELY = 3
"""Steps whose longest says how long the next may take; the first one also builds what recurs."""
KEPT = 64
"""Steps whose weights are kept: how far one arm may be ahead of another."""
POLL = 0.5
"""Seconds between two looks at how far the others are."""


class Clock:
    """Whether there is time for one more step like the longest of the last few.

    Args:
        end: when all must be over, as `time.time` tells it.
    """

    def __init__(self, end: float) -> None:
        self._end = end
        self._last = time.time()
        self._lately: deque[float] = deque(maxlen=LATELY)

    def allows(self) -> bool:
        """To be asked before each step."""
        now = time.time()
        self._lately.append(now - self._last)
        self._last = now
        return now + max(self._lately) < self._end


class Kept:
    """The trained weights after each of the latest steps, in the computer's memory.

    Args:
        parts: what is trained, as it is before the first step.
    """

    def __init__(self, parts: Sequence[torch.Tensor]) -> None:
        self._parts = parts
        self._after: deque[list[torch.Tensor]] = deque(maxlen=KEPT)
        self.step = -1
        self.add()

    def add(self) -> None:
        """Keeps them as they are, after one step more."""
        self._after.append([part.detach().to("cpu", copy=True) for part in self._parts])
        self.step += 1

    @torch.no_grad()
    def go_back(self, step: int) -> None:
        """Puts them where they were after a step, or as near to it as is known, in place."""
        back = min(max(self.step - step, 0), len(self._after) - 1)
        for part, then in zip(self._parts, self._after[-1 - back], strict=True):
            part.copy_(then)
        self.step -= back


def common_step(path: Path, part: str, call: str, *, arms: int, end: float) -> int:
    """The step that every arm of a call has reached, once all have stopped.

    Arms that failed, or took no step at all, are not counted; 0 if none did take any.

    Args:
        path: the results that all write to.
        part: whose arms are compared.
        call: as their first lines name it.
        arms: how many there are.
        end: until when to wait for those that are missing, as `time.time` tells it.
    """
    while True:
        runs = [one for one in read_results(path) if one.part == part]
        mine = [one for one in runs if one.start.get("call") == call]
        reached = [line["step"] for run in mine for line in run.of("trained")]
        failed = sum(bool(run.of("failed")) and not run.of("trained") for run in mine)
        if len(reached) + failed >= arms or time.time() >= end:
            return min((step for step in reached if step), default=0)
        time.sleep(POLL)
