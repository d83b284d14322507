"""Arms of the experiment in simulated time: whatever becomes of one, the others can be compared."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest
import torch

from examples.experiment import together
from examples.experiment.arms import WAIT
from examples.experiment.job import PARTS, Job
from examples.experiment.log import Log
from examples.experiment.results import read_results
from examples.experiment.together import (
    PATIENCE,
    Kept,
    common_step,
    note_failure,
    take_steps,
)
from tests.simulated_time import SimulatedTime

STEPS = 24
LEAD, EVERY, KEPT, POLL = 8, 4, 16, 2.0
"""In place of what the experiment takes: the same proportions, fewer lines."""
SECONDS = {"rightmost": 1.0, "replay": 2.5, "packed_mask": 2.0, "sdcc": 1.5, "control": 0.5}
"""Seconds of a step of each arm."""
SLOWEST = "replay"
STANDS = 20.0
"""Seconds beyond the others' patience that one stands still which goes on."""


@dataclass(frozen=True)
class Fate:
    """What happens to an arm."""

    begins: float = 1.0
    dies: int | None = None
    """Step in which its process ends without a word, -1 before its first line; what started it
    notes that."""
    hangs: int | None = None
    """Step that never ends."""
    stands: int | None = None
    """Step that takes longer than the others' patience; after it, it goes on as before."""
    slows: int | None = None
    """Step from which each takes twenty times as long."""


@dataclass
class Simulation:
    """Five arms side by side, and what became of them."""

    path: Path
    clock: SimulatedTime
    fates: Mapping[str, Fate]
    end: float
    last: int | None
    steps: int = STEPS
    reached: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SECONDS, 0))
    compared: dict[str, int] = field(default_factory=dict)
    """The step that all had agreed on, of the arms that could go back to it."""
    over: dict[str, float] = field(default_factory=dict)
    """When each began to answer."""
    farthest: int = 0
    """Most steps that one was ever ahead of the slowest that was not lost."""

    def run(self, name: str) -> None:
        """One arm."""
        fate = self.fates.get(name, Fate())
        job = Job("grpo-prune", name, 0, steps=self.steps, together=len(SECONDS), call="now")
        job = replace(job, last=self.last)
        self.clock.sleep(fate.begins)
        if fate.dies == -1:
            return self._die(job)
        log = Log(self.path, job.name)
        log.write("start", call="now", steps=self.steps)
        kept = Kept([torch.zeros(1)])
        try:
            take_steps(self._turns(job, fate, log), kept, log, job, end=self.end)
        except SystemExit:
            return None
        common = common_step(log, job, end=self.end + WAIT)
        kept.go_back(common)
        self.over[name] = self.clock.time()
        if kept.step == common:
            self.compared[name] = common
        return None

    def _turns(self, job: Job, fate: Fate, log: Log) -> Generator[None]:
        for step in range(self.steps):
            if step == fate.dies:
                self._die(job)
                raise SystemExit
            if step == fate.hangs:
                self.reached.pop(job.arm)
                self.clock.sleep(1e9)
            if step == fate.stands:
                self.clock.sleep(PATIENCE + STANDS)
            slow = 20 if fate.slows is not None and step >= fate.slows else 1
            self.clock.sleep(SECONDS[job.arm] * slow)
            log.write("step", step=step, seconds=SECONDS[job.arm] * slow)
            self.reached[job.arm] = step + 1
            self.farthest = max(self.farthest, step + 1 - min(self.reached.values()))
            yield

    def _die(self, job: Job) -> None:
        self.reached.pop(job.arm)
        note_failure(Log(self.path, job.name), job.name, "now", "exit -9", steps=self.steps)


def simulated(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fates: Mapping[str, Fate],
    *,
    end: float,
    last: int | None = None,
    steps: int = STEPS,
) -> Simulation:
    """What becomes of five arms."""
    clock = SimulatedTime()
    monkeypatch.setattr(together, "time", clock)
    for name, value in (("LEAD", LEAD), ("EVERY", EVERY), ("KEPT", KEPT), ("POLL", POLL)):
        monkeypatch.setattr(together, name, value)
    found = Simulation(path, clock, fates, end, last, steps)
    clock.run(*(partial(found.run, name) for name in SECONDS))
    return found


@pytest.mark.parametrize(
    ("fate", "end", "compared"),
    [
        (Fate(), 1e6, STEPS),
        (Fate(), 42.0, 16),
        (Fate(begins=60.0), 1e6, STEPS),
        (Fate(slows=12), 200.0, 15),
    ],
    ids=["all steps", "time ends in the middle", "one begins late", "one gets slow"],
)
def test_all_arms_are_compared_after_the_same_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fate: Fate, end: float, compared: int
) -> None:
    found = simulated(tmp_path / "r.jsonl", monkeypatch, {SLOWEST: fate}, end=end)
    assert found.compared == dict.fromkeys(SECONDS, compared)
    assert found.farthest <= LEAD + EVERY
    assert max(found.over.values()) <= end + WAIT + POLL


@pytest.mark.parametrize(
    "fate",
    [Fate(dies=-1), Fate(dies=0), Fate(dies=5), Fate(hangs=5), Fate(hangs=23)],
    ids=["cannot begin", "dies at once", "dies", "hangs", "hangs at its end"],
)
@pytest.mark.parametrize("who", [SLOWEST, "control"])
def test_an_arm_that_is_lost_takes_none_of_the_others_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fate: Fate, who: str
) -> None:
    end = 400.0
    found = simulated(tmp_path / "r.jsonl", monkeypatch, {who: fate}, end=end)
    others = [name for name in SECONDS if name != who]
    assert found.compared == dict.fromkeys(others, STEPS)
    assert max(found.over.values()) <= end + WAIT + POLL
    if fate.hangs is None:
        assert max(found.over.values()) < 4 * STEPS, "nobody waits for an arm that failed"


def test_one_that_hangs_costs_the_others_their_patience_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.jsonl"
    simulated(path, monkeypatch, {SLOWEST: Fate(hangs=0)}, end=400.0)
    for run in read_results(path):
        long = [line for line in run.of("waited") if line["seconds"] > PATIENCE]
        assert len(long) == (run.arm != SLOWEST), run.arm


def test_one_that_stood_still_and_went_on_is_waited_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They cannot go back as far as they would have run ahead of it by the end."""
    fates = {SLOWEST: Fate(stands=5)}
    found = simulated(tmp_path / "r.jsonl", monkeypatch, fates, end=260.0, steps=96)
    (common,) = set(found.compared.values())
    assert found.compared.keys() == SECONDS.keys()
    assert STANDS / SECONDS["control"] < common < found.steps


def test_arms_of_a_later_call_stop_where_the_earlier_ones_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = simulated(tmp_path / "r.jsonl", monkeypatch, {}, end=1e6, last=11)
    assert found.compared == dict.fromkeys(SECONDS, 11)
    assert found.farthest <= 11


def test_all_arms_of_a_part_begin_to_answer_at_the_same_time() -> None:
    """One with fewer harnesses would train on, and could not go back to the others' step."""
    for part, arms in PARTS.items():
        jobs = [Job(part, arm, 0, held_out=10) for arm in arms]
        assert len({job.most_answers for job in jobs}) == 1
        assert jobs[0].most_answers == 10 * max(len(job.harnesses) for job in jobs)
