"""What a plan will cost, before it runs: seconds an arm, and bytes at the worst moment.

From the engine's cost model, which is calibrated on this machine in under a second.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from mwviz.analysis import Analysis
from mwviz.engine import cost, kernels, memory, vocabulary
from mwviz.engine.cost import Prediction
from mwviz.engine.model import Model
from mwviz.rendering import RECORDED
from mwviz.scorer import EXACT
from mwviz.training.arms import arm_view, pulled_targets
from mwviz.training.learner import fitted
from mwviz.training.noise import second_layout
from mwviz.training.order import batches
from mwviz.training.plan import Material, Plan
from mwviz.training.probe import probe_of
from mwviz.wording import counted, duration, listed

MOMENTS = 8
"""Bytes of the optimiser's two float32 numbers a trained one."""
COMPARED = 1.3
"""What comparing two scorings' distributions adds to them, as a factor; measured on the embedded
model."""
HELD_GRADIENTS = 2
"""Exact gradients that are held while an arm's own is made: of the start, and of the look."""
NAMED = 3
"""Rollouts that are passed over and named."""
MEMORY = Path("/proc/meminfo")
"""Where Linux tells how much memory can be taken."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a plan is predicted to take."""

    seconds: dict[str, float]
    """By arm; looks at held-out rollouts included."""
    bytes: int
    """At the worst moment: both models, all gradients, the optimiser, the largest row."""
    free: int | None
    """Bytes that can be taken now; None where the device does not tell."""
    tokens: tuple[str, ...] = ()
    """How rollouts without ids of the model are read, what its template does to them, and which
    give nothing to train."""
    beside: str = ""
    """What comes on top of these seconds."""

    @property
    def fits(self) -> bool:
        """Whether the memory suffices, as far as is known."""
        return self.free is None or self.bytes <= self.free

    def __str__(self) -> str:
        each = {arm: duration(seconds) for arm, seconds in self.seconds.items()}
        arms = ", ".join(f"{arm} {told.removeprefix('about ')}" for arm, told in each.items())
        free = "" if self.free is None else f" of {self.free / 2**30:.1f} GiB free"
        whole = duration(sum(self.seconds.values()))
        text = f"{whole} ({arms}) and {_size(self.bytes)}{free}{self.beside}"
        if self.fits:
            return text
        return f"{text}: it may not fit; train an adapter (--lora 8), or shorter rollouts"


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def estimate(plan: Plan, held: Material, model: Model) -> Estimate:
    """Predicts time and memory of a plan.

    Args:
        plan: what will be done.
        held: its rollouts.
        model: will be copied and trained.
    """
    trained, watched = fitted(held.trained, model), fitted(held.held_out, model)
    order = batches(
        [one.tree.size for one in trained],
        steps=plan.recipe.steps,
        batch_tokens=plan.recipe.batch_tokens,
        seed=plan.recipe.seed,
    )
    visits = [sum(batch.count(index) for batch in order) for index in range(len(trained))]
    truth = sum(one.seconds(model) for one in truth_passes(watched, model))
    seconds, row_bytes = {}, 0
    for index, arm in enumerate(plan.methods):
        steps = [_step(one, model, arm) for one in trained]
        own = sum(one.seconds(model) for one in own_passes(arm, watched, model))
        spent = sum(step.seconds * count for step, count in zip(steps, visits, strict=True))
        # Before the first step the true contexts say the same for all arms.
        seconds[arm] = spent + len(plan.looks) * (truth + own) - (truth if index else 0.0)
        row_bytes = max(row_bytes, *(step.bytes for step in steps))
    tokens = (
        *_read(list({id(one): one for one in (*trained, *watched)}.values())),
        *_passed_over(trained),
    )
    every = counted(len(plan.methods) * len(plan.looks), "look")
    beside = f"; on top of it what {plan.world} takes at {every}" if plan.world else ""
    return Estimate(seconds, _standing(plan, model) + row_bytes, _free(model), tokens, beside)


def _read(analyses: Sequence[Analysis]) -> Iterator[str]:
    """Sentences on the renderings of rollouts that are not trained on as they were recorded."""
    rendered = [one.encoding for one in analyses if one.encoding.rendering != RECORDED]
    for name, count in Counter(one.rendering for one in rendered).items():
        whose = (
            "has no ids of this model: its" if count == 1 else "have no ids of this model: their"
        )
        of = counted(len(analyses), "rollout")
        yield f"{count} of {of} {whose} messages are rendered ({name})"
    yield from dict.fromkeys(warning for one in rendered for warning in one.warnings)


