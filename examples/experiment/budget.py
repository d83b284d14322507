"""What the experiment will take: seconds from measured steps, bytes from what runs at once.

The seconds are those of the committed results; where a part left none, they follow from one that
did. The bytes are sums of sizes that the code sets itself, so that a change there changes them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from examples.experiment.arms import CONTEXT, QUESTIONS, SAMPLES
from examples.experiment.batched import TOKENS
from examples.experiment.job import PARTS, Job
from examples.experiment.readings import trained_seconds
from examples.experiment.results import Run, read_results
from examples.experiment.scales import Scale
from examples.search_world.sampling import HELD, NUMBERS
from mwviz.wording import counted

MEASURED = Path(__file__).parents[2] / "bench" / "results" / "experiment.jsonl"
SFT_ROLLOUTS = 8
"""Of an SFT step (4,096 tree tokens), beside the 32 of a GRPO step."""
SLOW = 30
"""How much longer a CPU takes than an H200, about."""
START = 60
"""Seconds until an arm takes its first step, and to answer the held-out questions of a harness."""
WARM_UP = 180
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
    """CUDA's own, three copies of the weights, the cache."""
    training: float
    sampling: float

    @property
    def most(self) -> float:
        """At its worst moment: training and sampling take turns."""
        return self.standing + max(self.training, self.sampling)


def need() -> Need:
    """The memory that an arm is expected to take at most."""
    standing = (CONTEXT + 3 * 4 * PARAMETERS + HELD) / GIB
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
    found = _by_arm(known, part, _whole_step)
    if found:
        return found
    # An SFT step has fewer rollouts than a GRPO step trains, and samples none.
    trained = [_by_arm(known, one, trained_seconds) for one in PARTS if one != "sft"]
    if not any(trained):
        raise ValueError(f"{MEASURED}: no measured step to plan {part} by")
    return float(np.mean([one for one in trained if one])) * SFT_ROLLOUTS / (QUESTIONS * SAMPLES)


def _by_arm(runs: Sequence[Run], part: str, seconds: Callable[[Run], float | None]) -> float | None:
    """Mean over the arms of a part: each takes the same number of steps, however long they are."""
    found: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        one = seconds(run) if run.part == part else None
        if one is not None:
            found[run.arm].append(one / run.start["sharing"])
    return float(np.mean([np.mean(one) for one in found.values()])) if found else None


def _whole_step(run: Run) -> float | None:
    """Seconds of a step with its share of the looks; the first one also builds what recurs."""
    steps = run.of("step")[1:]
    if not steps:
        return None
    seconds = float(np.mean([line["seconds"] for line in steps]))
    if "sampling" in steps[0]:  # A GRPO step looks at what it has sampled, within its own seconds.
        return seconds
    ats = sorted(line["at"] for lines in run.lines.values() for line in lines)
    looks = [line["at"] - max(at for at in ats if at < line["at"]) for line in run.of("look")[1:]]
    return seconds + float(np.sum(looks)) / len(steps)


def _standing(part: str) -> float:
    """Seconds of an arm in which it takes no steps: it begins, and answers in each harness."""
    return float(START * (1 + Job(part, PARTS[part][0], 0, held_out=1).most_answers))


class Budget(NamedTuple):
    """One part as it would run."""

    part: str
    arms: int
    scale: Scale
    seconds: float

    @property
    def told(self) -> str:
        """In a line."""
        early = self.scale.last is not None and self.scale.last < self.scale.steps
        last = f", as far as step {self.scale.last}" if early else ""
        steps = counted(self.scale.steps, "step")
        whole = self.scale.seeds * len(PARTS[self.part])
        left = f"{self.arms} of " if self.arms < whole else ""
        return (
            f"{self.part}: {left}{whole} arms ({', '.join(PARTS[self.part])}; "
            f"{counted(self.scale.seeds, 'seed')}) of {steps}{last}: about "
            f"{self.seconds / 60:.0f} minutes"
        )


def budgets(
    scales: Mapping[str, Scale],
    arms: Mapping[str, int],
    *,
    gpus: int,
    workers: int,
    slow: float,
    minutes: float,
) -> list[Budget]:
    """The parts with as many of their steps as fit; all arms of a part take the same number.

    Where arms of an earlier call say after which step the others stop, none is taken off.

    Args:
        scales: of the parts that run, in order.
        arms: that each of them has to run.
        gpus: cards.
        workers: arms at once, on all cards together.
        slow: how much longer a step takes than on the measured card.
        minutes: that all may take; infinite takes all steps.
    """
    standing = {part: -(-arms[part] // workers) * _standing(part) for part in scales}
    step = {part: arms[part] * step_seconds(part) * slow / gpus for part in scales}
    wanted = sum(step[part] * scale.steps for part, scale in scales.items() if scale.last is None)
    fixed = sum(step[part] * scale.last for part, scale in scales.items() if scale.last is not None)
    left = 60 * MARGIN * minutes - sum(standing.values()) - fixed
    share = min(max(left / wanted, 0.0), 1.0) if wanted else 1.0
    made = []
    for part, scale in scales.items():
        steps = max(int(scale.steps * share), 1) if scale.last is None else scale.steps
        seconds = standing[part] + step[part] * (steps if scale.last is None else scale.last)
        made.append(Budget(part, arms[part], scale._replace(steps=steps), seconds))
    return made
