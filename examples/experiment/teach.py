"""Makes the demo agent: an adapter of the embedded model, trained exactly on the expert's rollouts.

python -m examples.experiment.teach OUT [--rank N --steps N --learning-rate X --device D ...]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from examples.experiment.batch import Batch
from examples.experiment.batched import EXACT, step
from examples.search_world.chat import Chat
from examples.search_world.episode import Episode, Sampler, play
from examples.search_world.expert import Expert
from examples.search_world.harnesses import HARNESSES, Harness
from examples.search_world.sampling import ModelSampler
from examples.search_world.world import make_task
from mwviz.analysis import Analysis
from mwviz.engine.embedded import EMBEDDED
from mwviz.engine.model import Model, load_model
from mwviz.rollout import Rollout
from mwviz.training.learner import fitted, learner
from mwviz.training.order import batches
from mwviz.training.recipe import Recipe

HELD_OUT = 1_000_000
"""First seed of tasks that no training sees."""


def episodes(
    seeds: Sequence[int], harnesses: Sequence[Harness], chat: Chat, *, vary: bool = True
) -> list[Episode]:
    """One episode a seed, the harnesses in turn; with `vary` of 1 to 3 questions, 2 to 4 hops."""
    made = []
    for index, seed in enumerate(seeds):
        harness = harnesses[index % len(harnesses)]
        dice = np.random.default_rng(seed)
        size = (int(dice.integers(1, 4)), int(dice.integers(2, 5))) if vary else (1, 3)
        task = make_task(seed, questions=size[0], hops=size[1])
        made.append(Episode(task, harness, chat, name=f"{harness.name}-{seed}"))
    return made


def rollouts(
    played: Sequence[Episode], sampler: Sampler, model: str | None = None
) -> list[Rollout]:
    """The episodes run to their ends."""
    play(played, sampler)
    return [episode.rollout(model) for episode in played]


def save_adapter(adapter: Any, folder: Path) -> None:
    """A PEFT adapter in 16 bits, without the path of the model it was trained on."""
    adapter.save_pretrained(str(folder))
    told = folder / "adapter_config.json"
    config = json.loads(told.read_text()) | {"base_model_name_or_path": EMBEDDED}
    config["target_modules"] = sorted(config["target_modules"])
    told.write_text(json.dumps(config, indent=1) + "\n")
    file = folder / "adapter_model.safetensors"
    save_file({k: v.to(torch.float16) for k, v in load_file(file).items()}, file)
    (folder / "README.md").unlink(missing_ok=True)


def rewards(model: Model, chat: Chat, *, count: int, seed: int = 0) -> dict[str, float]:
    """Mean reward of each harness on the same held-out tasks."""
    seeds = range(HELD_OUT, HELD_OUT + count)
    played = [one for h in HARNESSES for one in episodes(seeds, [h], chat)]
    made = rollouts(played, ModelSampler(model, stop=chat.stop, seed=seed))
    names = [rollout.meta["harness"] for rollout in made]
    return {
        harness.name: float(
            np.mean(
                [
                    one.reward or 0.0
                    for one, name in zip(made, names, strict=True)
                    if name == harness.name
                ]
            )
        )
        for harness in HARNESSES
    }


def main(words: Sequence[str] | None = None) -> None:
    """Trains, saves, and says how good it became."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--batch-tokens", type=int, default=8192)
    parser.add_argument("--rollouts", type=int, default=640, help="of the expert, over and over")
    parser.add_argument("--model", default=EMBEDDED, help="to put the adapter on")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--held-out", type=int, default=64)
    parser.add_argument("--keep", type=int, nargs="*", default=[], help="also save these steps")
    told = parser.parse_args(words)
    chat, began = Chat.embedded(), time.monotonic()
    base = load_model(told.model, device=told.device, dtype="float32")
    experts = rollouts(episodes(range(told.rollouts), HARNESSES, chat), Expert(chat))
    recipe = Recipe(
        steps=told.steps,
        learning_rate=told.learning_rate,
        batch_tokens=told.batch_tokens,
        seed=told.seed,
        lora_rank=told.rank,
        warmup_steps=10,
    )
    mine = learner(base, recipe)
    ready = fitted([Analysis(one) for one in experts], base)
    sizes = [analysis.tree.size for analysis in ready]
    order = batches(sizes, steps=told.steps, batch_tokens=told.batch_tokens, seed=told.seed)
    for number, places in enumerate(order):
        batch = Batch.of([ready[place] for place in places])
        seen = step(mine, batch, method=EXACT, number=number)
        spent = time.monotonic() - began
        print(f"{number} nll {seen.nll:.4f} norm {seen.grad_norm:.3f} {spent:.1f} s", flush=True)
        if number + 1 in told.keep:
            save_adapter(mine.adapter, told.out / f"step{number + 1}")
    save_adapter(mine.adapter, told.out)
    for folder in (*(told.out / f"step{number}" for number in told.keep), told.out):
        agent = load_model(told.model, device=told.device, dtype="float32", adapter=folder)
        found = rewards(agent, chat, count=told.held_out)
        (folder / "rewards.json").write_text(json.dumps(found))
        print(f"{time.monotonic() - began:.0f} s {folder.name} {found}", flush=True)


if __name__ == "__main__":
    main()
