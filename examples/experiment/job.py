"""What an arm of the experiment is to do."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from examples.experiment.log import Name
from examples.search_world.harnesses import Harness, harness_named
from mwviz.engine.embedded import EMBEDDED

CONTROL = "control"
METHODS = ("rightmost", "replay", "packed_mask", "sdcc", "sdcc_replay")
PARTS = {
    "sft": (*METHODS, CONTROL),
    "grpo-prune": ("rightmost", "replay", "packed_mask", "sdcc", CONTROL),
    "grpo-summary": ("rightmost", "replay", "packed_mask", "sdcc", CONTROL),
}
"""The arms of each part."""


@dataclass(frozen=True, slots=True)
class Job:
    """What one arm does; the same for all arms of a part but for the name and the seed."""

    part: str
    arm: str
    seed: int
    device: str = "cpu"
    steps: int = 30
    held_out: int = 256
    rate: float = 5e-4
    batch_tokens: int = 4096
    warm: str | None = None
    """Folder of the adapter that a GRPO arm starts from."""
    model: str = EMBEDDED
    """Another one with the same tokenizer tries the whole flow with less work."""
    sharing: int = 1
    """Arms that share its card. One that would take more than its share of the memory shrinks what
    it runs at once instead."""
    until: float = math.inf
    """When it must have ended, as `time.time` tells it; it takes no step that might end too late
    for the held-out questions."""
    together: int = 1
    """Arms of its part that run side by side: they answer after a step that all have reached."""
    last: int | None = None
    """Step after which it stops, and arms of an earlier call did: rates and strengths go by `steps`
    all the same. None: after all of them."""
    call: str = ""
    """What the arms that were started together have in common."""

    @property
    def name(self) -> Name:
        """What its lines are headed with."""
        return Name(self.part, self.arm, self.seed)

    @property
    def method(self) -> str:
        """The layout it trains; without evictions all are the same."""
        return "rightmost" if self.arm == CONTROL else self.arm

    @property
    def stops_at(self) -> int:
        """The last step that it takes."""
        return self.steps if self.last is None else min(self.steps, self.last)

    @property
    def most_answers(self) -> int:
        """Held-out answers of the arm of its part that has most harnesses: all stop in time for it.

        One that trained on while the others answer could not go back to their step.
        """
        arms = (replace(self, arm=arm) for arm in PARTS[self.part])
        return self.held_out * max(len(one.harnesses) for one in arms)

    @property
    def harnesses(self) -> list[Harness]:
        """What its agents live in."""
        if self.arm == CONTROL:
            return [harness_named("none")]
        named = ("prune", "summary") if self.part == "sft" else (self.part.partition("-")[2],)
        return [harness_named(name) for name in named]
