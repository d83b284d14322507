"""LogitTree's rows as padded batches against one by one, both through the engine.

    python -m bench.batched --to build/card/batched.json        0.6B on trees A to D

For each tree: seconds of scoring and of a training step (medians of CUDA events), first calls, peak
and predictions of both, and how far the batches' scores and gradients are from the rows'. The same
distances in float32 come first, from a small model. The document is printed, and written anew
after each tree. `--device cpu --shape tiny --scale 0.003` tries it without a card, where the engine
makes no batches.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from bench import apart
from mwviz.engine import batches, bench, trials
from mwviz.engine.model import Model
from mwviz.engine.workloads import Workload, read_workload
from mwviz.views import build_view

FORMS = ("one by one", "batched")
MEASURED = ("forward", "train", "first", "peak", "predicted")
"""Fields of a `Timing`: seconds, bytes, and the seconds predicted for `train`."""


def compared(model: Model, workload: Workload, *, runs: int) -> dict[str, Any]:
    """Both forms on one tree; distances in nats, and relative for the gradient.

    Args:
        model: Runs them.
        workload: The tree.
        runs: Of each form, after one that is not counted.
    """
    rows = build_view(workload.tree, "logit_tree").rows
    kernel = trials.BRANCHES.kernel
    groups = batches.grouped(model, rows, kernel=kernel, train=True)
    found: dict[str, Any] = {"workload": workload.name, "rows": len(rows), "batches": len(groups)}
    run = bench.warm_run(model, workload, trials.BRANCHES)
    with one_by_one():
        alone = run.measured(None, runs)
    together = run.measured(alone.truth, runs)
    for form, made in zip(FORMS, (alone, together), strict=True):
        found[form] = {name: getattr(made.timing, name) for name in MEASURED}
    for name in ("forward", "train"):
        found[f"{name} faster"] = found[FORMS[0]][name] / found[FORMS[1]][name]
    found["max |d logprob|"] = together.timing.max_drift
    found["gradient error"] = together.timing.gradient_error
    return found


@contextmanager
def one_by_one() -> Iterator[None]:
    """No batch holds a second row."""
    before = batches.MOST
    batches.MOST = 0
    try:
        yield
    finally:
        batches.MOST = before


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", default="0.6B", choices=[*bench.SHAPES])
    parser.add_argument("--trees", default="DBCA", help="in the order in which they are run")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the trees' tokens")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--to", type=Path, help="file for the document")
    given = parser.parse_args()
    device = torch.device(given.device)
    cuda = device.type == "cuda"
    wide = torch.bfloat16 if cuda else torch.float32
    whole: dict[str, Any] = trials.measured_on(cuda=cuda)
    for title, name, dtype in (("float32", "tiny", torch.float32), ("timed", given.shape, wide)):
        model = bench.random_model(name, device=device, dtype=dtype)
        whole[title] = {"model": model.name, "dtype": model.precision, "trees": []}
        for tree in given.trees:
            file = apart.ROOT / "bench" / "workloads" / f"{tree}.json"
            workload = read_workload(file, vocabulary=model.vocabulary, scale=given.scale)
            runs = given.runs if title == "timed" else 1
            whole[title]["trees"].append(compared(model, workload, runs=runs))
            if given.to is not None:
                given.to.parent.mkdir(parents=True, exist_ok=True)
                given.to.write_text(json.dumps(whole, indent=1) + "\n")
    print(json.dumps(whole, indent=1))


if __name__ == "__main__":
    main()
