"""One arm of the experiment, from its start to its end, in a process of its own.

python -m examples.experiment.arms PART ARM SEED RESULTS.jsonl [--device D --steps N ...]
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from examples.experiment.batch import Batch
from examples.experiment.batched import read, step, tokens_at_once
from examples.experiment.held_out import HOPS, answer
from examples.experiment.job import PARTS, Job
from examples.experiment.log import Log
from examples.experiment.looks import by_evictions, diverging, summary
from examples.experiment.stopping import stoppable
from examples.experiment.teach import digest_of, episodes, rollouts
from examples.experiment.together import Clock, Kept, common_step, take_steps
from examples.search_world.chat import Chat
from examples.search_world.episode import Episode
from examples.search_world.expert import Expert
from examples.search_world.harnesses import Harness, harness_named
from examples.search_world.merged import Merged
from examples.search_world.room import Room
from examples.search_world.sampling import ModelSampler
from examples.search_world.world import HELD_OUT, make_task
from mwviz.analysis import Analysis
from mwviz.engine.embedded import EMBEDDED
from mwviz.engine.model import Model, load_model
from mwviz.rollout import Rollout
from mwviz.training.known import known_mean
from mwviz.training.learner import Learner, fitted, learner
from mwviz.training.order import batches
from mwviz.training.recipe import Recipe

QUESTIONS, SAMPLES = 4, 8
"""Of a GRPO step: rollouts are compared within a question."""
FIRST_QUESTION = 3_000_000
"""Seed of the first training question of a GRPO arm."""
TAUGHT, HELD = 256, 24
"""Rollouts of the expert that an SFT arm trains on, and that it is looked at with."""
CONTEXT = 600 << 20
"""Bytes that CUDA takes for a process, outside of what PyTorch counts."""
ANSWERING = 0.25
"""Seconds kept for each held-out question, with ten arms on a card."""
AT_ONCE = 64
"""Held-out questions that are answered, and written, together."""
WAIT = 10.0
"""Seconds that arms wait for one that should have stopped."""
OUT_OF_TIME = "out of time"
"""Why an arm failed that took no step or answered nothing."""
LOOKS = {"sft": 10, "grpo-prune": 5, "grpo-summary": 5}
"""Steps between two looks at whole distributions."""


def memory_share(sharing: int) -> float:
    """Of a card's memory, what PyTorch may take in each of so many processes."""
    whole = torch.cuda.get_device_properties(0).total_memory
    return max(whole / sharing - CONTEXT, CONTEXT) / whole


def machine_of(device: str) -> str:
    """What it runs on, in words."""
    return torch.cuda.get_device_name() if device == "cuda" else device


def run(job: Job, log: Log) -> None:
    """The whole arm.

    Raises:
        SystemExit: nothing came of it that can be compared with the other arms; it says why.
    """
    log.write(
        "start",
        steps=job.steps,
        held_out=job.held_out,
        rate=job.rate,
        warm=job.warm and digest_of(Path(job.warm)),
        machine=machine_of(job.device),
        model=job.model,
        sharing=job.sharing,
        call=job.call,
    )
    chat = Chat.embedded()
    if job.device == "cuda":
        torch.cuda.set_per_process_memory_fraction(memory_share(job.sharing))
    start = load_model(job.model, device=job.device, dtype="float32", adapter=job.warm)
    recipe = Recipe(
        steps=job.steps,
        learning_rate=job.rate,
        batch_tokens=job.batch_tokens,
        seed=job.seed,
        lora_rank=8,
        objective="nll" if job.part == "sft" else "policy",
    )
    mine = learner(start, recipe)
    answering = job.until - ANSWERING * job.most_answers
    turns = _sft(job, mine, chat, log) if job.part == "sft" else _grpo(job, mine, chat, log)
    kept = Kept(mine.parameters)
    take_steps(turns, kept, log, job, end=answering)
    if not kept.step:
        sys.exit(OUT_OF_TIME)
    if job.together > 1:
        common = common_step(log, job, end=min(answering + WAIT, job.until))
        kept.go_back(common)
        if kept.step != common:
            sys.exit(f"the arms are compared after step {common}, it has step {kept.step} at best")
    _tested(job, mine, chat, log, kept.step)
    log.write("end", step=kept.step, **_memory(job.device))


def _memory(device: str) -> dict[str, float]:
    """The most that PyTorch took of a card, in GiB, and the most that was in use of it."""
    if device != "cuda":
        return {}
    taken, used = torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
    return {"taken": taken / 2**30, "used": used / 2**30}


def _sft(job: Job, mine: Learner, chat: Chat, log: Log) -> Generator[None]:
    seeds = range(50_000 * job.seed, 50_000 * job.seed + TAUGHT)
    ready = experts(seeds, job.harnesses, chat, mine.model)
    held_in = [harness_named("prune"), harness_named("summary")]
    held = Batch.of(experts(range(HELD_OUT, HELD_OUT + HELD), held_in, chat, mine.model))
    order = batches(
        [one.tree.size for one in ready],
        steps=job.steps,
        batch_tokens=job.batch_tokens,
        seed=job.seed,
    )
    room = tokens_at_once()
    for number, places in enumerate(order):
        if number % LOOKS["sft"] == 0:
            _look(job, mine.model, held, log, number, room)
        began = time.monotonic()
        batch = Batch.of([ready[place] for place in places])
        seen = step(mine, batch, method=job.method, number=number, room=room)
        log.write(
            "step",
            step=number,
            nll=seen.nll,
            kl=seen.kl,
            norm=seen.grad_norm,
            seconds=time.monotonic() - began,
        )
        if number == job.steps - 1:
            _look(job, mine.model, held, log, job.steps, room)
        yield


