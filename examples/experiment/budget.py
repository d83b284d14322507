"""What the experiment will take: seconds from measured steps, bytes from what runs at once.

The seconds are those of the committed results; where a part left none, they follow from one that
did. The bytes are sums of sizes that the code sets itself, so that a change there changes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from examples.experiment.arms import CONTEXT, QUESTIONS, SAMPLES
from examples.experiment.batched import TOKENS
from examples.experiment.job import PARTS
from examples.experiment.results import Run, read_results
from examples.experiment.scales import Scale
from examples.search_world.sampling import HELD, NUMBERS

MEASURED = Path(__file__).parents[2] / "bench" / "results" / "experiment.jsonl"
SFT_ROLLOUTS = 8
"""Of an SFT step (4,096 tree tokens), beside the 32 of a GRPO step."""
SLOW = 30
"""How much longer a CPU takes than an H200, about."""
START = 60
"""Seconds until an arm takes its first step, and again to answer the held-out questions."""
WARM_UP = 240
"""Seconds of the warm-up, which has the card to itself: most of them ask the agent questions."""
MARGIN = 0.9
"""Share of the time and of the memory that is planned with."""

GIB = 1 << 30
CARD = 139.8
"""GiB of an H200."""
PARAMETERS, VOCABULARY = 135e6, 49_152
KEPT = 2e6
"""Bytes that float32 keeps of a token for the backward pass."""
PASSED = 32e3
"""Bytes that a token takes while a prefill runs through a layer."""
TOKEN_CACHE = 46e3
"""Bytes of a token's keys and values in float32."""
TARGETS, COPIES = 0.25, 8
"""Share of padded tokens that are targets, and float32 copies of a target's distribution."""


class Need(NamedTuple):
    """Memory of one arm, in GiB."""

    standing: float
    """CUDA's own, two copies of the weights, the cache."""
    training: float
    sampling: float

    @property
    def most(self) -> float:
        """At its worst moment: training and sampling take turns."""
        return self.standing + max(self.training, self.sampling)


def need() -> Need:
    """The memory that an arm is expected to take at most."""
    standing = (CONTEXT + 2 * 4 * PARAMETERS + HELD) / GIB
    logits = TARGETS * TOKENS * VOCABULARY * 4 * COPIES
    prefill = HELD / TOKEN_CACHE * PASSED + NUMBERS * 7
    return Need(standing, (TOKENS * KEPT + logits) / GIB, prefill / GIB)


def most_at_once() -> int:
    """Arms that a card holds."""
    return max(int(MARGIN * CARD / need().most), 1)


def step_seconds(part: str, runs: Sequence[Run] | None = None) -> float:
    """Seconds of a card that one step of one arm takes, the card divided by those that share it.

    Args:
        part: of the experiment.
        runs: where to read it; None takes the committed results.
    """
    known = read_results(MEASURED) if runs is None else runs
    found = [line for run in known if run.part == part for line in _steps(run)]
    if found:
        return float(np.median([line["seconds"] / line["sharing"] for line in found]))
    trained = [
        (line["seconds"] - line["sampling"]) / line["sharing"]
        for run in known
        for line in _steps(run)
        if line.get("sampling")
    ]
    if not trained:
        raise ValueError(f"{MEASURED}: no measured step to plan {part} by")
    return float(np.median(trained)) * SFT_ROLLOUTS / (QUESTIONS * SAMPLES)


def _steps(run: Run) -> Iterator[dict[str, float]]:
    """All but the first, which also builds what recurs."""
    for line in run.of("step")[1:]:
        yield {**line, "sharing": run.start["sharing"]}


class Budget(NamedTuple):
    """One part as it would run."""

    part: str
    arms: int
    scale: Scale
    seconds: float

    @property
    def told(self) -> str:
        """In a line."""
        return (
            f"{self.part}: {self.arms} arms ({', '.join(PARTS[self.part])}; {self.scale.seeds} "
            f"seeds) of {self.scale.steps} steps: about {self.seconds / 60:.0f} minutes"
        )


def budgets(
    scales: dict[str, Scale],
    *,
    gpus: int,
    workers: int,
    slow: float,
    minutes: float | None,
    before: float = 0.0,
) -> list[Budget]:
    """The parts with as many of their steps as fit; all arms of a part take the same number.

    Args:
        scales: of the parts that run, in order.
        gpus: cards.
        workers: arms at once, on all cards together.
        slow: how much longer a step takes than on the measured card.
        minutes: that all may take; None takes all steps.
        before: seconds that pass before the first arm.
    """
    standing = {part: _starts(part, scale, workers) for part, scale in scales.items()}
    step = {
        part: len(PARTS[part]) * scale.seeds * step_seconds(part) * slow / gpus
        for part, scale in scales.items()
    }
    wanted = sum(step[part] * scale.steps for part, scale in scales.items())
    left = float("inf") if minutes is None else 60 * MARGIN * minutes - before
    part_of = min(max((left - sum(standing.values())) / wanted, 0.0), 1.0)
    made = []
    for part, scale in scales.items():
        steps = max(int(scale.steps * part_of), 1)
        made.append(
            Budget(
                part,
                len(PARTS[part]) * scale.seeds,
                scale._replace(steps=steps),
                standing[part] + step[part] * steps,
            )
        )
    return made


def _starts(part: str, scale: Scale, workers: int) -> float:
    waves = -(-len(PARTS[part]) * scale.seeds // workers)
    return waves * 2.0 * START
