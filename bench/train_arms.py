"""Trains four arms on a demo with the embedded model, watched on another: a table, and the time.

python -m bench.train_arms [STEPS]

On two cores this takes less than five minutes; on busy ones the work is what counts.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from mwviz.demos import FOLDER
from mwviz.engine.model import load_model
from mwviz.training.estimate import estimate
from mwviz.training.plan import Plan, material
from mwviz.training.recipe import Recipe
from mwviz.training.results import before_and_after, statuses, table
from mwviz.training.runs import run

TRAINED, WATCHED = "summary", "tidy"
"""Demos: one that summarises three times, one with a single eviction."""
ARMS = ("rightmost", "replay", "packed_mask", "sdcc")
LIMIT = 300.0
"""Seconds that all of it may take on two cores."""
COLUMNS = ("loss_true", "drift_diverging", "kl", "cosine")


def main(steps: int = 4) -> int:
    files = {name: str(FOLDER / f"{name}.jsonl") for name in (TRAINED, WATCHED)}
    recipe = Recipe(steps=steps, learning_rate=2e-4, lora_rank=8, batch_tokens=1000)
    plan = Plan((files[TRAINED],), ARMS, recipe, held_out=(files[WATCHED],), watch=0)
    began = time.perf_counter()
    held, model = material(plan), load_model(plan.model)
    print(f"predicted: {estimate(plan, held, model)}")
    with tempfile.TemporaryDirectory(prefix="train-arms-") as folder:
        for event in run(plan, Path(folder), held, model=model):
            spent = time.perf_counter() - began
            print(f"{spent:6.0f} s  {event.arm}: {event.done} of {event.total}", file=sys.stderr)
        watched, took = table(Path(folder), "watch"), table(Path(folder), "steps")
        failed = [arm for arm, one in statuses(Path(folder)).items() if one.state != "done"]
    seconds = took.groupby("arm")["seconds"].mean()
    print("| arm | s a step | " + " | ".join(COLUMNS) + " | floor |")
    print("|---" * (len(COLUMNS) + 3) + "|")
    for row in before_and_after(watched, (*COLUMNS, "floor")).to_dict("records"):
        cells = [f"{row[f'{name} before']:.3g} → {row[f'{name} after']:.3g}" for name in COLUMNS]
        cells = ["-" if "nan" in cell else cell for cell in cells]
        floor = f"{row['floor after']:.1g}"
        print(f"| `{row['arm']}` | {seconds[row['arm']]:.1f} | {' | '.join(cells)} | {floor} |")
    spent, worked = time.perf_counter() - began, time.process_time()
    print(
        f"{spent:.0f} s in all; {worked:.0f} core seconds, {worked / 2:.0f} s of two cores that do "
        f"nothing else ({os.getloadavg()[0]:.0f} processes wanted the {os.cpu_count()} cores); "
        f"{LIMIT:.0f} s are allowed"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
