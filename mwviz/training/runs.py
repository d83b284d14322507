"""Runs a plan: every arm from the same start, watched, kept on disk, resumable."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from mwviz.analysis import Analysis
from mwviz.engine.model import Model, load_model
from mwviz.errors import MwvizError
from mwviz.training import checkpoint
from mwviz.training.advantage import recorded_advantages
from mwviz.training.learner import Learner, fitted, learner
from mwviz.training.loop import train
from mwviz.training.pauses import Pausing
from mwviz.training.plan import Material, Plan
from mwviz.training.recorded_by import other_model
from mwviz.training.reports import StepReport, WatchReport
from mwviz.training.results import DIVERGED, ArmStatus, Results
from mwviz.training.signals import signals
from mwviz.training.watch import Truth, true_contexts, watch
from mwviz.training.world import World, named_world

SAVE_SECONDS = 60.0
"""Longest time between two checkpoints of an arm."""
WRITE_SECONDS = 0.5
"""Least time between two updates of the tables, looks apart."""


class Event(NamedTuple):
    """Something that a run tells: one of step, watch and failure; a pause in a look has none."""

    arm: str
    done: int
    """Steps taken, of all arms together."""
    total: int
    eta: float
    """Seconds still to go, by how long a step and a look have taken so far."""
    step: StepReport | None = None
    watch: WatchReport | None = None
    failure: str = ""
    """Why the arm ended early; the others go on."""

    @property
    def told(self) -> bool:
        """Whether something has happened; False at a pause."""
        return self.step is not None or self.watch is not None or bool(self.failure)


def run(
    plan: Plan,
    folder: Path,
    held: Material,
    *,
    model: Model | None = None,
    world: World | None = None,
) -> Generator[Event]:
    """Trains every arm of a plan in turn; a run that was broken off goes on where it stopped.

    An arm that fails is told of in an event and in its status, and the others go on. One that had
    diverged says so again: its plan would end it the same way.

    To cancel, stop iterating (close the iterator): the arm is then saved. Whatever ends an arm, its
    checkpoint holds the last weights that were good; an interrupt within a step goes back to the
    last checkpoint, at most a minute old.

    Args:
        plan: what to do.
        folder: of the run: new, or of the same plan.
        held: the plan's rollouts, as `plan.material` reads them.
        model: None loads the one that the plan names; never trained itself.
        world: measured at every look; None measures what the plan names.

    Raises:
        ViewError: what the plan names as its world cannot be loaded.
        ModelError: the model cannot be loaded.
        TraceError: another run lies in the folder, or a policy gradient lacks rewards or
            log-probabilities; nothing is written then.
    """
    world = world or named_world(plan.world)
    source = model or load_model(plan.model, device=plan.device, adapter=plan.adapter)
    trained = fitted(held.trained, source)
    watched = trained if held.held_out is held.trained else fitted(held.held_out, source)
    if plan.recipe.objective == "policy":
        recorded_advantages(trained)  # Said before anything is made, not after the first look.
    results = Results.start(folder, plan, signals(plan, trained, watched))
    over = {arm for arm, one in results.status.items() if _is_over(one)}
    clock = _Clock(plan, [at for at, arm in enumerate(plan.methods) if arm not in over])
    start = _Start(watched, held, source)
    for index, arm in enumerate(plan.methods):
        if arm in over:
            if results.status[arm].state == "failed":
                yield clock.failed(index, results.status[arm].message)
            continue
        state = _Arm(results, arm, (trained, watched), world, start)
        try:
            with closing(state.run(source)) as events:
                for event in events:
                    yield clock.timed(event, index, state.step)
        except MwvizError as error:
            results.set_status(arm, "failed", state.step, str(error))
            results.write()
            yield clock.failed(index, str(error))


def _is_over(arm: ArmStatus) -> bool:
    """Whether nothing is left to do of an arm: it is done, or diverged and would do so again."""
    return arm.state == "done" or (arm.state == "failed" and DIVERGED in arm.message)


class _Start:
    """What the true contexts say before the first step, which all arms share."""

    def __init__(self, watched: Sequence[Analysis], held: Material, source: Model) -> None:
        self._watched, self._held, self._source = watched, held, source
        self._truth: Truth | None = None

    def truth(self, mine: Learner) -> Pausing[Truth]:
        """Measured with the first arm that asks."""
        self._truth = self._truth or (yield from true_contexts(mine, self._watched))
        return self._truth

    def told(self, look: WatchReport) -> WatchReport:
        """An arm's look, with a note if it shows that another model recorded the rollouts."""
        return replace(look, note=other_model(look, self._held, self._source))


