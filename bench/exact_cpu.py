"""Whether `exact` takes the faster exact layout on a CPU: both run, one after the other, and again.

python -m bench.exact_cpu bench/results/exact_cpu.json

The embedded model scores and trains on demos, on small forms of the trees A to D, and on one whose
branches share their first token only, so that packing spares nothing. Core seconds count, the least
of some runs, self-checks left out; a choice is right if what it takes is at most `MOST` of the
faster layout.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.apart import ROOT
from mwviz.demos import DEMOS, open_demo
from mwviz.engine import check, cost, losses
from mwviz.engine.choice import choose_exact
from mwviz.engine.kernels import choose_kernel
from mwviz.engine.model import Model, load_model
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz.engine.workloads import read_workload
from mwviz.tree import EvictionTree
from mwviz.views import View, build_view

LAYOUTS = ("packed_mask", "logit_tree")
MOST = 1.1
"""Of the faster layout's time."""
SCALE = 0.01
"""Factor of the tokens of the trees A to D."""
TREES = ("tidy", "D", "A", "summary", "apart")
"""Demos by name, and trees by letter or by name."""
FOLDERS = ("workloads", "trees")
"""Where trees are; `workloads` are those that cards run."""


def measure(names: Sequence[str], runs: int, to: Path) -> None:
    """A row for each tree and pass, written as soon as it is there."""
    # Behind the engine, which first says how threads should wait.
    import torch

    model = load_model(device="cpu")
    found: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "rows": [],
    }
    for name in names:
        tree = _tree(name, model)
        for train in (False, True):
            row = {"tree": name, "load": os.getloadavg()[1]}
            row |= compared(tree, model, train=train, runs=runs)
            found["rows"].append(row)
            print(json.dumps(row), flush=True)
            to.write_text(json.dumps(found, indent=1) + "\n")


def compared(tree: EvictionTree, model: Model, *, train: bool, runs: int) -> dict[str, Any]:
    """What `exact` takes, and core seconds of both layouts, in turns."""
    views = {name: build_view(tree, name) for name in LAYOUTS}
    chosen = choose_exact(tree, model, train=train)
    predicted = {name: _predicted(view, model, train=train) for name, view in views.items()}
    took = dict.fromkeys(LAYOUTS, float("inf"))
    for view in views.values():
        check.proved(model, view.rows)
    for _ in range(runs):
        for name, view in views.items():
            seconds = _core_seconds(partial(_run, tree, view, model, train=train))
            took[name] = min(took[name], seconds)
    return {
        "train": train,
        "tokens": {name: sum(row.size for row in view.rows) for name, view in views.items()},
        "rows": len(views["logit_tree"].rows),
        "predicted": predicted,
        "core_seconds": took,
        "exact": chosen.method,
        "of the faster": took[chosen.method] / min(took.values()),
    }


def _run(tree: EvictionTree, view: View, model: Model, *, train: bool) -> None:
    if not train:
        finish(score(tree, view, model))
        return
    losses.backward(tree, view, model)
    model.module.zero_grad(set_to_none=True)


def _predicted(view: View, model: Model, *, train: bool) -> float:
    kernel = choose_kernel(model, packed=any(row.mask != "causal" for row in view.rows))
    return cost.predict(model, view.rows, kernel=kernel, train=train).seconds


def _core_seconds(run: Callable[[], None]) -> float:
    """A busy machine takes longer by the clock alone."""
    began = time.process_time()
    run()
    return time.process_time() - began


def _tree(name: str, model: Model) -> EvictionTree:
    demos = [demo for demo in DEMOS if demo.name == name]
    if demos:
        return open_demo(demos[0]).analyses[0].for_model(model).tree
    files = [ROOT / "bench" / folder / f"{name}.json" for folder in FOLDERS]
    file = next(file for file in files if file.is_file())
    return read_workload(file, vocabulary=model.vocabulary, scale=SCALE).tree


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("to", type=Path)
    parser.add_argument("--trees", nargs="+", default=TREES)
    parser.add_argument("--runs", type=int, default=2)
    given = parser.parse_args()
    measure(given.trees, given.runs, given.to)


if __name__ == "__main__":
    main()