def _grpo(job: Job, mine: Learner, chat: Chat, log: Log) -> Generator[None]:
    agent, room = Merged(mine), tokens_at_once()
    sampler = ModelSampler(agent.model, stop=chat.stop, seed=job.seed)
    for number in range(job.steps):
        first = FIRST_QUESTION + 10_000 * job.seed + QUESTIONS * number
        asked = [one for one in range(first, first + QUESTIONS) for _ in range(SAMPLES)]
        began = time.monotonic()
        agent.refresh()
        made = rollouts(questions_of(asked, job.harnesses[0], chat), sampler)
        sampled = time.monotonic() - began
        batch = Batch.of(fitted([Analysis(one) for one in made], mine.model))
        rewards = np.array([one.reward for one in made], dtype=np.float64)
        if number % LOOKS[job.part] == 0 or number == job.steps - 1:
            _look(job, mine.model, batch, log, number, room)
        told = {
            "reward": rewards.mean(),
            "sampling": sampled,
            "calls": np.mean([len(one.calls) for one in made]),
            "answered": np.mean([_answered(one) for one in made]),
        }
        gains = advantages_of(rewards)
        seen = step(mine, batch, method=job.method, number=number, advantages=gains, room=room)
        gap = np.abs(seen.gap)
        wrong = diverging(batch, job.method)
        log.write(
            "step",
            step=number,
            nll=seen.nll,
            kl=seen.kl,
            norm=seen.grad_norm,
            clipped=seen.clipped,
            gap=np.nanmean(gap),
            gap_signed=np.nanmean(seen.gap),
            gap_max=np.nanmax(gap),
            gap_diverging=known_mean(gap[wrong]),
            coverage=seen.targets / batch.size,
            by_evictions=by_evictions(batch, job.method, gap),
            seconds=time.monotonic() - began,
            **told,
        )
        yield


def _answered(rollout: Rollout) -> bool:
    """Whether it came to an answer, right or not, before its calls ran out."""
    said = rollout.calls[-1].completion or ()
    lines = [line for message in said for line in message.text.splitlines()]
    return bool(lines) and lines[-1].startswith("Answer:")


def _tested(job: Job, mine: Learner, chat: Chat, log: Log, step: int) -> None:
    """Reward on the fixed questions, sampled by the trained model in its own harness.

    As many as there is time for; what is answered is written before the next are asked.

    Raises:
        SystemExit: there was no time for any in one of its harnesses.
    """
    agent, clock = Merged(mine).model, Clock(job.until)
    sampler = ModelSampler(agent, stop=chat.stop, seed=1)
    for first in range(0, job.held_out, AT_ONCE):
        seeds = range(HELD_OUT + first, HELD_OUT + min(first + AT_ONCE, job.held_out))
        for harness in job.harnesses:
            if not clock.allows():
                if not first:
                    sys.exit(OUT_OF_TIME)
                return
            given = answer(sampler, chat, harness, seeds, job.arm)
            reward = float(np.mean([one.reward for one in given]))
            log.write(
                "reward", step=step, harness=harness.name, reward=reward, questions=len(given)
            )


def _look(job: Job, model: Model, batch: Batch, log: Log, number: int, room: Room) -> None:
    """The arm's view against the true contexts, on the weights as they are."""
    found = read(model, batch, job.method, room=room)
    log.write("look", step=number, **summary(found, diverging(batch, job.method)))
    log.write("junctions", step=number, kl=by_evictions(batch, job.method, found.kl))


def questions_of(seeds: Sequence[int], harness: Harness, chat: Chat) -> list[Episode]:
    """One question each."""
    return [
        Episode(make_task(seed, hops=HOPS), harness, chat, name=f"{seed}-{index}")
        for index, seed in enumerate(seeds)
    ]


def experts(
    seeds: Sequence[int], harnesses: Sequence[Harness], chat: Chat, model: Model
) -> tuple[Analysis, ...]:
    """The expert's rollouts of one question each, the harnesses in turn, in a model's tokens."""
    made = rollouts(episodes(seeds, harnesses, chat, vary=False), Expert(chat))
    return fitted([Analysis(one) for one in made], model)


def advantages_of(rewards: npt.NDArray[np.float64]) -> list[float]:
    """Reward less the mean of its question, over the spread there; 0 where all are equal."""
    groups = rewards.reshape(-1, SAMPLES)
    spread = groups.std(1, keepdims=True)
    gains = (groups - groups.mean(1, keepdims=True)) / np.where(spread > 0, spread, 1.0)
    return [float(gain) for gain in gains.ravel()]


def main() -> None:
    """Runs the arm that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("arm")
    parser.add_argument("seed", type=int)
    parser.add_argument("results", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--held-out", type=int, default=256)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--warm")
    parser.add_argument("--model", default=EMBEDDED)
    parser.add_argument("--sharing", type=int, default=1)
    parser.add_argument("--until", type=float, default=math.inf)
    parser.add_argument("--together", type=int, default=1)
    parser.add_argument("--last", type=int)
    parser.add_argument("--call", default="")
    told = vars(parser.parse_args())
    results = told.pop("results")
    job = Job(**told)
    log = Log(results, job.name)
    with stoppable():
        try:
            run(job, log)
        except (Exception, SystemExit) as error:
            why = str(error)
            if not isinstance(error, SystemExit):
                why = f"{type(error).__name__}: {why}"
            log.write("failed", why=why.partition("\n")[0])
            raise


if __name__ == "__main__":
    main()
