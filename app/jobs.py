"""The app's side of the worker: a queue of jobs, their state, and a process that is kept alive.

Knows nothing of Streamlit: its threads only change `JobState`s, which pages read when they run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Literal

from mwviz.jobs import Job, Result
from mwviz.worker import MARK

Status = Literal["waiting", "running", "done", "failed", "cancelled"]
LOG_LINES = 12
"""Last lines of a job's log that are kept; the message of a crash quotes them."""
PATIENCE = 2.0
"""Seconds in which what a process that has ended left in its pipes is read."""


@dataclass(frozen=True, slots=True)
class JobState:
    """What is known of one job; replaced, never changed."""

    job: Job
    status: Status = "waiting"
    done: int = 0
    total: int = 0
    eta: float | None = None
    """Seconds left; None before the first step."""
    message: str = ""
    """Why it failed."""
    log: tuple[str, ...] = ()
    """The last lines that it printed, once it has ended; a crash has them in its message."""
    stopping: bool = False
    """Whether it was told to stop while it ran: it ends with its current step."""
    unread: bool = False
    """Whether it failed because it counts in other tokens than those that its model reads."""
    crashed: bool = False
    """Whether it failed because its process ended, not because it was refused."""
    result: Result | None = None

    @property
    def live(self) -> bool:
        """True while the job may still change."""
        return self.status in {"waiting", "running"}


class Worker:
    """One worker process and the jobs given to it, one running at a time.

    The process starts with the first job and again after a crash; a crash fails only the job that
    was running. All methods may be called from any thread.
    """

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        self._command = [sys.executable, "-m", "mwviz.worker", *arguments]
        self._lock = Lock()
        self._states: dict[str, JobState] = {}
        self._waiting: deque[str] = deque()
        self._running: str | None = None
        self._process: subprocess.Popen[str] | None = None

    def submit(self, job: Job) -> None:
        """Queues `job`; a job id that is already known is left as it is."""
        with self._lock:
            if job.id in self._states:
                return
            self._states[job.id] = JobState(job)
            self._waiting.append(job.id)
            self._start_next()

    def cancel(self, job_id: str) -> None:
        """Stops a job: at once if it waits, after its current step if it runs."""
        with self._lock:
            if job_id in self._waiting:
                self._waiting.remove(job_id)
                self._change(job_id, status="cancelled")
            elif job_id == self._running:
                self._change(job_id, stopping=True)
                self._send({"cancel": job_id})

    def state(self, job_id: str) -> JobState | None:
        """The job as it is now; None if there is no such job."""
        with self._lock:
            return self._states.get(job_id)

    def states(self) -> tuple[JobState, ...]:
        """All jobs, oldest first."""
        with self._lock:
            return tuple(self._states.values())

    def close(self) -> None:
        """Ends the process after its current step; running and waiting jobs are cancelled."""
        with self._lock:
            for job_id in self._waiting:
                self._change(job_id, status="cancelled")
            self._waiting.clear()
            process = self._process
            if process is not None and process.stdin is not None:
                process.stdin.close()
        if process is not None:
            process.wait()

    def _start_next(self) -> None:
        if self._running is not None or not self._waiting:
            return
        if self._process is None:
            self._start_process()
        self._running = self._waiting.popleft()
        self._change(self._running, status="running")
        self._send({"run": self._states[self._running].job.to_json()})

    def _start_process(self) -> None:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            self._command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
            encoding="utf-8",
            errors="backslashreplace",  # a library may print anything
        )
        self._process = process
        Thread(target=self._follow, args=(process,), daemon=True).start()

    def _send(self, order: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the process has died; the thread that follows it says so and starts the next job

    def _follow(self, process: subprocess.Popen[str]) -> None:
        log = _Log()
        readers = [
            Thread(target=read, args=(process, log), daemon=True)
            for read in (self._keep_log, self._take_events)
        ]
        for reader in readers:
            reader.start()
        code = process.wait()
        for reader in readers:
            reader.join(PATIENCE)  # a process that this one has started may hold its pipes open
        with self._lock:
            self._process = None
            if self._running is not None:
                told = "\n".join(log.rest())
                told = f":\n{told}" if told else "; it printed nothing"
                told = f"the worker ended with status {code}{told}"
                self._end(status="failed", message=told, crashed=True)

    def _keep_log(self, process: subprocess.Popen[str], log: _Log) -> None:
        """Reads what a process prints to its end."""
        assert process.stderr is not None
        for line in process.stderr:
            text = line.removesuffix("\n")
            if text.startswith(MARK) and self._runs(text.removeprefix(MARK)):
                log.end_part()
            else:
                log.add(text)

    def _take_events(self, process: subprocess.Popen[str], log: _Log) -> None:
        """Changes jobs as a process says, to its end."""
        assert process.stdout is not None
        for line in process.stdout:
            if not line.endswith("\n"):
                return  # the process has died within it
            event = json.loads(line)
            kind, job_id = event.pop("event"), event.pop("id")
            if kind == "progress":
                with self._lock:
                    self._change(job_id, **event)
            else:
                part = log.part()  # its end stands in the log before this event was sent
                with self._lock:
                    self._end(status=kind, log=part, **event)

    def _runs(self, job_id: str) -> bool:
        with self._lock:
            return job_id == self._running

    def _end(self, **changes: Any) -> None:
        assert self._running is not None
        self._change(self._running, **changes)
        self._running = None
        self._start_next()

    def _change(self, job_id: str, **changes: Any) -> None:
        self._states[job_id] = replace(self._states[job_id], **changes)


class _Log:
    """The last lines that a process has printed, apart for each of its jobs."""

    def __init__(self) -> None:
        self._parts: SimpleQueue[tuple[str, ...]] = SimpleQueue()
        self._lines: deque[str] = deque(maxlen=LOG_LINES + 1)
        """Of the part that has not ended; one more for the empty one before its end."""

    def add(self, line: str) -> None:
        """Adds a line to the part of the job that runs."""
        self._lines.append(line)

    def end_part(self) -> None:
        """Ends that part, and the line that its job had left open: if none was, an empty one."""
        if self._lines and not self._lines[-1]:
            self._lines.pop()
        self._parts.put(self._last())
        self._lines.clear()

    def part(self) -> tuple[str, ...]:
        """The part of the job that has ended first among those not asked for; waits for its end."""
        return self._parts.get()

    def rest(self) -> tuple[str, ...]:
        """What nobody has asked for: the last lines, or those of a part whose job ended unheard."""
        parts = [self._last()]
        while not self._parts.empty():
            parts.append(self._parts.get())
        return next((part for part in parts if any(part)), ())

    def _last(self) -> tuple[str, ...]:
        return tuple(self._lines)[-LOG_LINES:]
