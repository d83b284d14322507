"""What lies behind the rewards: SDCC's pull, and a reward that is lost, as far as results say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from examples.experiment.batched import EXACT
from examples.experiment.findings import GRPO
from examples.experiment.readings import answered_after, at_look, reward_of, shared_look
from examples.experiment.results import Run, Spread, over_seeds
from examples.experiment.verdicts import ratio
from mwviz.sdcc import STRENGTH

LOST = 0.1
"""Training reward that counts as none."""
FEW = 3
"""Steps at either end that are compared."""
TEACHERS = {"own": "has the current weights", "frozen": "keeps the first weights"}
DIAGNOSED = Path(__file__).parents[2] / "bench" / "results" / "diagnosis.jsonl"
"""What `examples.experiment.diagnosis` measured."""


def explained(runs: Sequence[Run]) -> Iterator[str]:
    """The section, as far as there are results to write it from."""
    parts = [part for part in GRPO if _both(runs, part)]
    if parts or _both(runs, "sft"):
        yield from _pull(runs, parts)
    lost = [run for run in runs if run.part in GRPO and lost_at(run) is not None]
    if lost:
        yield from _lost(runs, lost)


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
    """The first step from which on its training reward is none; None if it never is, or was."""
    rewards = [line["reward"] for line in run.of("step")]
    some = [at for at, reward in enumerate(rewards) if reward > LOST]
    if not some or some[-1] + FEW >= len(rewards):
        return None
    return some[-1] + 1


def sampled_behind(run: Run, evictions: int, steps: slice) -> float:
    """Tokens a step that were sampled behind so many evictions or more, in some of the steps."""
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
    yield "## Why SDCC closes the gap and earns less"
    yield ""
    yield (
        "SDCC is what its definition says (tests hold loss and gradient to it: the teacher has the "
        "current weights, gets no gradient, and reads the true contexts). What follows from the "
        "definition is in [Training](training.md#what-sdcc-trains): its pull has the gradient of "
        "the likelihood of the agent's own samples *in the student's row*, whatever their reward. "
        "Where a token's evidence has left that row, it is trained to be said without evidence. "
        "A policy gradient of the row alone hardly does so: its importance ratio is near 0 there. "
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
    yield from _measured()
    yield from _likelihood(runs)


def _measured() -> Iterator[str]:
    """What the pull was measured to do by itself, from where the GRPO arms start."""
    lines = [json.loads(text) for text in DIAGNOSED.read_text().splitlines()]
    for line in (one for one in lines if one["kind"] == "gradients"):
        share = STRENGTH * line["norm_pull"] / line["norm_task"]
        yield ""
        yield (
            f"Gradients of one batch ({line['rollouts']} rollouts, {line['targets']} tokens, "
            f"`{line['harness']}`, the agent that the GRPO arms start from, "
            f"{line['device'].upper()}): the pull at its full strength of {STRENGTH:g} is "
            f"{share:.1f} times as long as the policy gradient of the row. Its cosine with the "
            f"likelihood of the same rollouts in the same row is {line['pull_likelihood']:.3f}, "
            f"with the exact policy gradient {line['pull_exact']:.3f}. The row's own policy "
            f"gradient has {line['task_exact']:.2f} with the exact one, both together "
            f"{line['sdcc_exact']:.2f}."
        )
    alone = [one for one in lines if one["kind"] == "pull"]
    yield from _pulled_alone(alone)
    if not alone:
        yield ""
        yield (
            "What is not known yet: how much of the lost reward this explains. That takes steps of "
            "the pull alone, and questions before and after (`examples/experiment/diagnosis.py`; "
            "[the plan](experiment-plan.md) has the call). The rewards of two seeds do not settle "
            "either that `sdcc` earns less than `rightmost`."
        )


def _pulled_alone(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    for name in dict.fromkeys((line["harness"], line["teacher"]) for line in lines):
        mine = [line for line in lines if (line["harness"], line["teacher"]) == name]
        first, last = mine[0], mine[-1]
        asked = ""
        if "reward" in first and "reward" in last:
            asked = (
                f"; of {last['questions']} held-out questions {last['reward']:.0%} are then "
                f"answered right, {first['reward']:.0%} before"
            )
        yield ""
        yield (
            f"Steps of the pull and nothing else, on the expert's rollouts (`{name[0]}`, rate "
            f"{last['rate']:g}, the teacher {TEACHERS[name[1]]}): after {last['step']} the KL on "
            f"diverging tokens is {last['kl']:.3g} nats ({first['kl']:.3g} before), and in the "
            f"true contexts the loss of tokens whose evidence has left the row is "
            f"{last['nll_evidence']:.3g} nats ({first['nll_evidence']:.3g} before){asked}."
        )


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


def _lost(runs: Sequence[Run], lost: Sequence[Run]) -> Iterator[str]:
    yield ""
    yield "## Where a reward is lost"
    yield ""
    yield (
        "Training reward that fell to none and stayed there. *No gradient*: steps in which every "
        "rollout of a question earned the same, so that all advantages are 0 and nothing can bring "
        f"the reward back. *Behind two*: tokens a step sampled behind two evictions or more, in "
        f"the first {FEW} steps and the last {FEW}:"
    )
    yield ""
    yield (
        "| arm | reward, first steps | none from step | of | no gradient | behind two | of "
        f"`{EXACT}`, same seed |"
    )
    yield "|---|---|---|---|---|---|---|"
    for run in sorted(lost, key=lambda one: one.name):
        first = float(np.mean([line["reward"] for line in run.of("step")[:FEW]]))
        still = sum(line["norm"] == 0 for line in run.of("step"))
        exact = [one for one in runs if one.name == run.name._replace(arm=EXACT) and one.steps]
        cells = (
            f"{run.part} `{run.arm}` seed {run.seed}",
            f"{first:.2f}",
            lost_at(run),
            run.steps,
            still,
            _behind(run),
            _behind(exact[0]) if exact else "-",
        )
        yield f"| {' | '.join(map(str, cells))} |"
    yield ""
    yield (
        "So it is lost in training, with real evictions, not only when asked: the agents go on "
        "after a second summary instead of coming to an answer. What is known: a replay shows all "
        "that was evicted in front of everything, so nothing in its row makes a summary carry a "
        "fact or a call read one; its gap is small at first and grows while the reward falls. What "
        "is not: which tokens turn first, and why the same layout keeps its reward where nothing "
        "is summarised. The results hold no texts; later runs also write calls a rollout and the "
        "share that answered."
    )


def _behind(run: Run) -> str:
    first = sampled_behind(run, 2, slice(FEW))
    return f"{first:.0f} to {sampled_behind(run, 2, slice(-FEW, None)):.0f}"
