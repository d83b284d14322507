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
    parser.add_argument("--count", type=int, default=8, help="rollouts, all played at once")
    parser.add_argument("--seed", type=int, default=0, help="of the first task and of the sampling")
    parser.add_argument("--model", default=AGENT, help=f"name or folder (default: {AGENT})")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", help="default: bfloat16 on CUDA, float32 elsewhere")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--server", metavar="URL", help="a vLLM server that has --model")
    how.add_argument("--expert", action="store_true", help="the scripted agent, without a model")
    told = parser.parse_args(words)
    try:
        chat, harness = Chat.embedded(), harness_named(told.harness)
        tasks = [
            make_task(seed, questions=told.questions, hops=told.hops)
            for seed in range(told.seed, told.seed + told.count)
        ]
        played = [Episode(t, harness, chat, name=f"{harness.name}-{t.seed}") for t in tasks]
        play(played, _sampler(told, chat))
        made = [episode.rollout(None if told.expert else told.model) for episode in played]
        write(made, told.out)
    except (MwvizError, ValueError, OSError) as error:
        print(f"search_world: {error}", file=sys.stderr)
        return 2
    rewards = [rollout.reward or 0.0 for rollout in made]
    calls = sum(len(rollout.calls) for rollout in made)
    mean = sum(rewards) / max(len(rewards), 1)
    print(f"{told.out}: {len(made)} rollouts, {calls} calls, mean reward {mean:.2f}")
    return 0


def _sampler(told: argparse.Namespace, chat: Chat) -> Sampler:
    if told.expert:
        return Expert(chat)
    if told.server:
        return ServerSampler(told.server, model=told.model, stop=chat.stop)
    from examples.search_world.sampling import ModelSampler
    from mwviz.engine.model import load_model

    model = load_model(told.model, device=told.device, dtype=told.dtype)
    return ModelSampler(model, stop=chat.stop, seed=told.seed)


if __name__ == "__main__":
    sys.exit(main())
