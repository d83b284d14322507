"""What lies behind the rewards: SDCC's pull, and a reward that is lost, as far as results say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from examples.experiment.batched import EXACT
from examples.experiment.diagnosed import measured
from examples.experiment.findings import GRPO, pulled_reward
from examples.experiment.looks import REPLAYS
from examples.experiment.readings import answered_after, at_look, reward_of, shared_look
from examples.experiment.results import Run, Spread, mean_of, over_seeds, spread
from examples.experiment.verdicts import NO, OPEN, YES, ratio

LOST = 0.1
"""Training reward at which it counts as lost."""
FEW = 3
"""Steps at either end that are compared."""
EARNED = {YES: "more", NO: "less", OPEN: "what these seeds leave undecided"}
"""Beside another layout, by what became of the claim that it is more."""
EARLY, LATE = slice(FEW), slice(-FEW, None)


def explained(runs: Sequence[Run]) -> Iterator[str]:
    """The section, as far as there are results to write it from."""
    parts = [part for part in GRPO if _both(runs, part)]
    if parts or _both(runs, "sft"):
        yield from _pull(runs, parts)
    lost = [run for run in runs if run.part in GRPO and lost_at(run) is not None]
    if lost:
        yield from _lost(lost)


def surprise(run: Run) -> float | None:
    """Nats a token: -log p of what it sampled, in the true contexts, over the last steps.

    Of the steps after which the arms are compared the last third; over all tokens that the arm
    trains. It estimates how much the agent leaves to chance.
    """
    compared = answered_after(run) or run.steps
    lines = [line for line in run.of("step") if 2 * compared <= 3 * line["step"] < 3 * compared]
    return float(np.mean([line["nll"] + line["gap_signed"] for line in lines])) if lines else None


def strength_of_gradient(run: Run) -> float | None:
    """Median norm of its steps' gradients."""
    norms = [line["norm"] for line in run.of("step")]
    return float(np.median(norms)) if norms else None


def lost_at(run: Run) -> int | None:
    """The first step from which on its training reward is lost; None if it never is, or was."""
    rewards = [line["reward"] for line in run.of("step")]
    some = [at for at, reward in enumerate(rewards) if reward > LOST]
    if not some or some[-1] + FEW >= len(rewards):
        return None
    return some[-1] + 1


def sampled_behind(run: Run, evictions: int, steps: slice) -> float | None:
    """Tokens a step that were sampled behind so many evictions or more, in some of the steps.

    None for layouts whose steps count evictions after a token instead.
    """
    if run.arm not in REPLAYS:
        return None
    return float(
        np.mean(
            [
                sum(n for k, (_, n) in line["by_evictions"].items() if int(k) >= evictions)
                for line in run.of("step")[steps]
            ]
        )
    )


def _both(runs: Sequence[Run], part: str) -> bool:
    arms = {run.arm for run in runs if run.part == part and run.steps}
    return {"rightmost", "sdcc"} <= arms


def _pull(runs: Sequence[Run], parts: Sequence[str]) -> Iterator[str]:
    yield ""
    yield "## What SDCC trains, and what that does to reward"
    yield ""
    yield (
        "SDCC is what its definition says (tests hold loss and gradient to it: the teacher has the "
        "current weights, gets no gradient, and reads the true contexts). What follows from the "
        "definition is in [Training](training.md#what-sdcc-trains): its pull has the gradient of "
        "the likelihood of the agent's own samples *in the student's row*, whatever their reward. "
        "Where a token's evidence has left that row, it is trained to be said without evidence. "
        "An agent that learns to guess should leave more to chance in its true contexts:"
    )
    yield ""
    if parts:
        yield (
            "| part | arm | -log p of its own samples, true contexts, last third | norm of a "
            "step's gradient, median | reward, held out |"
        )
        yield "|---|---|---|---|---|"
        for part in parts:
            for arm in ("rightmost", "sdcc", EXACT):
                cells = [
                    over_seeds(runs, part, arm, number) or "-"
                    for number in (surprise, strength_of_gradient, reward_of)
                ]
                yield f"| {part} | `{arm}` | {' | '.join(map(str, cells))} |"
        yield ""
        yield f"`sdcc` over `rightmost`: {'; '.join(_chance(runs, part) for part in parts)}."
        earned = "; ".join(
            f"{EARNED[pulled_reward(runs, part).verdict]} in {part}" for part in parts
        )
        yield ""
        yield f"On held-out questions `sdcc` earns, beside `rightmost`, {earned}."
    yield from measured(runs)
    yield from _likelihood(runs)


def _chance(runs: Sequence[Run], part: str) -> str:
    one, other = (over_seeds(runs, part, arm, surprise) for arm in ("sdcc", "rightmost"))
    return f"{part} x {_ratio(one, other)}"


