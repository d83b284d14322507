"""How often an agent is right on questions that no training sees, under each policy.

python -m examples.experiment.held_out ANSWERS.jsonl [--count N --model M --device D]

One line a question is written as it is answered; started again, it goes on where it stopped, and
with nothing left to answer it prints the table from the file alone.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from examples.experiment.teach import rollouts
from examples.search_world.chat import Chat
from examples.search_world.episode import Episode, Sampler
from examples.search_world.harnesses import HARNESSES, Harness, harness_named
from examples.search_world.world import HELD_OUT, make_task
from mwviz.engine.embedded import AGENT

HOPS = 3
AT_ONCE = 16
"""Questions that are answered together; what is written is whole multiples of it."""
SURE = 1.96
"""Standard errors on each side of a 95 % interval."""


class Answer(NamedTuple):
    """One question and what became of it."""

    model: str
    harness: str
    seed: int
    """Of the question."""
    reward: float
    """1 if it was answered right, else 0."""
    calls: int


def interval(right: float, asked: int) -> tuple[float, float]:
    """95 % interval of a share of right answers (Wilson's score interval).

    Args:
        right: answers that were right.
        asked: all of them, at least 1.
    """
    share, square = right / asked, SURE**2
    middle = (share + square / (2 * asked)) / (1 + square / asked)
    width = math.sqrt(share * (1 - share) / asked + square / (4 * asked**2))
    width *= SURE / (1 + square / asked)
    return max(middle - width, 0.0), min(middle + width, 1.0)


def answer(
    sampler: Sampler, chat: Chat, harness: Harness, seeds: Sequence[int], model: str
) -> list[Answer]:
    """What an agent answers to one question a seed, in a policy's contexts."""
    played = [Episode(make_task(s, hops=HOPS), harness, chat, name=str(s)) for s in seeds]
    return [
        Answer(model, harness.name, seed, float(one.reward or 0.0), len(one.calls))
        for seed, one in zip(seeds, rollouts(played, sampler), strict=True)
    ]


def read_answers(path: Path) -> list[Answer]:
    """Those in a file; the broken last line of a killed run is left out."""
    found = []
    for line in path.read_text().splitlines() if path.is_file() else ():
        try:
            found.append(Answer(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return found


def table(answers: Iterable[Answer]) -> str:
    """A Markdown table, one row a policy and one of them all."""
    groups: dict[str, list[Answer]] = {}
    for one in answers:
        groups.setdefault(one.harness, []).append(one)
    lines = ["| policy | questions | right | 95 % interval | calls |", "|---|---|---|---|---|"]
    if len(groups) > 1:
        groups["all"] = [one for some in groups.values() for one in some]
    for name, some in groups.items():
        right, calls = sum(one.reward for one in some), sum(one.calls for one in some)
        low, high = interval(right, len(some))
        lines.append(
            f"| {name} | {len(some)} | {right / len(some):.0%} | {low:.0%} to {high:.0%} | "
            f"{calls / len(some):.1f} |"
        )
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> None:
    """Asks what is not answered yet, and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("answers", type=Path)
    parser.add_argument("--count", type=int, default=64, help="questions a policy (default: 64)")
    parser.add_argument("--harness", nargs="+", default=[one.name for one in HARNESSES])
    parser.add_argument("--model", default=AGENT, help=f"name or folder (default: {AGENT})")
    parser.add_argument("--device", default="auto")
    told = parser.parse_args(words)
    mine = [one for one in read_answers(told.answers) if one.model == told.model]
    known = {(one.harness, one.seed) for one in mine}
    wanted = range(HELD_OUT, HELD_OUT + told.count)
    left = {name: [seed for seed in wanted if (name, seed) not in known] for name in told.harness}
    if any(left.values()):
        from examples.search_world.sampling import ModelSampler
        from mwviz.engine.model import load_model

        model = load_model(told.model, device=told.device, dtype="float32")
        chat = Chat.embedded()
        sampler = ModelSampler(model, stop=chat.stop)
        for first in range(0, told.count, AT_ONCE):
            for name, seeds in left.items():
                now = [seed for seed in seeds if 0 <= seed - HELD_OUT - first < AT_ONCE]
                if not now:
                    continue
                made = answer(sampler, chat, harness_named(name), now, told.model)
                with told.answers.open("a") as file:
                    file.writelines(f"{json.dumps(one._asdict())}\n" for one in made)
                mine += made
                print(f"{name}: {sum(o.reward for o in made):.0f} of {len(made)}", flush=True)
    print(table(one for one in mine if one.harness in told.harness and one.seed in wanted))


if __name__ == "__main__":
    main()