def _passed_over(trained: Sequence[Analysis]) -> Iterator[str]:
    """A sentence on rollouts that no arm can train, if there are any."""
    empty = [repr(one.rollout.id) for one in trained if not len(one.tree.token)]
    if empty:
        yield (
            f"{len(empty)} of {counted(len(trained), 'rollout')} sampled no token and "
            f"{'is' if len(empty) == 1 else 'are'} passed over: {listed(empty, most=NAMED)}"
        )


def _step(analysis: Analysis, model: Model, arm: str) -> Prediction:
    """Training one rollout once; under SDCC with the teacher's pass."""
    view = arm_view(analysis, model, arm)
    kernel = kernels.choose_kernel(model, packed=any(row.mask != "causal" for row in view.rows))
    found = cost.predict(model, view.rows, kernel=kernel, train=True)
    if not len(pulled_targets(analysis, view)):
        return found
    taught = _forward(analysis, model, EXACT)
    return Prediction(
        found.seconds + taught, found.operations, found.bytes, recompute=found.recompute
    )


class Pass(NamedTuple):
    """One rollout run once under one layout, at a look."""

    analysis: Analysis
    layout: str
    trains: bool = False
    """Whether its gradient is made; else its distributions are compared."""

    def seconds(self, model: Model) -> float:
        """What it is predicted to take."""
        if self.trains:
            return _step(self.analysis, model, self.layout).seconds
        return COMPARED * _forward(self.analysis, model, self.layout)


def truth_passes(watched: Sequence[Analysis], model: Model) -> list[Pass]:
    """What a look runs in the true contexts, and for the floors: `watch.true_contexts`."""
    passes = [Pass(one, EXACT) for one in watched]
    place = probe_of(watched)
    if place is not None:
        probe = watched[place]
        passes.append(Pass(probe, EXACT, trains=True))
        other = second_layout(model, probe, arm_view(probe, model, EXACT).method)
        passes += [Pass(probe, other), Pass(probe, other, trains=True)] if other else []
    return passes


def own_passes(arm: str, watched: Sequence[Analysis], model: Model) -> list[Pass]:
    """What a look runs beside that in an arm's own contexts: nothing that is known by then."""

    def layouts(one: Analysis) -> tuple[str, str]:
        return arm_view(one, model, EXACT).method, arm_view(one, model, arm).method

    passes = [Pass(one, arm) for one in watched if len(set(layouts(one))) > 1]
    place = probe_of(watched)
    if place is not None:
        first, own = layouts(watched[place])
        if own not in (first, second_layout(model, watched[place], first)):
            passes.append(Pass(watched[place], arm, trains=True))
    return passes


def _forward(analysis: Analysis, model: Model, arm: str) -> float:
    view = arm_view(analysis, model, arm)
    kernel = kernels.choose_kernel(model, packed=any(row.mask != "causal" for row in view.rows))
    return cost.predict(model, view.rows, kernel=kernel).seconds


def _standing(plan: Plan, model: Model) -> int:
    """Bytes held all the time, or at every look: both models, gradients and optimiser."""
    whole = sum(part.numel() for part in model.module.parameters())
    if plan.recipe.lora_rank is None:
        wide = torch.promote_types(model.dtype, torch.float32).itemsize
        return whole * (model.dtype.itemsize + wide + _each(wide))
    head = vocabulary.head(model).weight
    sides = sum(
        layer.in_features + layer.out_features
        for layer in model.module.modules()
        if isinstance(layer, torch.nn.Linear) and layer.weight.shape != head.shape
    )
    return 2 * whole * model.dtype.itemsize + plan.recipe.lora_rank * sides * (4 + _each(4))


def _each(wide: int) -> int:
    """Bytes beside a trained number of so many itself: gradients of it, and the optimiser's."""
    return (1 + HELD_GRADIENTS) * wide + MOMENTS


def _free(model: Model) -> int | None:
    if model.device.type == "cpu" and MEMORY.exists():
        found = re.search(r"^MemAvailable:\s+(\d+) kB", MEMORY.read_text(), re.MULTILINE)
        return int(found.group(1)) * 1024 if found else None
    return memory.free_bytes(model)