def _likelihood(runs: Sequence[Run]) -> Iterator[str]:
    """What the same pull does to a likelihood, whose students train all tokens anyway."""
    for pulled, student in (("sdcc", "rightmost"), ("sdcc_replay", "replay")):
        here = [run for run in runs if run.part == "sft" and run.arm in (pulled, student)]
        look = shared_look(here)
        kl = [over_seeds(here, "sft", a, at_look("kl_diverging", look)) for a in (pulled, student)]
        loss = [over_seeds(here, "sft", a, at_look("nll_true", look)) for a in (pulled, student)]
        if None in (*kl, *loss):
            continue
        rewards = [over_seeds(here, "sft", arm, reward_of) for arm in (pulled, student)]
        yield ""
        yield (
            f"Under a likelihood `{pulled}` is `{student}` with softer labels. After {look} steps "
            f"its KL is {kl[0]} against {kl[1]} nats (x {_ratio(*kl)}), its loss in the true "
            f"contexts {loss[0]} against {loss[1]} (x {_ratio(*loss)}), its reward "
            f"{rewards[0] or 'not asked'} against {rewards[1] or 'not asked'}."
        )


def _ratio(one: Spread | None, other: Spread | None) -> str:
    return "not known" if one is None or other is None else str(ratio(one, other))


def _lost(lost: Sequence[Run]) -> Iterator[str]:
    yield ""
    yield "## Where a reward is lost"
    yield ""
    yield (
        f"Training reward that fell to {LOST:.0%} or less and stayed there. *No gradient*: steps "
        "in which every rollout of a question earned the same, so that all advantages are 0 and "
        "nothing can bring the reward back. *Behind two*: trained tokens of a step's rollouts that "
        "were sampled after two or more evictions of their rollout, mean of the first "
        f"{FEW} steps and of the last {FEW}; `-` for layouts whose steps count the evictions after "
        "a token:"
    )
    yield ""
    yield "| arm | reward, first steps | lost from step | of | no gradient | behind two |"
    yield "|---|---|---|---|---|---|"
    for run in sorted(lost, key=lambda one: one.name):
        first = float(np.mean([line["reward"] for line in run.of("step")[:FEW]]))
        still = sum(line["norm"] == 0 for line in run.of("step"))
        cells = (
            f"{run.part} `{run.arm}` seed {run.seed}",
            f"{first:.2f}",
            lost_at(run),
            run.steps,
            still,
            _behind(run),
        )
        yield f"| {' | '.join(map(str, cells))} |"
    yield ""
    arms = dict.fromkeys((run.part, run.arm) for run in sorted(lost, key=lambda one: one.name))
    told = [_course([run for run in lost if (run.part, run.arm) == arm]) for arm in arms]
    yield (
        f"{' '.join(told)} These are rollouts of training. The results hold no texts: which tokens "
        "turn first is not known."
    )


def _course(lost: Sequence[Run]) -> str:
    """What the lines of one arm bear out, over its seeds that lost their reward."""
    facts = []
    gaps = _ends(lost, "gap", lambda run: lost_at(run) or run.steps)
    if gaps is not None:
        facts.append(
            f"its mean gap is {gaps[0]} nats in the first {FEW} steps and {gaps[1]} in the {FEW} "
            "before its reward is lost"
        )
    behind = [[sampled_behind(run, 2, steps) for steps in (EARLY, LATE)] for run in lost]
    if all(a is not None and b is not None and a < b for a, b in behind):
        facts.append("in every such seed it comes to sample more tokens behind two evictions")
    answered = _ends(lost, "answered", lambda run: run.steps)
    if answered is None:
        facts.append("whether its rollouts came to an answer is not recorded")
    else:
        facts.append(
            f"{answered[0].mean:.0%} of its rollouts came to an answer in the first {FEW} steps, "
            f"{answered[1].mean:.0%} in the last {FEW}"
        )
    return f"{lost[0].part} `{lost[0].arm}`: {'; '.join(facts)}."


def _ends(
    lost: Sequence[Run], name: str, end: Callable[[Run], int]
) -> tuple[Spread, Spread] | None:
    """A field over the first steps, and over the last before some end; None if it is not known."""
    first = spread(mean_of(run, "step", name, range(FEW)) for run in lost)
    steps = ((run, range(max(end(run) - FEW, 0), end(run))) for run in lost)
    last = spread(mean_of(run, "step", name, some) for run, some in steps)
    return None if first is None or last is None else (first, last)


def _behind(run: Run) -> str:
    first, last = (sampled_behind(run, 2, steps) for steps in (EARLY, LATE))
    return "-" if first is None or last is None else f"{first:.0f} to {last:.0f}"
