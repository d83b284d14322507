"""Reads what the arms wrote: one JSON line an event, all arms in one file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from examples.experiment.log import Name


@dataclass(slots=True)
class Run:
    """One arm with one seed; only its last attempt counts."""

    part: str
    arm: str
    seed: int
    ended: bool = False
    start: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Lines of a kind, in order."""
        return self.lines.get(kind, [])

    @property
    def name(self) -> Name:
        """What its lines are headed with."""
        return Name(self.part, self.arm, self.seed)

    @property
    def steps(self) -> int:
        """Optimiser steps it took."""
        return len(self.of("step"))


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """What all arms wrote, in order; broken lines are left out.

    A file that is not there holds nothing.
    """
    for text in path.read_text().splitlines() if path.is_file() else ():
        try:
            yield json.loads(text)
        except json.JSONDecodeError:
            continue


def read_results(*paths: Path) -> list[Run]:
    """The last attempt of every arm, later files after earlier ones."""
    return list({run.name: run for run in _attempts(*paths)}.values())


def read_best(*paths: Path) -> list[Run]:
    """Of every arm the last attempt that ended, else the one that took most steps.

    One that broke off early takes nothing away from what an earlier one has measured.
    """
    best: dict[Name, Run] = {}
    for run in _attempts(*paths):
        known = best.get(run.name)
        if known is None or (run.ended, run.steps) >= (
            known.ended,
            0 if run.ended else known.steps,
        ):
            best[run.name] = run
    return list(best.values())


def _attempts(*paths: Path) -> list[Run]:
    """All of them, in the order in which they were started."""
    made: list[Run] = []
    current: dict[tuple[str, str, int], Run] = {}
    for line in (line for path in paths for line in read_lines(path)):
        key = (line["part"], line["arm"], line["seed"])
        if line["kind"] == "start":
            current[key] = Run(*key, start=line)
            made.append(current[key])
        elif key in current:
            current[key].lines.setdefault(line["kind"], []).append(line)
            current[key].ended |= line["kind"] == "end"
    return made


class Spread(NamedTuple):
    """A mean over seeds, and how far seeds lie apart."""

    mean: float
    low: float
    high: float
    values: tuple[float, ...]
    """One a seed."""

    @property
    def seeds(self) -> int:
        """How many."""
        return len(self.values)

    def __str__(self) -> str:
        if self.seeds < 2:  # noqa: PLR2004
            return f"{self.mean:.3g} (1 seed)"
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]"


def spread(values: Iterable[float | None]) -> Spread | None:
    """Mean, smallest and largest over seeds; None if there are none."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Spread(float(np.mean(known)), min(known), max(known), tuple(known))


def over_seeds(
    runs: Iterable[Run], part: str, arm: str, number: Callable[[Run], float | None]
) -> Spread | None:
    """A number of one arm over its seeds."""
    return spread(number(run) for run in runs if (run.part, run.arm) == (part, arm))


def mean_of(run: Run, kind: str, name: str, steps: range | None = None) -> float | None:
    """Mean of a field over the lines of a kind, or over those of some steps."""
    found = [
        line[name]
        for line in run.of(kind)
        if line.get(name) is not None and (steps is None or line["step"] in steps)
    ]
    return float(np.mean(found)) if found else None
