"""Reproduces the claims of arXiv 2609.00865 at a small scale, or says that they do not show.

python -m examples.reproduce plan --gpus 2 --minutes 9         what would run, how long, how large
python -m examples.reproduce run RESULTS.jsonl --device cuda   all parts, or those named
python -m examples.reproduce report RESULTS.jsonl ...          docs/experiment.md and its charts

A part may be run again after a break: arms that have ended are left out, others start anew. With
--minutes all arms of a part take as many steps as fit, and what still runs then is stopped.
docs/experiment-plan.md has the calls that do it in parts of ten minutes.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from examples.experiment import budget
from examples.experiment.budget import Budget
from examples.experiment.job import PARTS
from examples.experiment.log import Log, Name
from examples.experiment.progress import Progress
from examples.experiment.readings import answered_after
from examples.experiment.results import Run, read_results
from examples.experiment.scales import HELD_OUT, SCALES, Scale
from examples.experiment.stopping import STOPPED, stoppable
from examples.experiment.teach import CONFIG, digest_of
from examples.experiment.together import note_failure
from mwviz.engine.embedded import EMBEDDED
from mwviz.wording import counted

WARM_STEPS, RIGHT = 60, 0.4
"""Of the warm-up: steps at most, and the share of right answers at which it stops. Fewer leave a
policy gradient nothing to go on, more nothing to gain."""
LATE = 60.0
"""Seconds before the end, or a quarter of all of them, in which no arm is started any more."""
WARM_ROLLOUTS = 384
"""Of the expert, about as many as the steps train."""
GRACE = 30.0
"""Seconds beyond its minutes after which an arm is stopped; what it wrote stays."""
STUBBORN = 10.0
"""Seconds after which one that does not stop is killed."""
FOREVER = 600.0
"""Minutes that a run without a limit may take."""


def arms_of(part: str, seeds: int) -> Iterator[Name]:
    """All arms of a part, seed by seed."""
    return (Name(part, arm, seed) for seed in range(seeds) for arm in PARTS[part])


def plan(options: argparse.Namespace) -> list[Budget]:
    """Prints what would run, how long it would take and how large it gets; starts nothing."""
    on_card = options.device == "cuda"
    runs = read_results(options.results)
    left = Counter(arm.part for arm in arms_left(options, runs))
    warming = _needs_warm(left) and not _is_warm(options)
    before = float(budget.WARM_UP if warming else 0)
    minutes = math.inf if options.steps or options.minutes is None else options.minutes
    scales = {
        part: _as_before(_scale(options, part), part, runs, options)
        for part in options.parts
        if left[part]
    }
    for part in options.parts:
        if part not in scales:
            seeds = _scale(options, part).seeds
            every = f"{part}: all {seeds * len(PARTS[part])} arms"
            print(f"{every} of {counted(seeds, 'seed')} have ended")
    if not scales:
        print("nothing is left to run; --seeds with a larger number adds arms")
        return []
    asked = partial(
        budget.budgets,
        scales,
        left,
        gpus=max(options.gpus, 1) if on_card else 1,
        workers=_workers(options),
        slow=1 if on_card else budget.SLOW,
    )
    found = asked(minutes=minutes - before / 60 / budget.MARGIN)
    for one in found:
        whole = SCALES[one.part].steps
        short = f" (of {whole}, to fit)" if one.scale.steps < whole and not options.steps else ""
        print(f"{one.told}{short}, {options.held_out} held-out questions")
    warm = ", warm-up included" if warming else ""
    needed = (sum(one.seconds for one in found) + before) / 60
    cards = f"{options.gpus} x {options.device}" if on_card else options.device
    print(f"in all about {needed:.0f} minutes on {cards}{warm}")
    if needed > minutes:
        everything = sum(one.seconds for one in asked(minutes=math.inf)) + before
        print(
            f"{minutes:g} minutes are too few for this: all steps take about "
            f"{everything / 60:.0f}; give more --minutes, or fewer --parts a call"
        )
    if on_card:
        print(_memory(_sharing(options, left.total())))
    return found


def arms_left(options: argparse.Namespace, runs: Sequence[Run]) -> list[Name]:
    """The arms that have not ended, part by part."""
    ended = {one.name for one in runs if one.ended}
    wanted = (arm for part in options.parts for arm in arms_of(part, _scale(options, part).seeds))
    return [arm for arm in wanted if arm not in ended]


def _as_before(scale: Scale, part: str, runs: Sequence[Run], options: argparse.Namespace) -> Scale:
    """A part's scale; as that of its arms that have ended, so that the others compare with them.

    Raises:
        SystemExit: none compares with all of them, other steps are asked for, or they have started
            from another adapter.
    """
    ended = [run for run in runs if run.part == part and run.ended and run.of("reward")]
    planned = {int(run.start["steps"]) for run in ended}
    answered = {step for run in ended if (step := answered_after(run)) is not None}
    if not ended:
        return scale
    if len(planned) > 1 or len(answered) > 1:
        after, of = (", ".join(map(str, sorted(some))) for some in (answered, planned))
        raise SystemExit(
            f"{options.results}: {len(ended)} arms of {part} have ended after steps {after} of "
            f"{of}, so no other arm compares with all of them; name another file"
        )
    (steps,), (last,) = planned, answered
    if options.steps not in (None, steps):
        raise SystemExit(
            f"{options.results}: {len(ended)} arms of {part} have ended after step {last} of "
            f"{steps}, and others compare with them only so; leave --steps out or name another file"
        )
    _same_start(options, part, ended)
    return scale._replace(steps=steps, last=last)


def _same_start(options: argparse.Namespace, part: str, ended: Sequence[Run]) -> None:
    """Refuses to compare arms that start from another adapter, or from one that would be made.

    Results of earlier versions do not say which it was: then it says that this cannot be checked.
    """
    starts = [one for run in ended if (one := run.start.get("warm"))]
    if not starts:
        return
    known = {one for one in starts if isinstance(one, str)}
    named = f"the adapter {', '.join(sorted(known))}" if known else "an adapter"
    told = f"{options.results}: {len(starts)} arms of {part} have started from {named}"
    if not _is_warm(options):
        raise SystemExit(
            f"{told}, and none is in {_warm(options)}; put that one there, since arms that start "
            "from another do not compare, or name another file"
        )
    if known and known != {mine := digest_of(_warm(options))}:
        raise SystemExit(
            f"{told}, not from {_warm(options)} ({mine}); put that one there or name another file"
        )
    if silent := sum(not isinstance(one, str) for one in starts):
        print(
            f"{part}: {silent} ended arms do not say which adapter they started from; whether it "
            f"is that of {_warm(options)} cannot be checked"
        )


def _memory(sharing: int) -> str:
    """What so many arms on a card take at most."""
    need = budget.need()
    return (
        f"memory: {sharing} arms a card, each about {need.most:.1f} GiB at most "
        f"({need.standing:.1f} standing, {need.training:.1f} training or {need.sampling:.1f} "
        f"sampling): {sharing * need.most:.0f} of {budget.CARD:.0f} GiB; an arm that wants more "
        "than its share runs less at once"
    )


def run(options: argparse.Namespace) -> int:
    """Starts every arm that has not ended, at most `workers` at once; gives how many failed."""
    began = time.time()
    options.results.parent.mkdir(parents=True, exist_ok=True)
    scales = {one.part: one.scale for one in plan(options)}
    left = arms_left(options, read_results(options.results))
    minutes = FOREVER if options.minutes is None else options.minutes
    stop, late = began + 60 * minutes, min(LATE, 15 * minutes)
    with stoppable():
        if _needs_warm(arm.part for arm in left) and not _is_warm(options):
            _warm_up(options, stop - time.time())
        return _all(left, scales, options, (stop, late))


def _all(
    left: list[Name],
    scales: Mapping[str, Scale],
    options: argparse.Namespace,
    times: tuple[float, float],
) -> int:
    """Runs arms until none is left or the time is up; gives how many did not end well.

    None outlives it, whatever ends it: SIGTERM, an interrupt or an error.
    """
    (stop, late), call = times, f"{time.time():.3f}"
    sharing = _sharing(options, len(left))
    together = Counter(arm.part for arm in left) if len(left) <= _workers(options) else Counter()
    running: dict[subprocess.Popen[bytes], tuple[Name, int]] = {}
    progress, failed = Progress(options.results), 0

    def over(process: subprocess.Popen[bytes], why: str) -> None:
        arm, _ = running.pop(process)
        scale = scales[arm.part]
        started = {"steps": scale.steps, "rate": scale.rate, "machine": options.device}
        note_failure(Log(options.results, arm), arm, call, why, **started)

    try:
        while left or running:
            while left and len(running) < _workers(options) and time.time() < stop - late:
                arm = left.pop(0)
                busy = Counter(card for _, card in running.values())
                card = min(range(max(options.gpus, 1)), key=lambda one: busy[one])
                shared: dict[str, float | str] = {
                    "until": stop,
                    "call": call,
                    "together": together[arm.part] or 1,
                    "sharing": sharing,
                }
                process = _start(arm, scales[arm.part], options, card, shared)
                running[process] = (arm, card)
            for process in [one for one in running if one.poll() is not None]:
                told = f"exit {process.returncode}"
                print(f"{' '.join(map(str, running[process][0]))}: {told}", flush=True)
                failed += process.returncode != 0
                over(process, told)
            for process in running:
                _stop(process, late=time.time() - stop)
            if left and not running and time.time() >= stop - late:
                print(f"out of time: {len(left)} arms did not start; run this again", flush=True)
                return failed + len(left)
            progress.tell({arm for arm, _ in running.values()})
            time.sleep(0.2)
    finally:
        _end(running)
        for process in list(running):
            over(process, STOPPED)
    return failed


def _end(processes: Collection[subprocess.Popen[bytes]]) -> None:
    """Tells what still runs to stop, and kills what has not done so in time."""
    for process in processes:
        process.terminate()
    end = time.monotonic() + STUBBORN
    for process in processes:
        try:
            process.wait(max(end - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _stop(process: subprocess.Popen[bytes], *, late: float) -> None:
    """Ends an arm that is so many seconds late: it may say so, unless it does not even do that."""
    if late > GRACE + STUBBORN:
        process.kill()
    elif late > GRACE:
        process.terminate()


def _warm(options: argparse.Namespace) -> Path:
    """Where the agent is that GRPO starts from."""
    return Path(options.warm or options.results.parent / "warm")


def _is_warm(options: argparse.Namespace) -> bool:
    return (_warm(options) / CONFIG).is_file()


def _needs_warm(parts: Iterable[str]) -> bool:
    return any(part != "sft" for part in parts)


def _warm_up(options: argparse.Namespace, seconds: float) -> None:
    """Makes an agent that is right a bit less than half the time.

    Args:
        options: of the command line.
        seconds: that are left for it.

    Raises:
        SystemExit: it broke off, or there was not time enough.
    """
    folder, steps = _warm(options), options.warm_steps
    print(f"warm-up: up to {steps} exact steps on the expert's rollouts, in {folder}", flush=True)
    command = [sys.executable, "-m", "examples.experiment.teach", str(folder)]
    command += ["--steps", str(steps), "--right", str(RIGHT), "--held-out", "0"]
    command += ["--rollouts", str(WARM_ROLLOUTS)]
    command += ["--device", options.device, "--model", options.model]
    try:
        subprocess.run(command, check=True, timeout=max(seconds, 0.0))
    except subprocess.CalledProcessError as error:
        told = f"broke off (exit {error.returncode}); its own message is above"
    except subprocess.TimeoutExpired:
        told = f"did not end in the {max(seconds, 0.0) / 60:.1f} minutes left; give more --minutes"
    else:
        return
    raise SystemExit(f"the warm-up {told}. No arm was started.")


def _start(
    arm: Name,
    scale: Scale,
    options: argparse.Namespace,
    card: int,
    shared: Mapping[str, float | str],
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "examples.experiment.arms", arm.part, arm.arm, str(arm.seed)]
    command += [str(options.results), "--device", options.device, "--steps", str(scale.steps)]
    command += ["--rate", str(scale.rate), "--held-out", str(options.held_out)]
    command += ["--model", options.model]
    for name, value in shared.items():
        command += [f"--{name}", str(value)]
    if scale.last is not None:
        command += ["--last", str(scale.last)]
    if arm.part != "sft":
        command += ["--warm", str(_warm(options))]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    if options.device == "cuda":
        env["CUDA_VISIBLE_DEVICES"] = str(card)
    return subprocess.Popen(command, env=env)


def _workers(options: argparse.Namespace) -> int:
    """Arms at once: as many as the cards hold, on a CPU one a core."""
    if options.workers:
        return int(options.workers)
    if options.device == "cuda":
        return int(budget.most_at_once() * max(options.gpus, 1))
    return max(os.cpu_count() or 1, 1)


def _sharing(options: argparse.Namespace, arms: int) -> int:
    """Of so many arms, those that are on one card at the same time."""
    cards = max(int(options.gpus), 1)
    return -(-min(_workers(options), arms) // cards)


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
        command.add_argument(
            "results",
            type=Path,
            nargs="?" if name == "plan" else None,
            default=Path("results/run.jsonl"),
        )
        command.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
        command.add_argument("--device", default="cuda" if name == "plan" else "cpu")
        command.add_argument("--gpus", type=int, default=1)
        command.add_argument("--workers", type=int, help="arms at once (default: as many as fit)")
        command.add_argument("--seeds", type=int, help="other than the part's own number")
        command.add_argument("--steps", type=int, help="other than the part's own number")
        command.add_argument("--held-out", type=int, default=HELD_OUT, help="questions")
        command.add_argument("--minutes", type=float, help="all of it ends by then")
        command.add_argument(
            "--warm",
            type=Path,
            help="adapter that GRPO starts from (default: `warm` beside the results, made first)",
        )
        command.add_argument("--warm-steps", type=int, default=WARM_STEPS, help="to make it")
        command.add_argument("--model", default=EMBEDDED, help="a smaller one tries the flow")
    command = commands.add_parser("report")
    command.add_argument("results", type=Path, nargs="+")
    about_out = "page to write, its charts in a folder beside it (default: docs/experiment.md)"
    command.add_argument("--out", type=Path, default=Path("docs/experiment.md"), help=about_out)
    options = parser.parse_args(words)
    if options.command == "report":
        from examples.experiment.report import write_report  # Draws, which no card's machine can.

        write_report(options.results, options.out)
        return 0
    if options.warm and _needs_warm(options.parts) and not _is_warm(options):
        parser.error(
            f"--warm {options.warm}: no adapter there (a folder with {CONFIG} was expected); "
            "without --warm one is made beside the results"
        )
    if options.command == "plan":
        plan(options)
        return 0
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