class _Arm:
    """One arm on its way."""

    def __init__(
        self,
        results: Results,
        arm: str,
        rollouts: tuple[Sequence[Analysis], Sequence[Analysis]],
        world: World | None,
        start: _Start,
    ) -> None:
        self.results, self.arm, self.world, self.start = results, arm, world, start
        self.trained, self.watched = rollouts
        self.step = self.saved = 0
        self.saved_at = self.written_at = time.monotonic()

    def run(self, source: Model) -> Generator[Event]:
        """Events without counts."""
        results, plan = self.results, self.results.plan
        mine = learner(source, plan.recipe)
        self.step = self.saved = checkpoint.load(mine, results.checkpoint(self.arm))
        results.rewind(self.arm, self.step)
        results.set_status(self.arm, "running", self.step)
        results.write()
        try:
            if not results.looked(self.arm, self.step) and self.step in plan.looks:
                yield from self._look(mine)
            for report in train(mine, self.trained, method=self.arm, start=self.step):
                self.step = report.step + 1
                results.add_step(self.arm, report)
                results.set_status(self.arm, "running", self.step)
                if time.monotonic() - self.written_at > WRITE_SECONDS:
                    self._write()
                yield Event(self.arm, 0, 0, 0.0, step=report)
                if self.step in plan.looks:
                    yield from self._look(mine)
                if time.monotonic() - self.saved_at > SAVE_SECONDS:
                    self._save(mine)
            results.set_status(self.arm, "done", self.step)
        except (GeneratorExit, KeyboardInterrupt) as ended:
            self._cancel(within_step=isinstance(ended, KeyboardInterrupt))
            raise
        finally:
            if self.step > self.saved:
                self._save(mine)
            results.write()

    def _cancel(self, *, within_step: bool) -> None:
        """Says how far the arm has come; what was broken off within a step goes back."""
        if within_step:
            # The optimiser may have moved a part of the weights: only the checkpoint is whole.
            self.step = self.saved
            self.results.rewind(self.arm, self.step)
        self.results.set_status(self.arm, "cancelled", self.step)

    def _look(self, mine: Learner) -> Generator[Event]:
        with closing(self._watch(mine)) as looking:
            for report in looking:
                yield Event(self.arm, 0, 0, 0.0, watch=report)

    def _watch(self, mine: Learner) -> Generator[WatchReport | None]:
        """None between two passes of the look, then what it saw."""
        truth = (yield from self.start.truth(mine)) if self.step == 0 else None
        report = yield from watch(
            mine, self.watched, method=self.arm, step=self.step, world=self.world, truth=truth
        )
        if self.step == 0:
            report = self.start.told(report)
        self.results.add_watch(self.arm, report)
        self._write()
        yield report

    def _write(self) -> None:
        self.results.write()
        self.written_at = time.monotonic()

    def _save(self, mine: Learner) -> None:
        folder = self.results.checkpoint(self.arm)
        checkpoint.save(mine, folder, step=self.step, method=self.arm)
        self.saved, self.saved_at = self.step, time.monotonic()


class _Clock:
    """How far a run is and how long it still takes."""

    def __init__(self, plan: Plan, to_run: Sequence[int]) -> None:
        self.plan, self.to_run, self.before = plan, to_run, time.perf_counter()
        self.stepping = self.looking = self.under_way = 0.0
        self.steps = self.looks = 0

    def timed(self, event: Event, arm: int, step: int) -> Event:
        """An event with its counts, as it happens: in an arm by its place, after so many steps."""
        spent = self._lap()
        if event.step:
            self.stepping, self.steps = self.stepping + spent, self.steps + 1
        else:
            self.under_way += spent
        if event.watch:
            self.looking, self.looks = self.looking + self.under_way, self.looks + 1
            self.under_way = 0.0
        return self._counted(event, arm, step)

    def failed(self, arm: int, message: str) -> Event:
        """That an arm has ended early: nothing of it is left."""
        self._lap()
        self.under_way = 0.0
        event = Event(self.plan.methods[arm], 0, 0, 0.0, failure=message)
        return self._counted(event, arm, self.plan.recipe.steps)

    def _lap(self) -> float:
        """Seconds since the last event."""
        before, self.before = self.before, time.perf_counter()
        return self.before - before

    def _counted(self, event: Event, arm: int, step: int) -> Event:
        """With what is done and left; of a look that is under way, what it lacks of the others."""
        behind, of = sum(one > arm for one in self.to_run), self.plan.recipe.steps
        over = event.watch is not None or bool(event.failure)
        looks = behind * len(self.plan.looks) + sum(at >= step for at in self.plan.looks) - over
        a_step, a_look = _mean(self.stepping, self.steps), _mean(self.looking, self.looks)
        eta = ((behind + 1) * of - step) * a_step + looks * a_look - min(self.under_way, a_look)
        return event._replace(
            done=arm * of + step, total=len(self.plan.methods) * of, eta=max(eta, 0.0)
        )


def _mean(seconds: float, count: int) -> float:
    return seconds / count if count else 0.0
