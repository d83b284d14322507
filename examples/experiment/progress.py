"""How far arms are, in a line every now and then, read from what they write."""

from __future__ import annotations

import time
from collections.abc import Container
from pathlib import Path

from examples.experiment.log import Name
from examples.experiment.results import Run, read_results

SECONDS = 20.0
"""Between two lines."""


class Progress:
    """Prints a line every `SECONDS`.

    Args:
        results: the file that the arms write to.
    """

    def __init__(self, results: Path) -> None:
        self._results = results
        self._began = self._told = time.monotonic()

    def tell(self, running: Container[Name]) -> None:
        """Says where each running arm is, if the last time is long enough ago."""
        now = time.monotonic()
        if now - self._told < SECONDS:
            return
        self._told = now
        here = [run for run in read_results(self._results) if run.name in running]
        told = ", ".join(map(where, here)) or "no arm has begun"
        print(f"{now - self._began:.0f} s: {told}", flush=True)


def where(run: Run) -> str:
    """An arm, its step and what it does there: `sdcc 0: step 3, 9 s, reward 0.5`."""
    told = f"{run.arm} {run.seed}: "
    if run.of("trained"):
        asked = sum(line["questions"] for line in run.of("reward"))
        return f"{told}{asked} questions answered, after step {run.of('trained')[-1]['step']}"
    if not run.steps:
        return f"{told}begun"
    last = run.of("step")[-1]
    reward = f", reward {last['reward']:.2f}" if "reward" in last else ""
    return f"{told}step {run.steps}, {last['seconds']:.0f} s{reward}"
