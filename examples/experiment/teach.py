"""Makes the demo agent: an adapter of the embedded model, trained exactly on the expert's rollouts.

python -m examples.experiment.teach OUT [--rank N --steps N --learning-rate X --device D ...]

With --right it stops as soon as the agent answers that share of a few questions right: where a
policy gradient has most to go on.
"""

from __future__ import annotations

import argparse
import hashlib
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
from examples.search_world.harnesses import HARNESSES, Harness, harness_named
from examples.search_world.merged import Merged
from examples.search_world.sampling import ModelSampler
from examples.search_world.world import HELD_OUT, make_task
from mwviz.analysis import Analysis
from mwviz.engine.embedded import EMBEDDED
from mwviz.engine.model import load_model
from mwviz.rollout import Rollout
from mwviz.training.learner import Learner, fitted, learner
from mwviz.training.order import batches
from mwviz.training.recipe import Recipe

LOOK, ASKED = 5, 24
"""Steps between two looks at how often the agent is right, and questions asked then."""
TRIED = (harness_named("prune"), harness_named("summary"))
"""Where it is asked."""
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
"""The files of an adapter's folder; the first is written last."""


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
    """A PEFT adapter in 16 bits, without the path of the model it was trained on.

    Its configuration is written last: where that is, the adapter is whole.
    """
    adapter.save_pretrained(str(folder))
    told = folder / CONFIG
    config = json.loads(told.read_text()) | {"base_model_name_or_path": EMBEDDED}
    told.unlink()
    config["target_modules"] = sorted(config["target_modules"])
    file = folder / WEIGHTS
    save_file({k: v.to(torch.float16) for k, v in load_file(file).items()}, file)
    (folder / "README.md").unlink(missing_ok=True)
    told.write_text(json.dumps(config, indent=1) + "\n")


def digest_of(folder: Path) -> str:
    """What tells a saved adapter from others."""
    return hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()[:12]


def rewards(
    sampler: Sampler, chat: Chat, *, count: int, harnesses: Sequence[Harness] = HARNESSES
) -> dict[str, float]:
    """Mean reward of each harness on the same held-out tasks."""
    seeds = range(HELD_OUT, HELD_OUT + count)
    played = [one for h in harnesses for one in episodes(seeds, [h], chat)]
    made = rollouts(played, sampler)
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
        for harness in harnesses
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
    parser.add_argument("--held-out", type=int, default=64, help="questions a policy; 0 asks none")
    parser.add_argument("--right", type=float, help="share of answers at which to stop")
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
    kept = _train(mine, [Analysis(one) for one in experts], chat, told)
    save_adapter(mine.adapter, told.out)
    for folder in (*kept, told.out) if told.held_out else ():
        agent = load_model(told.model, device=told.device, dtype="float32", adapter=folder)
        found = rewards(ModelSampler(agent, stop=chat.stop), chat, count=told.held_out)
        (folder / "rewards.json").write_text(json.dumps(found))
        print(f"{time.monotonic() - began:.0f} s {folder.name} {found}", flush=True)


def _train(
    mine: Learner, experts: Sequence[Analysis], chat: Chat, told: argparse.Namespace
) -> list[Path]:
    """All steps, or until the agent is right often enough; gives the folders it saved between."""
    kept: list[Path] = []
    ready = fitted(experts, mine.model)
    sizes = [analysis.tree.size for analysis in ready]
    order = batches(sizes, steps=told.steps, batch_tokens=told.batch_tokens, seed=told.seed)
    agent = Merged(mine)
    sampler = ModelSampler(agent.model, stop=chat.stop)
    for number, places in enumerate(order):
        if told.right and number and number % LOOK == 0:
            agent.refresh()
            found = rewards(sampler, chat, count=ASKED, harnesses=TRIED)
            print(f"{number} {found}", flush=True)
            if np.mean(list(found.values())) >= told.right:
                break
        began = time.monotonic()
        batch = Batch.of([ready[place] for place in places])
        seen = step(mine, batch, method=EXACT, number=number)
        spent = time.monotonic() - began
        print(f"{number} nll {seen.nll:.4f} norm {seen.grad_norm:.3f} {spent:.1f} s", flush=True)
        if number + 1 in told.keep:
            kept.append(told.out / f"step{number + 1}")
            save_adapter(mine.adapter, kept[-1])
    return kept


if __name__ == "__main__":
    main()
