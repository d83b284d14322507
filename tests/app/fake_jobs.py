"""Kinds of jobs for tests of the worker: each does one thing a real job might do."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Generator
from itertools import count
from pathlib import Path

from mwviz.errors import ModelError
from mwviz.worker import Job, Progress, Result

Steps = Generator[Progress, None, Result]


def count_to_three(job: Job) -> Steps:
    """Writes its start and end to the file `trace`, and chatter to stdout as libraries do."""
    log = Path(job.trace)
    _append(log, f"start {job.id}")
    for done in range(1, 4):
        print("chatter", flush=True)  # noqa: T201
        yield Progress(done, 3, f"step {done}")
    _append(log, f"end {job.id}")
    return {"process": os.getpid(), "method": job.method}


def endless(job: Job) -> Steps:
    """Steps until it is cancelled, then says so in the file `trace`."""
    try:
        for done in count(1):
            yield Progress(done, 10**9)
            time.sleep(0.005)
    finally:
        _append(Path(job.trace), f"closed {job.id}")
    raise AssertionError


def refuse(job: Job) -> Steps:
    yield Progress(0, 1)
    raise ModelError(f"{job.model}: no such model")


def bug(job: Job) -> Steps:
    yield Progress(1, 2)
    raise KeyError(f"a bug in {job.id}")


def die(_: Job) -> Steps:
    yield Progress(1, 2)
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def _append(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(line + "\n")


JOBS = {run.__name__: run for run in (count_to_three, endless, refuse, bug, die)}
