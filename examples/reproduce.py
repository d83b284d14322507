"""Reproduces the claims of arXiv 2609.00865 at a small scale, or says that they do not show.

python -m examples.reproduce plan                              what would run, and for how long
python -m examples.reproduce run RESULTS.jsonl --device cuda   all parts, or those named
python -m examples.reproduce report RESULTS.jsonl              docs/experiment.md and its charts

A part may be run again after a break: arms that have ended are left out, others start anew.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from examples.experiment.arms import PARTS
from examples.experiment.report import write_report
from examples.experiment.results import read_results
from examples.experiment.scales import HELD_OUT, SCALES, Scale

SECONDS = {"sft": 1.5, "grpo-prune": 15.0, "grpo-summary": 20.0}
"""Of one step on an H200 that ten arms share; a CPU takes some thirty times as long."""
WARM_STEPS = 30
"""Of the warm-up: enough to act, too few to be always right."""
START = 60
"""Seconds until an arm takes its first step, and again to answer the held-out questions."""


class Arm(NamedTuple):
    """One process."""

    part: str
    arm: str
    seed: int


def arms_of(part: str, seeds: int) -> Iterator[Arm]:
    """All arms of a part, seed by seed."""
    return (Arm(part, arm, seed) for seed in range(seeds) for arm in PARTS[part])


def plan(options: argparse.Namespace) -> None:
    """Prints what would run and how long it would take, and starts nothing."""
    slow = 30 if options.device == "cpu" else 1
    for part in options.parts:
        scale = _scale(options, part)
        count = len(PARTS[part]) * scale.seeds
        waves = -(-count // options.workers)
        share = waves * min(count, options.workers) / 10 / max(options.gpus, 1)
        seconds = waves * 2 * START + share * scale.steps * SECONDS[part] * slow
        print(
            f"{part}: {count} arms ({', '.join(PARTS[part])}; {scale.seeds} seeds) of "
            f"{scale.steps} steps, {options.held_out} held-out questions: about "
            f"{seconds / 60:.0f} minutes on {options.gpus} x {options.device}"
        )


def run(options: argparse.Namespace) -> int:
    """Starts every arm that has not ended, at most `workers` at once; gives how many failed."""
    plan(options)
    ended = {(one.part, one.arm, one.seed) for one in read_results(options.results) if one.ended}
    left = [
        arm
        for part in options.parts
        for arm in arms_of(part, _scale(options, part).seeds)
        if tuple(arm) not in ended
    ]
    if any(arm.part != "sft" for arm in left):
        options.warm = options.warm or _warmed(options)
    stop = time.monotonic() + 60 * options.minutes
    running: dict[subprocess.Popen[bytes], Arm] = {}
    failed = started = 0
    while left or running:
        while left and len(running) < options.workers:
            arm = left.pop(0)
            running[_start(arm, options, started, (stop - time.monotonic()) / 60)] = arm
            started += 1
        for process in [one for one in running if one.poll() is not None]:
            arm = running.pop(process)
            failed += process.returncode != 0
            print(f"{' '.join(map(str, arm))}: exit {process.returncode}", flush=True)
        time.sleep(0.2)
    return failed


def _warmed(options: argparse.Namespace) -> Path:
    """An agent that is right about half the time, made beside the results if it is not there."""
    folder: Path = options.results.parent / "warm"
    if not (folder / "rewards.json").is_file():
        print(f"warm-up: {WARM_STEPS} exact steps on the expert's rollouts, into {folder}")
        command = [sys.executable, "-m", "examples.experiment.teach", str(folder)]
        command += ["--steps", str(WARM_STEPS), "--device", options.device, "--held-out", "16"]
        subprocess.run(command, check=True)
    return folder


def _start(
    arm: Arm, options: argparse.Namespace, number: int, minutes: float
) -> subprocess.Popen[bytes]:
    scale = _scale(options, arm.part)
    command = [sys.executable, "-m", "examples.experiment.arms", arm.part, arm.arm, str(arm.seed)]
    command += [str(options.results), "--device", options.device, "--steps", str(scale.steps)]
    command += ["--rate", str(scale.rate), "--held-out", str(options.held_out)]
    command += ["--minutes", f"{minutes:.2f}"]
    if arm.part != "sft":
        command += ["--warm", str(options.warm)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    if options.device == "cuda":
        env["CUDA_VISIBLE_DEVICES"] = str(number % options.gpus)
    return subprocess.Popen(command, env=env)


def _scale(options: argparse.Namespace, part: str) -> Scale:
    scale = SCALES[part]
    steps = options.steps if options.steps else scale.steps
    return scale._replace(steps=steps, seeds=options.seeds or scale.seeds)


def main(words: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("plan", "run"):
        command = commands.add_parser(name)
        if name == "run":
            command.add_argument("results", type=Path)
        command.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
        command.add_argument("--device", default="cpu")
        command.add_argument("--gpus", type=int, default=1)
        command.add_argument("--workers", type=int, default=10, help="arms at once, 10 a card")
        command.add_argument("--seeds", type=int, help="other than the part's own number")
        command.add_argument("--steps", type=int, help="other than the part's own number")
        command.add_argument("--held-out", type=int, default=HELD_OUT, help="questions")
        command.add_argument("--minutes", type=float, default=600.0, help="all arms end by then")
        command.add_argument(
            "--warm", type=Path, help="adapter that GRPO starts from (default: one made first)"
        )
    command = commands.add_parser("report")
    command.add_argument("results", type=Path)
    command.add_argument("--out", type=Path, default=Path("docs/experiment.md"))
    options = parser.parse_args(words)
    if options.command == "report":
        write_report(options.results, options.out)
        return 0
    if options.command == "plan":
        plan(options)
        return 0
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
