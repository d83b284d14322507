"""What an agent in training is worth, beside the numbers of every look of `mwviz train`.

mwviz train rollouts.jsonl --world examples.search_world.measure:prune

`reward` is the share of a few questions that it answers right, sampled live under that harness.
`fact_copy` is the share of the names that the expert notes from tool results each of whose tokens
is the model's first choice in the expert's place. The tasks are the same at every look; recordings
with seeds below a million share none.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from examples.search_world.chat import Chat
from examples.search_world.episode import Episode, play
from examples.search_world.expert import NOTE, Expert
from examples.search_world.harnesses import Harness, harness_named
from examples.search_world.sampling import ModelSampler
from examples.search_world.world import HELD_OUT, make_task
from mwviz.analysis import Analysis
from mwviz.engine.model import Model
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz.rollout import Ints
from mwviz.scorer import EXACT
from mwviz.training.arms import arm_view
from mwviz.training.learner import fitted


@dataclass(frozen=True, slots=True)
class Measure:
    """A callable of the model, as `mwviz train --world` takes it."""

    harness: Harness
    questions: int = 4
    """That are asked: each takes the model some seconds on a CPU."""
    told: int = 8
    """Of the expert's tasks."""
    chat: Callable[[], Chat] = Chat.embedded

    def __call__(self, model: Model) -> dict[str, float]:
        """Both numbers, 0 to 1; higher is better."""
        return {"reward": self.reward(model), "fact_copy": self.fact_copy(model)}

    def reward(self, model: Model) -> float:
        """Share of the questions answered right; the same dice at every look."""
        chat, played = self.chat(), self._episodes(self.questions)
        play(played, ModelSampler(model, stop=chat.stop))
        return float(np.mean([episode.rollout().reward for episode in played]))

    def fact_copy(self, model: Model) -> float:
        """Share of the expert's facts that the model would have copied, in the true contexts."""
        chat, right = self.chat(), []
        for episode in self._episodes(self.told):
            play([episode], Expert(chat))
            [one] = fitted([Analysis(episode.rollout())], model)
            tree = one.tree
            rank = finish(score(tree, arm_view(one, model, EXACT), model)).rank
            for call, start, stop in _facts(episode, chat):
                held = (tree.call == call) & (tree.offset >= start) & (tree.offset < stop)
                right.append(bool((rank[held] == 0).all()))
        return float(np.mean(right))

    def _episodes(self, count: int) -> list[Episode]:
        chat, seeds = self.chat(), range(HELD_OUT, HELD_OUT + count)
        return [Episode(make_task(seed), self.harness, chat, name=str(seed)) for seed in seeds]


def _facts(episode: Episode, chat: Chat) -> Iterator[tuple[int, int, int]]:
    """Call of each note of the expert, and the tokens of its completion that hold the name."""
    chain = episode.question.chain
    for index, call in enumerate(episode.rollout().calls):
        assert call.completion is not None
        assert call.completion_ids is not None
        note = call.completion[0].text.partition("\n")[0]
        for fact in chain if note.startswith(NOTE) else ():
            if note == f"{NOTE}{fact.sentence}.":
                stop = len(note) - 1
                yield index, *_tokens(chat, call.completion_ids, stop - len(fact.value), stop)


def _tokens(chat: Chat, ids: Ints, start: int, stop: int) -> tuple[int, int]:
    """The tokens, first and one past the last, that hold the characters `[start, stop)`."""
    ends = [len(chat.decode(ids[: place + 1])) for place in range(len(ids))]
    return bisect_right(ends, start), bisect_left(ends, stop) + 1


none, prune, summary, fold, window = (
    Measure(harness_named(name)) for name in ("none", "prune", "summary", "fold", "window")
)
