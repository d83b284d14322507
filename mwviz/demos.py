"""The built-in rollouts: recorded with the demos' agent, scored by it, ready without a model.

The agent is the embedded model with the adapter beside them (`mwviz.engine.embedded.AGENT`).
`bench/make_demos.py` records them. One more, `STRESS`, is made by a program when it is opened.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from mwviz import store
from mwviz.engine.embedded import EMBEDDED
from mwviz.formats.mwviz1_writer import write
from mwviz.rollout import Call, Rollout
from mwviz.stress import in_words, stress_log
from mwviz.trace import Trace, load
from mwviz.views import METHODS

FOLDER = Path(__file__).parent / "demo"


@dataclass(frozen=True, slots=True)
class Demo:
    """One rollout that ships with mwviz."""

    name: str
    title: str
    summary: str

    @property
    def path(self) -> Path:
        """Its trace file, in the format `mwviz/1`."""
        return FOLDER / f"{self.name}.jsonl"


DEMOS = (
    Demo(
        "busy",
        "Busy: a search agent whose old results are cleared",
        "16 calls, 11 evictions: each new search result turns the one before into a stub.",
    ),
    Demo(
        "tidy",
        "Tidy: one eviction",
        "5 calls; once, old search results are replaced by a short stub.",
    ),
    Demo(
        "control",
        "Control: nothing evicted",
        "4 calls that only ever extend the context: every layout must agree here.",
    ),
    Demo(
        "summary",
        "Summary: compacted, with a tail",
        "Three times the agent lists its facts, and only the latest step stays behind the list.",
    ),
    Demo(
        "fold",
        "Fold: one running note",
        "Three times all steps but the latest are folded into a note behind the question.",
    ),
    Demo(
        "window",
        "Window: the newest messages",
        "The oldest messages leave as new ones come; nothing is written in their place.",
    ),
)


STRESS = Demo(
    "stress",
    "Stress: 200 calls, 150,000 tokens",
    "98 changes of context in random words, made when it is opened: no agent and no scores, "
    "structure only.",
)
"""Not among `DEMOS`: it is in no file, and no model has scored it."""


def write_stress(path: Path) -> None:
    """Writes the trace of `STRESS`, the same every time."""
    calls = tuple(
        Call(
            id=str(line["call"]),
            prompt_ids=np.array(line["prompt_ids"], dtype=np.int32),
            completion_ids=np.array(line["completion_ids"], dtype=np.int32),
            logprobs=np.array(line["logprobs"], dtype=np.float32),
        )
        for line in in_words(stress_log("150k"))
    )
    part = path.with_suffix(".part")
    write([Rollout(STRESS.name, calls, semantics="re_prefill", tokenizer=EMBEDDED)], part)
    part.replace(path)


def open_demo(demo: Demo) -> Trace:
    """The demo's trace, its analysis already scored under every method."""
    trace = load(demo.path)
    (analysis,) = trace.analyses
    for key in kept_keys(demo):
        found = store.read(FOLDER / f"{demo.name}.{key.method}.npz", key)
        assert found.scores is not None, found.reason
        analysis.scores[key.method] = found.scores
    for method in METHODS:
        if method.student in analysis.scores:
            analysis.scores[method.name] = replace(
                analysis.scores[method.student], method=method.name
            )
    return trace


def kept_keys(demo: Demo) -> tuple[store.Key, ...]:
    """What the demo's shipped scores were made from."""
    return _kept_keys(FOLDER / "scores.json")[demo.name]


@cache
def _kept_keys(path: Path) -> dict[str, tuple[store.Key, ...]]:
    listed = json.loads(path.read_text())
    return {name: tuple(store.Key(**key) for key in keys) for name, keys in listed.items()}
