"""Records agents at work in the search world, as `mwviz/1`.

python -m examples.search_world -o rollouts.jsonl --harness prune --count 8
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from examples.search_world.chat import Chat
from examples.search_world.episode import Episode, Sampler, play
from examples.search_world.expert import Expert
from examples.search_world.harnesses import HARNESSES, harness_named
from examples.search_world.server import ServerSampler
from examples.search_world.world import make_task
from mwviz.engine.embedded import AGENT
from mwviz.errors import MwvizError
from mwviz.formats.mwviz1_writer import write
from mwviz.wording import counted


def main(words: Sequence[str] | None = None) -> int:
    """The command line; 0 if a file was written."""
    parser = argparse.ArgumentParser(prog="examples.search_world", description=__doc__)
    names = ", ".join(harness.name for harness in HARNESSES)
    parser.add_argument("-o", "--out", required=True, metavar="FILE")
    parser.add_argument(
        "--harness", default="prune", help=f"{names}; or a preset of mwviz simulate"
    )
    parser.add_argument("--questions", type=int, default=1, help="asked one after the other")
    parser.add_argument("--hops", type=int, default=3, help="facts behind an answer, 1 to 4")
    parser.add_argument("--count", type=int, default=8, help="tasks, all played at once")
    about_samples = "rollouts of each task: what a policy gradient compares (default: 1)"
    parser.add_argument("--samples", type=int, default=1, help=about_samples)
    parser.add_argument("--seed", type=int, default=0, help="of the first task and of the sampling")
    parser.add_argument("--model", default=AGENT, help=f"name or folder (default: {AGENT})")
    parser.add_argument("--adapter", metavar="DIR", help="adapter or checkpoint to put on it")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", help="default: bfloat16 on CUDA, float32 elsewhere")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--server", metavar="URL", help="a vLLM server that has --model")
    how.add_argument("--expert", action="store_true", help="the scripted agent, without a model")
    told = parser.parse_args(words)
    if told.adapter and (told.server or told.expert):
        parser.error("--adapter is put on a --model that runs here, without --server or --expert")
    try:
        chat, harness = Chat.embedded(), harness_named(told.harness)
        played = [
            Episode(task, harness, chat, name="-".join((harness.name, str(task.seed), *sample)))
            for seed in range(told.seed, told.seed + told.count)
            for task in [make_task(seed, questions=told.questions, hops=told.hops)]
            for sample in _samples(told.samples)
        ]
        sampler, model = _sampler(told, chat)
        play(played, sampler)
        made = [episode.rollout(model) for episode in played]
        write(made, told.out)
    except (MwvizError, ValueError, OSError) as error:
        print(f"search_world: {error}", file=sys.stderr)
        return 2
    rewards = [rollout.reward or 0.0 for rollout in made]
    calls = sum(len(rollout.calls) for rollout in made)
    mean = sum(rewards) / max(len(rewards), 1)
    counts = f"{counted(len(made), 'rollout')}, {counted(calls, 'call')}"
    print(f"{told.out}: {counts}, mean reward {mean:.2f}")
    return 0


def _samples(count: int) -> list[tuple[str, ...]]:
    """What tells the rollouts of one task apart; nothing where there is one."""
    return [()] if count == 1 else [(str(sample),) for sample in range(count)]


def _sampler(told: argparse.Namespace, chat: Chat) -> tuple[Sampler, str | None]:
    """What completes requests, and the model it asks."""
    if told.expert:
        return Expert(chat), None
    if told.server:
        return ServerSampler(told.server, model=told.model, stop=chat.stop), told.model
    from examples.search_world.sampling import ModelSampler
    from mwviz.engine.model import load_model

    model = load_model(told.model, device=told.device, dtype=told.dtype, adapter=told.adapter)
    return ModelSampler(model, stop=chat.stop, seed=told.seed), model.name


if __name__ == "__main__":
    sys.exit(main())
