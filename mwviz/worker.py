"""The one process that owns the model: jobs come in as JSON lines, progress and results go out.

In:  `{"run": {job}}` or `{"cancel": "job id"}`, one a line on stdin; the end of stdin ends the
process. Out, one a line on the first standard output:

    {"id": ..., "event": "progress", "done": 3, "total": 12, "eta": 4.5}
    {"id": ..., "event": "done", "result": {...}}
    {"id": ..., "event": "failed", "message": "...", "unread": false}
    {"id": ..., "event": "cancelled"}

`unread` is true where a job counts in other tokens than those that its model reads; left out, it is
false. Before the last event of a job stderr has the end of a line, then a line of `MARK` and its
id: what stands there since the one before is the log of that job.

Jobs run one at a time. A refusal (MwvizError) fails its job; any other exception is a bug and ends
the process, whose last log lines on stderr then tell the client why.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, TextIO

from mwviz.errors import MwvizError
from mwviz.jobs import JOBS, Job, Run, UnreadError

MARK = "\x1e"
"""Begins the line of the log that ends a job's part of it."""


@dataclass(slots=True)
class Control:
    """What the client has asked for while a job runs."""

    waiting: SimpleQueue[Job | None]
    cancelled: set[str]
    closed: Event

    def stops(self, job: Job) -> bool:
        """True when `job` shall take no further step."""
        return job.id in self.cancelled or self.closed.is_set()


def serve_jobs(lines: Iterable[str], out: TextIO, jobs: Mapping[str, Run]) -> None:
    """Runs the jobs that `lines` name, in order, until the lines end."""
    control = Control(SimpleQueue(), set(), Event())
    Thread(target=_listen, args=(lines, control), daemon=True).start()
    while (job := control.waiting.get()) is not None:
        for event in run_job(job, jobs, control.stops):
            if event["event"] != "progress":
                _mark(job)
            out.write(json.dumps({"id": job.id, **event}) + "\n")
            out.flush()


def _mark(job: Job) -> None:
    """Ends the job's part of the log; what was printed for it comes before.

    A progress bar leaves a line without its end: the mark has one of its own.
    """
    sys.stdout.flush()
    sys.stderr.write(f"\n{MARK}{job.id}\n")
    sys.stderr.flush()


def run_job(
    job: Job, jobs: Mapping[str, Run], stops: Callable[[Job], bool]
) -> Iterator[dict[str, Any]]:
    """The events of one job: progress, then exactly one of done, failed and cancelled."""
    if job.kind not in jobs:
        kinds = ", ".join(sorted(jobs)) or "none"
        yield {"event": "failed", "message": f"unknown job kind {job.kind!r}; known: {kinds}"}
        return
    try:
        for step in jobs[job.kind](job):
            yield {"event": "progress", "done": step.done, "total": step.total, "eta": step.eta}
            if step.result is not None:
                yield {"event": "done", "result": step.result}
                return
            if stops(job):
                break
    except MwvizError as error:
        unread = isinstance(error, UnreadError)
        yield {"event": "failed", "message": str(error), "unread": unread}
    else:
        yield {"event": "cancelled"}


def _listen(lines: Iterable[str], control: Control) -> None:
    for line in lines:
        order = json.loads(line)
        if "cancel" in order:
            control.cancelled.add(order["cancel"])
        else:
            control.waiting.put(Job(**order["run"]))
    control.closed.set()
    control.waiting.put(None)


def main(arguments: list[str]) -> None:
    """Serves stdin; an argument names another module with a table `JOBS`."""
    # Before torch is loaded: its threads would spin while they wait, and the app needs the cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    jobs = importlib.import_module(arguments[0]).JOBS if arguments else JOBS
    # Libraries print; the protocol keeps the real stdout for itself and sends prints to the log.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve_jobs(sys.stdin, out, jobs)


if __name__ == "__main__":
    main(sys.argv[1:])
