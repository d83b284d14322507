"""What a user waits for who scores the tidy demo's four views with the embedded model on a CPU.

python -m bench.tidy_demo bench/results/tidy.json
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from mwviz.demos import DEMOS, open_demo
from mwviz.engine import cost
from mwviz.engine.choice import choose_exact
from mwviz.engine.kernels import choose_kernel
from mwviz.engine.model import Model, load_model
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz.tree import EvictionTree
from mwviz.views import View

VIEWS = ("exact", "rightmost", "replay", "last_call")
EXACT = ("packed_mask", "logit_tree")
"""Layouts that `exact` chooses from."""


def measure() -> dict[str, object]:
    """Seconds of each view with what was predicted; core seconds tell a busy machine apart."""
    # Behind the engine, which first says how threads should wait.
    import torch

    (demo,) = (one for one in DEMOS if one.name == "tidy")
    (analysis,) = open_demo(demo).analyses
    tree, model = analysis.tree, load_model(device="cpu")
    rows = {}
    for name in VIEWS:
        method = choose_exact(tree, model).method if name == "exact" else name
        view = analysis.view(method)
        kernel = choose_kernel(model, packed=any(row.mask != "causal" for row in view.rows))
        predicted = cost.predict(model, view.rows, kernel=kernel).seconds
        rows[name] = {
            "method": method,
            "tokens": sum(row.size for row in view.rows),
            "predicted": predicted,
            **_scored(tree, view, model),
        }
    # Once more without self-checks: what the chooser chose between.
    again = {name: _scored(tree, analysis.view(name), model)["core_seconds"] for name in EXACT}
    return {
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "tree_tokens": tree.size,
        "rows": rows,
        "exact": again,
    }


def _scored(tree: EvictionTree, view: View, model: Model) -> dict[str, float]:
    began, worked = time.perf_counter(), time.process_time()
    finish(score(tree, view, model))
    return {
        "seconds": time.perf_counter() - began,
        "core_seconds": time.process_time() - worked,
    }


if __name__ == "__main__":
    found = measure()
    print(json.dumps(found, indent=1))
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n")
