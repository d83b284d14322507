"""A whole comparison as data: which rollouts, model, arms and recipe; and the command for it.

No torch here: the app plans, the worker runs.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mwviz.analysis import Analysis
from mwviz.engine.embedded import EMBEDDED
from mwviz.errors import TraceError, ViewError
from mwviz.trace import load
from mwviz.training.advantage import reward_advantages
from mwviz.training.recipe import Recipe
from mwviz.views import exact_methods
from mwviz.wording import counted


class Material(NamedTuple):
    """The rollouts of a plan."""

    trained: tuple[Analysis, ...]
    held_out: tuple[Analysis, ...]
    """The trained ones if nothing is held out."""
    note: str
    """What a reader of the watched numbers must know; "" if nothing."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to train, on what, and how; equal plans give equal runs on one machine.

    Raises:
        ViewError: there is no file or no arm, a method has a comma, or `watch` is negative.
    """

    files: tuple[str, ...]
    methods: tuple[str, ...]
    recipe: Recipe = field(default_factory=Recipe)
    rollouts: tuple[str, ...] = ()
    """Ids of the rollouts to train on; empty takes all of the files."""
    held_out: tuple[str, ...] = ()
    """Files whose rollouts are watched, those left out that are trained on."""
    watch: int = 10
    """Steps between two looks at them; 0 looks before the first and after the last step only."""
    model: str = EMBEDDED
    adapter: str | None = None
    """Checkpoint to start from."""
    device: str = "auto"
    world: str | None = None
    """`MODULE:NAME` of what else is measured at every look; None measures nothing else."""

    def __post_init__(self) -> None:
        for name in ("files", "methods", "rollouts", "held_out"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.files or not self.methods:
            raise ViewError("a training needs at least one file and one method")
        if odd := [name for name in self.methods if "," in name]:
            raise ViewError(f"{odd[0]}: a comma parts methods; rename the file of the batch")
        if self.watch < 0:
            raise ViewError(f"watch is {self.watch}; expected a number of steps from 0 on")

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON; `from_json` reads it again."""
        return {**asdict(self), "recipe": self.recipe.to_json()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Plan:
        """A plan that `to_json` wrote.

        Raises:
            ViewError: a value is out of range.
        """
        return cls(**{**document, "recipe": Recipe.from_json(document["recipe"])})

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of steps after which held-out rollouts are watched, 0 and the last included."""
        every = self.watch or self.recipe.steps
        return tuple(sorted({0, *range(every, self.recipe.steps, every), self.recipe.steps}))

    @property
    def command(self) -> str:
        """The command line that runs this plan."""
        recipe, usual = self.recipe, Recipe()
        parts = ["mwviz", "train", *self.files, "--method", ",".join(self.methods)]
        parts += ["--steps", str(recipe.steps), "--lr", _exactly(recipe.learning_rate)]
        parts += ["--batch-tokens", str(recipe.batch_tokens), "--seed", str(recipe.seed)]
        parts += ["--objective", recipe.objective, "--watch", str(self.watch)]
        if recipe.lora_rank is not None:
            parts += ["--lora", str(recipe.lora_rank)]
        for name, value, default in (
            ("--clip", ",".join(map(_exactly, recipe.clip)), usual.clip != recipe.clip),
            ("--most", recipe.most, recipe.most is not None),
            ("--strength", recipe.strength, recipe.strength != usual.strength),
            ("--rise", recipe.rise, recipe.rise != usual.rise),
            ("--weight-decay", recipe.weight_decay, recipe.weight_decay != usual.weight_decay),
            ("--grad-clip", recipe.grad_clip or 0, recipe.grad_clip != usual.grad_clip),
            ("--warmup", recipe.warmup_steps, recipe.warmup_steps != usual.warmup_steps),
            ("--model", self.model, self.model != EMBEDDED),
            ("--adapter", self.adapter, self.adapter is not None),
            ("--device", self.device, self.device != "auto"),
            ("--world", self.world, self.world is not None),
        ):
            parts += [name, str(value)] if default else []
        parts += [word for rollout in self.rollouts for word in ("--rollout", rollout)]
        parts += [word for file in self.held_out for word in ("--held-out", file)]
        return shlex.join(parts)


def _exactly(number: float) -> str:
    """As short as reads back the same."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


def material(plan: Plan) -> Material:
    """Reads the rollouts that a plan names.

    Raises:
        TraceError: a file cannot be read, an id is in none of them, nothing is left to watch, or a
            policy gradient would learn nothing from the rewards.
    """
    found = [one for file in plan.files for one in load(file).analyses]
    if plan.rollouts:
        known = {one.rollout.id for one in found}
        missing = [name for name in plan.rollouts if name not in known]
        if missing:
            files = ", ".join(Path(file).name for file in plan.files)
            raise TraceError(f"{files}: no rollout {missing[0]!r}; expected one of its ids")
        found = [one for one in found if one.rollout.id in plan.rollouts]
    if found and plan.recipe.objective == "policy":
        reward_advantages([one.rollout for one in found])  # Said before a model is loaded.
    trained = {one.digest for one in found}
    caches = recomputed(plan.methods, found)
    if not plan.held_out:
        note = "nothing is held out: what is watched are the rollouts that are trained on"
        same = tuple(found)
        return Material(same, same, "; ".join(filter(None, (note, caches))))
    others = [one for file in plan.held_out for one in load(file).analyses]
    left = tuple(one for one in others if one.digest not in trained)
    if not left:
        files = ", ".join(Path(file).name for file in plan.held_out)
        raise TraceError(
            f"{files}: every rollout of it is trained on, so nothing is left to hold out; hold out "
            "another file, or train on some of its rollouts only (--rollout ID)"
        )
    return Material(tuple(found), left, caches)


def recomputed(methods: Sequence[str], analyses: Sequence[Analysis]) -> str:
    """Which arms encode anew what a cache had kept, in a sentence; "" if none does."""
    kept = [one for one in analyses if one.tree.keeps_entries and len(one.tree.junction_calls)]
    arms = [name for name in methods if name in exact_methods("re_prefill")]
    if not kept or not arms:
        return ""
    of = counted(len(analyses), "rollout")
    return (
        f"the caches of {len(kept)} of {of} kept entries at junctions, and "
        f"{', '.join(arms)} encode each context anew: for them that is a recompute, not what the "
        "agent saw (union_mask is, and exact takes it)"
    )
