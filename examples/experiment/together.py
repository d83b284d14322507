"""Arms that run side by side: when each has to stop, and after which step they are compared."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import torch

from examples.experiment.job import Job
from examples.experiment.log import Log, Name
from examples.experiment.results import Run, read_lines, read_results

LATELY = 3
"""Steps whose longest says how long the next may take; the first one also builds what recurs."""
KEPT = 64
"""Steps whose weights are kept: how far an arm can go back."""
LEAD, EVERY = 32, 8
"""Steps that an arm may be ahead of the slowest, and between two looks at how far that is."""
POLL = 0.5
"""Seconds between two looks at how far the others are."""
PATIENCE = 90.0
"""Seconds without a step of the slowest after which it is waited for no longer: more than an arm
takes to start, or to make a step again in smaller parts."""


NOT_BEGUN = Name("", "", -1)
"""Stands for the arms that have not written a line yet."""


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

    def pause(self) -> None:
        """What passed since the last question was no step."""
        self._last = time.time()


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


class Pace:
    """Keeps an arm near those that it is compared with.

    A step that it could not go back from is of no use, and the card is free for the others. Arms
    that failed are not waited for; those that have not begun are, and those that stand still for
    `PATIENCE` are waited for no longer, until they take a step: they hang.

    An arm that has stopped is waited for to the end: it never comes nearer.

    Args:
        log: the arm's.
        job: its own.
        end: until when to wait, as `time.time` tells it.
    """

    def __init__(self, log: Log, job: Job, *, end: float) -> None:
        self._log, self._job, self._end = log, job, end
        self._hanging: dict[Name, int] = {}
        """The step at which each stands."""

    def waits(self, step: int) -> bool:
        """Waits while the arm is too far ahead of the slowest; says whether it did.

        Args:
            step: that it has reached.
        """
        began = moved = time.time()
        before: dict[Name, int] = {}
        while self._job.together > 1 and time.time() < self._end:
            behind = self._too_far_behind(step)
            if not behind:
                break
            if behind != before:
                moved = time.time()
            elif time.time() - moved > PATIENCE:
                self._hanging |= behind
            before = behind
            time.sleep(POLL)
        waited = time.time() - began
        if before:
            self._log.write("waited", step=step, seconds=waited)
        return bool(before)

    def _too_far_behind(self, step: int) -> dict[Name, int]:
        """The step of every arm that is `LEAD` or more behind and not known to hang."""
        runs = _of_part(self._log.path, self._job)
        steps = {run.name: run.steps for run in runs if not run.of("failed")}
        if len(runs) < self._job.together:
            steps[NOT_BEGUN] = 0
        self._hanging = {one: at for one, at in self._hanging.items() if steps.get(one) == at}
        stopped = {run.name for run in runs if run.of("trained")}
        return {
            name: reached
            for name, reached in steps.items()
            if step - reached >= LEAD and (name not in self._hanging or name in stopped)
        }


def take_steps(turns: Generator[None], kept: Kept, log: Log, job: Job, *, end: float) -> None:
    """Takes as many of an arm's steps as there is time for, near those that it is compared with.

    Args:
        turns: a step each.
        kept: of the weights that they change.
        log: the arm's.
        job: its own.
        end: when the last one must be over, as `time.time` tells it.
    """
    clock, pace = Clock(end), Pace(log, job, end=end)
    while kept.step < job.stops_at and clock.allows():
        next(turns)
        kept.add()
        if kept.step % EVERY == 0 and pace.waits(kept.step):
            clock.pause()
    turns.close()
    log.write("trained", step=kept.step)


def common_step(log: Log, job: Job, *, end: float) -> int:
    """The step after which the arms that were started together are compared.

    It is the last that all have reached, once all have stopped; arms that failed, or took no step
    at all, are not counted. The first arm to see that says so to the others: one that comes later
    is told the same step, whether it has reached it or not.

    Args:
        log: of an arm that took a step and has said so.
        job: its own.
        end: until when to wait for those that are missing, as `time.time` tells it.
    """
    while (agreed := _agreed(log.path, job)) is None:
        runs = _of_part(log.path, job)
        reached = [line["step"] for run in runs for line in run.of("trained")]
        failed = sum(bool(run.of("failed")) and not run.of("trained") for run in runs)
        if len(reached) + failed >= job.together or time.time() >= end:
            log.write("agreed", call=job.call, step=min(step for step in reached if step))
        else:
            time.sleep(POLL)
    return agreed


def note_failure(log: Log, name: Name, call: str, why: str, **started: Any) -> None:
    """Says that an arm failed whose process is over, unless it has said so, or ended, itself.

    Args:
        log: the arm's.
        name: the arm's.
        call: that started it.
        why: it failed.
        started: of its first line, which it may not have come to write.
    """
    run = next((one for one in _of_call(log.path, call) if one.name == name), None)
    if run is None:
        log.write("start", call=call, **started)
    if run is None or not (run.ended or run.of("failed")):
        log.write("failed", why=why)


def _of_part(path: Path, job: Job) -> list[Run]:
    """The arms of a job's part that its call has started so far."""
    return [one for one in _of_call(path, job.call) if one.part == job.part]


def _of_call(path: Path, call: str) -> list[Run]:
    return [one for one in read_results(path) if one.start.get("call") == call]


def _agreed(path: Path, job: Job) -> int | None:
    """The step that was named first."""
    for line in read_lines(path):
        if (line["kind"], line["part"], line.get("call")) == ("agreed", job.part, job.call):
            return int(line["step"])
    return None
