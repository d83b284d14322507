"""Several programs that sleep, run in simulated time: one at a time, always in the same order."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable


class SimulatedTime:
    """Stands in for the module `time` of programs that only sleep and ask what time it is."""

    def __init__(self) -> None:
        self._now = 0.0
        self._order = itertools.count()
        self._asleep: list[tuple[float, int, threading.Event]] = []
        self._still = threading.Semaphore(0)
        """Released whenever the program that ran has fallen asleep or ended."""

    def time(self) -> float:
        """Seconds since the start."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Lets the others go on until so many seconds have passed."""
        awake = threading.Event()
        heapq.heappush(self._asleep, (self._now + seconds, next(self._order), awake))
        self._still.release()
        awake.wait()

    def run(self, *programs: Callable[[], None], longest: float = 1e4) -> None:
        """Runs all of them side by side until each has ended, or is asleep beyond `longest`."""
        for program in programs:
            threading.Thread(target=self._whole, args=(program,), daemon=True).start()
            self._still.acquire()
        while self._asleep and self._asleep[0][0] <= longest:
            self._now, _, awake = heapq.heappop(self._asleep)
            awake.set()
            self._still.acquire()

    def _whole(self, program: Callable[[], None]) -> None:
        try:
            program()
        finally:
            self._still.release()
