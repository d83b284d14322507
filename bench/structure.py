"""What a user waits for before any model: tree, all views and pair counts of growing rollouts.

python -m bench.structure bench/results/structure.json

Core seconds, so that a busy machine shows no more than a free one: nothing here waits or runs on
several cores.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

from mwviz import load
from mwviz.errors import ViewError
from mwviz.stress import stress_log
from mwviz.views import METHODS

TOKENS = ("15k", "150k", "600k", "tail", "branchy")
"""Logs of the same calls with more tokens, then of long kept tails, then of very many calls."""
CALLS = (25, 50, 100)
"""First calls of the log of 200 with 150k tokens: 1, 2, 4 and, whole, 8 times as many."""
MIB = 2**10
"""ru_maxrss counts KiB on Linux."""


def measure(log: Path) -> dict[str, float | int]:
    """Core seconds and MiB of one log, in a process of its own."""
    began = time.process_time()
    rest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    trace = load(str(log))
    loaded = time.process_time()
    (analysis,) = trace.analyses
    tree = analysis.tree
    built = time.process_time()
    possible = []
    for method in METHODS:
        try:
            analysis.view(method.name)
            possible.append(method.name)
        except ViewError:
            continue  # a layout that cannot express this rollout
    viewed = time.process_time()
    for name in possible:
        analysis.pairs(name)
    done = time.process_time()
    return {
        "file_mib": log.stat().st_size / 2**20,
        "calls": len(tree.prompt_length),
        "tree_tokens": tree.size,
        "segments": len(tree.start),
        "views": len(possible),
        "read_s": loaded - began,
        "tree_s": built - loaded,
        "views_s": viewed - built,
        "pairs_s": done - viewed,
        "above_start_mib": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - rest) / MIB,
    }


def main(out: Path) -> None:
    logs = {f"150k, {calls} calls": ("150k", calls) for calls in CALLS}
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (size, calls) in (logs | {size: (size, None) for size in TOKENS}).items():
            log = Path(folder) / "log.jsonl"
            with log.open("w") as file:
                file.writelines(json.dumps(line) + "\n" for line in islice(stress_log(size), calls))
            command = [sys.executable, "-m", "bench.structure", "--one", log]
            told = subprocess.run(command, check=True, capture_output=True, text=True)
            rows[name] = json.loads(told.stdout)
            print(name, rows[name], flush=True)
    found = {
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
        "rows": rows,
    }
    out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        print(json.dumps(measure(Path(sys.argv[2]))))
    else:
        main(Path(sys.argv[1]))
