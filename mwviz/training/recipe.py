"""What a training does, apart from its data: the numbers a user chooses. No torch here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from mwviz.errors import ViewError
from mwviz.policy import CLIP
from mwviz.scorer import EXACT
from mwviz.sdcc import RISE, STRENGTH
from mwviz.views import method_named, names_in

Objective = Literal["nll", "policy"]
OBJECTIVES: tuple[str, ...] = get_args(Objective)

ARMS = ("rightmost", "replay", "logit_tree", "packed_mask", "sdcc", "sdcc_replay")
"""The methods that `all` stands for."""
OWN = "own:"
"""What the name of an arm that trains a trainer's own batch starts with; the file's path follows.
"""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to train; equal for all arms of a comparison.

    Raises:
        ViewError: a number is out of its range; says which range.
    """

    steps: int = 30
    """Optimiser steps."""
    learning_rate: float = 1e-4
    batch_tokens: int = 4096
    """Tokens of the trees of a batch; a batch ends with the rollout that reaches it."""
    seed: int = 0
    """Of the order of the rollouts, and of an adapter's first weights."""
    objective: Objective = "nll"
    """`nll`: negative log-likelihood. `policy`: clipped policy gradient against the recorded
    log-probabilities."""
    clip: tuple[float, float] = CLIP
    """Lowest and highest importance ratio that still gives a gradient against, and with, the
    advantage."""
    most: float | None = None
    """Largest importance ratio, above which it is cut but kept; None does not cut."""
    strength: float = STRENGTH
    """Factor of the KL of SDCC once it has risen."""
    rise: float = RISE
    """Share of the steps over which it rises from 0."""
    lora_rank: int | None = None
    """Rank of the adapter that is trained; None trains all weights."""
    weight_decay: float = 0.0
    grad_clip: float | None = 1.0
    """Largest norm of a step's gradient, beyond which it is scaled down; None leaves it."""
    warmup_steps: int = 0
    """Steps over which the learning rate rises linearly to its value."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", tuple(self.clip))
        for name, least in (("steps", 1), ("batch_tokens", 1), ("seed", 0), ("warmup_steps", 0)):
            _whole(name, getattr(self, name), least)
        if self.lora_rank is not None:
            _whole("lora_rank", self.lora_rank, 1)
        _number("learning_rate", self.learning_rate, above=0.0)
        _number("strength", self.strength)
        _number("rise", self.rise, most=1.0)
        _number("weight_decay", self.weight_decay)
        for name, value in (("grad_clip", self.grad_clip), ("most", self.most)):
            if value is not None:
                _number(name, value, above=0.0)
        if self.objective not in OBJECTIVES:
            known = " or ".join(OBJECTIVES)
            raise ViewError(f"unknown objective {self.objective!r}; expected {known}")
        if len(self.clip) != 2 or not 0 <= self.clip[0] <= 1 <= self.clip[1]:  # noqa: PLR2004
            raise ViewError(f"clip is {self.clip}; expected two ratios, one up to 1, one from 1 on")

    def to_json(self) -> dict[str, Any]:
        """The recipe as JSON; `from_json` reads it again."""
        return {**asdict(self), "clip": list(self.clip)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Recipe:
        """A recipe that `to_json` wrote.

        Raises:
            ViewError: it has a field that is not known here, or a value out of range.
        """
        known = [field.name for field in fields(cls)]
        unknown = [name for name in document if name not in known]
        if unknown:
            raise ViewError(f"unknown field {unknown[0]!r} of a recipe; known: {', '.join(known)}")
        return cls(**document)


def arms(names: str) -> tuple[str, ...]:
    """The arms that a user's words mean: names with commas between, or `all`.

    Raises:
        ViewError: no method has such a name.
    """
    if names == "all":
        return ARMS
    wanted = names_in(names)
    for name in wanted:
        if name != EXACT and not name.startswith(OWN):
            try:
                method_named(name)
            except ViewError as error:
                raise ViewError(f"{error}, {EXACT}, {OWN}BATCH") from error
    return wanted


def _whole(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ViewError(f"{name} is {value!r}; expected a whole number from {least} on")


def _number(
    name: str, value: object, *, above: float | None = None, most: float = math.inf
) -> None:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        low_enough = value <= most
        if low_enough and (value >= 0 if above is None else value > above):
            return
    low = "from 0 on" if above is None else f"above {above:g}"
    high = "" if most == math.inf else f", at most {most:g}"
    raise ViewError(f"{name} is {value!r}; expected a number {low}{high}")
