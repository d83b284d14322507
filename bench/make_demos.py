"""Records the demos with the demos' agent and scores them: `mwviz/demo/`.

python -m bench.make_demos [DEMO ...]
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from examples.search_world.chat import Chat
from examples.search_world.episode import Episode, play
from examples.search_world.harnesses import Harness, harness_named
from examples.search_world.sampling import ModelSampler
from examples.search_world.world import make_task
from mwviz import store
from mwviz.analysis import Analysis
from mwviz.demos import DEMOS, FOLDER, Demo
from mwviz.engine.embedded import AGENT
from mwviz.engine.kernels import choose_kernel
from mwviz.engine.model import Model, load_model
from mwviz.engine.steps import finish
from mwviz.errors import ViewError
from mwviz.formats.mwviz1_writer import write
from mwviz.pieces import DEMO_PIECES
from mwviz.rollout import Rollout
from mwviz.tokenizer import Tokenizer, embedded_tokenizer
from mwviz.trace import load
from mwviz.views import METHODS

FIRST_SEED = 2_000_000
"""Of the tasks; training never came here."""
TRIES = 4
"""Tasks that are played at once, until one goes well."""


class Plan(NamedTuple):
    """How a demo is recorded."""

    harness: Harness
    questions: int
    hops: int
    evictions: int
    """How many it has to have."""


PLANS = {
    "busy": Plan(harness_named("prune"), 4, 3, 11),
    "tidy": Plan(harness_named("prune").tuned(at_least=250), 1, 4, 1),
    "control": Plan(harness_named("none"), 1, 3, 0),
    "summary": Plan(harness_named("summary"), 2, 3, 3),
    "fold": Plan(harness_named("fold"), 2, 3, 3),
    "window": Plan(harness_named("window"), 3, 2, 5),
}


def record(demo: Demo, model: Model, chat: Chat) -> Rollout:
    """The first rollout that answers everything with the evictions that were planned."""
    plan = PLANS[demo.name]
    seed = FIRST_SEED
    while True:
        tasks = [
            make_task(one, questions=plan.questions, hops=plan.hops)
            for one in range(seed, seed + TRIES)
        ]
        played = [Episode(task, plan.harness, chat, name=demo.name) for task in tasks]
        play(played, ModelSampler(model, stop=chat.stop, seed=seed))
        for episode in played:
            rollout = episode.rollout(AGENT)
            junctions = Analysis(rollout).junction_list
            evictions = sum(junction.is_eviction for junction in junctions)
            print(demo.name, seed, rollout.reward, evictions, len(rollout.calls), flush=True)
            if rollout.reward == 1 and evictions == plan.evictions:
                return rollout
        seed += TRIES


def scored(demo: Demo, model: Model) -> list[dict[str, str]]:
    """Scores a demo under every method that can lay it out; gives the keys they are kept under."""
    (analysis,) = load(demo.path).analyses
    for old in FOLDER.glob(f"{demo.name}.*.npz"):
        old.unlink()
    listed = []
    for method in METHODS:
        if method.student:
            continue
        try:
            scores = finish(analysis.scoring(model, method.name))
        except ViewError as refusal:
            print(demo.name, refusal)
            continue
        packed = any(row.mask != "causal" for row in analysis.view(method.name).rows)
        key = store.Key(
            analysis.digest,
            model.label,
            method.name,
            model.precision,
            choose_kernel(model, packed=packed),
            model.device.type,
        )
        with (FOLDER / f"{demo.name}.{method.name}.npz").open("wb") as stream:
            store.write(stream, key, replace(scores, hidden=None))
        listed.append(key._asdict())
        print(demo.name, method.name, f"{scores.seconds:.1f} s", flush=True)
    return listed


def write_pieces(tokenizer: Tokenizer) -> None:
    """The text of every token that a demo holds, for readers without the model."""
    ids = np.unique(np.concatenate([load(demo.path).analyses[0].tree.ids for demo in DEMOS]))
    texts = {token: tokenizer.piece(token) or b"" for token in ids.tolist()}
    told = {
        "texts": {token: text.decode(errors="surrogateescape") for token, text in texts.items()},
        "special": [token for token in texts if tokenizer.special(token)],
    }
    DEMO_PIECES.write_text(json.dumps(told, separators=(",", ":")) + "\n")


def main(names: list[str]) -> None:
    """Makes all demos, or those named; takes minutes on a small machine."""
    model, chat = load_model(AGENT), Chat.embedded()
    listing = FOLDER / "scores.json"
    listed = json.loads(listing.read_text()) if names else {}
    for demo in DEMOS:
        if not names or demo.name in names:
            write([record(demo, model, chat)], demo.path)
            listed[demo.name] = scored(demo, model)
            listing.write_text(json.dumps(listed, indent=1) + "\n")
    tokenizer = embedded_tokenizer()
    assert tokenizer is not None, "its model has just run"
    write_pieces(tokenizer)


if __name__ == "__main__":
    main(sys.argv[1:])
