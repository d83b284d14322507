"""The built-in rollouts: recorded with the embedded model, scored by it, ready without a model."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from mwviz import store
from mwviz.analysis import Trace, load
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
        "Busy: a search agent that summarises",
        "11 calls, 4 compactions: each keeps the latest turn behind a summary of the rest.",
    ),
    Demo(
        "tidy",
        "Tidy: one eviction",
        "9 calls; once, five old tool results are replaced by a short stub.",
    ),
    Demo(
        "control",
        "Control: nothing evicted",
        "5 calls that only ever extend the context: every layout must agree here.",
    ),
)


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
    listed = json.loads((FOLDER / "scores.json").read_text())
    return tuple(store.Key(**key) for key in listed[demo.name])
