"""What a user waits for before any model: tree, all views and pair counts of growing rollouts.

python bench/structure.py bench/results/structure.json
"""

from __future__ import annotations

import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mwviz import load
from mwviz.errors import ViewError
from mwviz.views import METHODS

SIZES = ("15k", "150k", "600k", "tail")
STRESS = Path(__file__).parent / "workloads" / "stress.py"
MIB = 2**10
"""ru_maxrss counts KiB on Linux."""


def measure(log: Path) -> dict[str, float | int]:
    """Seconds and MiB of one log, in a process of its own."""
    began = time.perf_counter()
    rest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    trace = load(str(log))
    loaded = time.perf_counter()
    (analysis,) = trace.analyses
    tree = analysis.tree
    built = time.perf_counter()
    possible = []
    for method in METHODS:
        try:
            analysis.view(method.name)
            possible.append(method.name)
        except ViewError:
            continue  # a layout that cannot express this rollout
    viewed = time.perf_counter()
    for name in possible:
        analysis.pairs(name)
    done = time.perf_counter()
    return {
        "file_mib": log.stat().st_size / 2**20,
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
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            log = Path(folder) / f"{size}.jsonl"
            subprocess.run([sys.executable, STRESS, size, log], check=True)
            told = subprocess.run(
                [sys.executable, "-m", "bench.structure", "--one", log],
                check=True,
                capture_output=True,
                text=True,
            )
            rows[size] = json.loads(told.stdout)
            print(size, rows[size], flush=True)
    found = {"date": time.strftime("%Y-%m-%d"), "python": platform.python_version(), "rows": rows}
    out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        print(json.dumps(measure(Path(sys.argv[2]))))
    else:
        main(Path(sys.argv[1]))
