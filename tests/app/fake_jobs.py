"""Kinds of jobs for tests of the worker: each does one thing a real job might do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from mwviz.engine.steps import Step
from mwviz.errors import ModelError
from mwviz.jobs import Job, Result
from mwviz.worker import MARK

Steps = Iterator[Step[Result]]


def count_to_three(job: Job) -> Steps:
    """Writes its start and end to the file `trace`, and chatter to stdout as libraries do."""
    log = Path(job.trace)
    _append(log, f"start {job.id}")
    for done in range(1, 4):
        print("chatter", flush=True)  # noqa: T201
        if done < 3:
            yield Step(done, 3, 3.0 - done)
    _append(log, f"end {job.id}")
    yield Step(3, 3, 0.0, {"process": os.getpid(), "method": job.method})


def endless(job: Job) -> Steps:
    """Steps until it is cancelled, then says so in the file `trace`."""
    try:
        for done in count(1):
            yield Step(done, 10**9, 1e6)
            time.sleep(0.005)
    finally:
        _append(Path(job.trace), f"closed {job.id}")


def held(job: Job) -> Steps:
    """One step, then a second one that lasts until the file `trace` is there, then short ones."""
    yield Step(1, 3, 1.0)
    while not Path(job.trace).exists():
        time.sleep(0.005)
    while True:
        yield Step(2, 3, 1.0)
        time.sleep(0.005)


def refuse(job: Job) -> Steps:
    yield Step(0, 1, 0.0)
    print(f"looking for <b>{job.model}</b>\u202e")  # noqa: T201
    os.write(2, b"\xff is no text\n")
    raise ModelError(f"{job.model}: no such model")


def bug(job: Job) -> Steps:
    yield Step(1, 2, 1.0)
    raise KeyError(f"a bug in {job.id}")


def die(_: Job) -> Steps:
    yield Step(1, 2, 1.0)
    os.kill(os.getpid(), signal.SIGKILL)


def half_a_line(_: Job) -> Steps:
    """Leaves a line without its end, as a progress bar does."""
    os.write(2, b" 50%\r100%")
    print(" of half", end="")  # noqa: T201
    yield Step(1, 1, 0.0, {})


def quote_marks(_: Job) -> Steps:
    """Prints lines that begin as the end of a part of the log does."""
    print(f"{MARK}\n{MARK}another\n\nlast\n")  # noqa: T201
    yield Step(1, 1, 0.0, {})


class _Deadly(dict[str, Any]):
    """A result that kills the process when it is sent."""

    def items(self) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


def die_unheard(_: Job) -> Steps:
    """Dies once its part of the log has ended, before that is told."""
    print("last words", flush=True)  # noqa: T201
    yield Step(1, 1, 0.0, _Deadly(result=1))


def leave_a_child(job: Job) -> Steps:
    """Dies while a process that it started lives on and holds its log open."""
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    _append(Path(job.trace), str(child.pid))
    yield Step(1, 2, 1.0)
    os.kill(os.getpid(), signal.SIGKILL)


def fork(job: Job) -> Steps:
    """Dies while a copy of its process lives on and holds all that it had open."""
    child = os.fork()
    if child == 0:
        while True:
            signal.pause()
    _append(Path(job.trace), str(child))
    yield Step(1, 2, 1.0)
    os.kill(os.getpid(), signal.SIGKILL)


def _append(path: Path, line: str) -> None:
    assert path.suffix != ".jsonl", "a test must not write into a trace"
    with path.open("a") as file:
        file.write(line + "\n")


JOBS = {
    run.__name__: run
    for run in (
        count_to_three,
        endless,
        held,
        refuse,
        bug,
        die,
        half_a_line,
        quote_marks,
        die_unheard,
        leave_a_child,
        fork,
    )
}
