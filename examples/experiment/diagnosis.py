"""What SDCC's pull does by itself: its gradient beside the others', and steps of nothing else.

python -m examples.experiment.diagnosis OUT.jsonl WARM [--harness prune --steps 20 --device D ...]

`WARM` is the adapter that the GRPO arms start from. Each line says what it is of: `gradients` of
one batch that the agent samples, `pull` a look at it after some steps of the KL alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from examples.experiment.arms import (
    FIRST_QUESTION,
    HELD,
    SAMPLES,
    TAUGHT,
    advantages_of,
    experts,
    machine_of,
    questions_of,
)
from examples.experiment.batch import Batch
from examples.experiment.batched import (
    EXACT,
    Taught,
    gradient,
    groups,
    hidden_states,
    pulled_of,
    read,
    tokens_at_once,
)
from examples.experiment.held_out import answer
from examples.experiment.looks import diverging
from examples.experiment.teach import CONFIG, digest_of, rollouts
from examples.search_world.chat import Chat
from examples.search_world.harnesses import Harness, harness_named
from examples.search_world.sampling import ModelSampler
from examples.search_world.world import HELD_OUT
from mwviz.analysis import Analysis
from mwviz.engine import vocabulary
from mwviz.engine.embedded import EMBEDDED
from mwviz.engine.model import Model, load_model
from mwviz.sdcc import STRENGTH
from mwviz.training.known import known_mean
from mwviz.training.learner import Learner, fitted, learner
from mwviz.training.order import batches
from mwviz.training.recipe import Recipe

PULLED, STUDENT = "sdcc", "rightmost"
SOFT = 1.0
"""Nats of KL at the start from which a token needs what has left its row."""


def gradients(mine: Learner, batch: Batch, gains: Sequence[float]) -> dict[str, torch.Tensor]:
    """float64 (P,): the gradients of one batch at the same weights, by name.

    Args:
        mine: whose weights; they are not changed.
        batch: in the model's tokens.
        gains: advantage of each rollout.

    Returns:
        `exact` and `task`: of the policy objective in the true contexts and in the student's row.
        `pull`: of the KL alone, at strength 1. `likelihood`: of the student's row, whatever the
        reward.
    """
    gain = np.asarray(gains, dtype=np.float64)[batch.owner]
    asked = {
        "exact": (EXACT, gain),
        "task": (STUDENT, gain),
        "pull": (PULLED, np.zeros_like(gain)),
        "likelihood": (STUDENT, None),
    }
    found = {}
    for name, (method, weight) in asked.items():
        risen = mine.recipe.steps
        tokens_at_once().fit(
            lambda most, m=method, w=weight, r=risen: gradient(mine, batch, m, r, w, most)  # type: ignore[misc]
        )
        parts = [one.grad.double().flatten() for one in mine.parameters if one.grad is not None]
        found[name] = torch.cat(parts).cpu()
    mine.optimizer.zero_grad(set_to_none=True)
    found["pull"] /= mine.recipe.strength
    return found


def compared(found: dict[str, torch.Tensor]) -> dict[str, float | None]:
    """Norms, and cosines of what SDCC adds up, by name; None where a gradient is 0."""
    named = found | {"sdcc": found["task"] + STRENGTH * found["pull"]}
    pairs = (("task", "exact"), ("pull", "exact"), ("sdcc", "exact"), ("pull", "likelihood"))
    told: dict[str, float | None] = {
        f"norm_{name}": float(one.norm()) for name, one in named.items()
    }
    for one, two in pairs:
        told[f"{one}_{two}"] = _cosine(named[one], named[two])
    return told


def pull(mine: Learner, batch: Batch, teacher: Model, *, most: int) -> float:
    """Adds the gradient of the mean KL over C to the learner; gives that KL, nats.

    Args:
        mine: the student.
        batch: in the model's tokens.
        teacher: what the true contexts are read with; the learner's own model, or another.
        most: padded tokens at once.
    """
    views = batch.views(mine.model, PULLED)
    pulled = pulled_of(batch, views)
    taught, total = Taught(teacher, batch, pulled, most), 0.0
    head = vocabulary.head(mine.model)
    for group in groups(batch.rows(mine.model, views), most):
        target = np.concatenate([part.edges.target for part in group])
        here = np.isin(target, pulled)
        if not here.any():
            continue
        hidden = hidden_states(mine.model, group)[torch.from_numpy(here)]
        kl = taught.kl(head.log_softmax(hidden), target[here]).sum() / len(pulled)
        kl.backward()  # type: ignore[no-untyped-call]  # torch's
        total += float(kl.detach())
    return total


def pulled_alone(mine: Learner, taught: Sequence[Analysis], teacher: Model) -> Iterator[int]:
    """Steps of the KL and nothing else; gives how many were taken, from 0."""
    sizes = [one.tree.size for one in taught]
    recipe = mine.recipe
    order = batches(sizes, steps=recipe.steps, batch_tokens=recipe.batch_tokens, seed=recipe.seed)
    yield 0
    for number, places in enumerate(order):
        batch = Batch.of([taught[place] for place in places])
        mine.optimizer.zero_grad(set_to_none=True)
        pull(mine, batch, teacher, most=tokens_at_once().size)
        torch.nn.utils.clip_grad_norm_(mine.parameters, recipe.grad_clip or float("inf"))
        mine.optimizer.step()
        yield number + 1


def _cosine(one: torch.Tensor, two: torch.Tensor) -> float | None:
    """None where one of them is 0."""
    lengths = one.norm() * two.norm()
    return float(one @ two / lengths) if lengths else None


def _look(mine: Learner, held: Batch, evidence: Any) -> dict[str, float | None]:
    """A view against the true contexts, and how sure these are of what only they can know."""
    found = read(mine.model, held, PULLED)
    return {
        "kl": known_mean(found.kl[diverging(held, PULLED)]),
        "nll_true": known_mean(found.nll),
        "nll_evidence": known_mean(found.nll[evidence]),
    }


def _diagnose(told: argparse.Namespace, harness: Harness, chat: Chat) -> Iterator[dict[str, Any]]:
    agent = load_model(told.model, device=told.device, dtype="float32", adapter=told.warm)
    recipe = Recipe(
        steps=told.steps, learning_rate=told.rate, lora_rank=8, batch_tokens=told.batch_tokens
    )
    mine = learner(agent, recipe)
    sampler = ModelSampler(agent, stop=chat.stop)
    asked = [FIRST_QUESTION + one for one in range(told.questions) for _ in range(SAMPLES)]
    made = rollouts(questions_of(asked, harness, chat), sampler)
    rewards = np.array([one.reward for one in made], dtype=np.float64)
    batch = Batch.of(fitted([Analysis(one) for one in made], agent))
    found = gradients(mine, batch, advantages_of(rewards))
    yield {
        "kind": "gradients",
        "rollouts": len(made),
        "targets": batch.size,
        "reward": float(rewards.mean()),
        **compared(found),
    }
    taught = experts(range(TAUGHT), [harness], chat, agent)
    held = Batch.of(experts(range(HELD_OUT, HELD_OUT + HELD), [harness], chat, agent))
    evidence = read(agent, held, PULLED).kl > SOFT
    for teacher in told.teachers:
        mine = learner(agent, recipe)
        source = agent if teacher == "frozen" else mine.model
        for step in pulled_alone(mine, taught, source):
            if step % told.look and step != told.steps:
                continue
            line = {"kind": "pull", "teacher": teacher, "step": step}
            line |= _look(mine, held, evidence)
            if told.held_out and step in (0, told.steps):
                seeds = range(HELD_OUT, HELD_OUT + told.held_out)
                answers = answer(
                    ModelSampler(mine.model, stop=chat.stop, seed=1), chat, harness, seeds, teacher
                )
                line |= {
                    "reward": float(np.mean([one.reward for one in answers])),
                    "questions": len(answers),
                }
            yield line


def main(words: Sequence[str] | None = None) -> None:
    """Appends a line as each number is known."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("warm", type=Path)
    parser.add_argument("--harness", nargs="+", default=["prune", "summary"])
    parser.add_argument("--teachers", nargs="+", choices=("own", "frozen"), default=["own"])
    parser.add_argument("--questions", type=int, default=4, help=f"{SAMPLES} rollouts each")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--look", type=int, default=5, help="steps between two looks")
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--held-out", type=int, default=64, help="questions; 0 asks none")
    parser.add_argument("--model", default=EMBEDDED)
    parser.add_argument("--device", default="cpu")
    told = parser.parse_args(words)
    if not (told.warm / CONFIG).is_file():
        parser.error(f"{told.warm}: no adapter there (a folder with {CONFIG} was expected)")
    shared = {
        "warm": digest_of(told.warm),
        "rate": told.rate,
        "device": told.device,
        "machine": machine_of(told.device),
    }
    for name in told.harness:
        for line in _diagnose(told, harness_named(name), Chat.embedded()):
            whole = {"harness": name, **shared, **line}
            with told.out.open("a") as file:
                file.write(f"{json.dumps(whole)}\n")
            print(whole, flush=True)


if __name__ == "__main__":
    main()
