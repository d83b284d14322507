"""What `mwviz train` does: the estimate first, one line a step, and what came of it.

What it prints is made by `train_printed`.
"""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from mwviz.console import output_folder
from mwviz.errors import TraceError, ViewError
from mwviz.options import (
    Commands,
    add_command,
    add_model,
    amount,
    count,
    factor,
    pair,
    seed,
    share,
    some,
)
from mwviz.train_printed import print_event, print_json_summary, print_summary, resuming, tell
from mwviz.wording import counted

if TYPE_CHECKING:
    from mwviz.training.plan import Plan
    from mwviz.training.runs import Event

CANCELLED = 130
"""Exit status after an interrupt, as shells have it."""


def add_train(added: Commands) -> None:
    """Options of `train`."""
    about = "fine-tune copies of a model with each method, and watch what that does"
    example = "mwviz train run.jsonl --method rightmost,packed_mask --lora 8 --out runs/1"
    command = add_command(added, "train", train, about=about, example=example)
    command.add_argument("files", nargs="*", metavar="FILE", help="traces to train on")
    command.add_argument(
        "--method", default="all", metavar="NAME,...|all", help="also exact, own:BATCH"
    )
    command.add_argument("--steps", type=some, default=30, help="optimiser steps (default: 30)")
    command.add_argument("--lr", type=factor, default=1e-4, help="learning rate (default: 1e-4)")
    command.add_argument(
        "--batch-tokens", type=some, default=4096, help="tree tokens a step (default: 4096)"
    )
    command.add_argument("--seed", type=seed, default=0, help="of the order, the same for all")
    command.add_argument("--lora", type=some, metavar="R", help="train an adapter of this rank")
    about_objective = "nll: likelihood (default); policy: clipped gradient on recorded rewards"
    command.add_argument(
        "--objective", choices=("nll", "policy"), default="nll", help=about_objective
    )
    command.add_argument(
        "--clip", type=pair, default=(0.8, 1.28), metavar="LOW,HIGH", help="of importance ratios"
    )
    command.add_argument("--most", type=factor, metavar="R", help="cut importance ratios here")
    command.add_argument("--strength", type=amount, default=0.1, help="of SDCC's KL (default: 0.1)")
    command.add_argument("--rise", type=share, default=0.2, help="share of steps it rises over")
    command.add_argument("--weight-decay", type=amount, default=0.0)
    command.add_argument(
        "--grad-clip", type=amount, default=1.0, help="0 does not cut (default: 1)"
    )
    command.add_argument(
        "--warmup", type=count, default=0, metavar="N", help="steps the rate rises"
    )
    command.add_argument(
        "--rollout", action="append", default=[], metavar="ID", help="train on this one only"
    )
    command.add_argument(
        "--held-out", action="append", default=[], metavar="FILE", help="traces to watch"
    )
    about_watch = "steps between looks (default: 10); 0 looks only before the first, after the last"
    command.add_argument("--watch", type=count, default=10, metavar="N", help=about_watch)
    about_world = (
        "code to measure at every look: a callable of the model that gives numbers by name"
    )
    command.add_argument("--world", metavar="MODULE:NAME", help=about_world)
    command.add_argument("--adapter", metavar="DIR", help="checkpoint or adapter to start from")
    command.add_argument("--out", default="mwviz-run", metavar="DIR", help="folder of the results")
    command.add_argument("--resume", metavar="DIR", help="go on with the run in this folder")
    command.add_argument("--json", action="store_true", help="one JSON line a step, then a summary")
    add_model(command)


def train(options: argparse.Namespace) -> int:
    """1 if an arm failed, else 0."""
    # Before torch is loaded: threads that spin while they wait slow busy cores down tenfold.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    plan, folder = _plan(options)

    from mwviz.engine.model import load_model
    from mwviz.training.estimate import estimate
    from mwviz.training.plan import material
    from mwviz.training.results import statuses, unknown_changes
    from mwviz.training.runs import run
    from mwviz.training.world import named_world

    world = named_world(plan.world)
    held = material(plan)
    if options.resume and (unknown := unknown_changes(folder)):
        tell(f"{folder}: {unknown}")
    model = load_model(plan.model, device=plan.device, adapter=plan.adapter)
    predicted = estimate(plan, held, model)
    on = f"{counted(len(held.trained), 'rollout')} on {model.label}: {predicted}"
    for sentence in (held.note, on, *predicted.tokens):
        tell(sentence)
    events = run(plan, folder, held, model=model, world=world)
    if not _follow(events, options):
        tell(f"cancelled; what it has is kept, and goes on with: {resuming(folder)}")
        return CANCELLED
    if options.json:
        print_json_summary(plan, folder, held.note, predicted)
    else:
        print_summary(plan, folder)
    return 1 if any(one.state == "failed" for one in statuses(folder).values()) else 0


def _follow(events: Generator[Event], options: argparse.Namespace) -> bool:
    """Prints what happens, and once what the looks at the start note; False if it was stopped."""
    noted = False
    try:
        with closing(events), _held_back() as stopped:
            for event in events:
                if event.told:
                    print_event(event, as_json=options.json)
                if event.watch and event.watch.note and not noted:
                    noted = True
                    tell(event.watch.note)
                if stopped():
                    raise KeyboardInterrupt
    except KeyboardInterrupt:
        return False
    return True


def _plan(options: argparse.Namespace) -> tuple[Plan, Path]:
    """What is asked, or what a folder holds that is to be resumed; and the folder."""
    from mwviz.training.plan import Plan
    from mwviz.training.recipe import ARMS
    from mwviz.training.results import resumable

    if options.resume:
        if options.files:
            raise ViewError("--resume takes no FILE: the folder says what is trained")
        unnamed = argparse.Namespace(**{**vars(options), "files": ["-"]})
        if _asked_plan(unnamed) != Plan(files=("-",), methods=ARMS):
            raise ViewError(
                "--resume takes no other option but --json: it goes on with the plan of its "
                "folder; another plan needs another folder (--out)"
            )
        return resumable(Path(options.resume)), Path(options.resume)
    if not options.files:
        raise ViewError("train needs a FILE, or --resume DIR")
    folder = output_folder(options.out)
    if (folder / "config.json").exists():
        raise TraceError(f"{folder}: holds a run; go on with --resume {folder}, or name another")
    return _asked_plan(options), folder


def _asked_plan(options: argparse.Namespace) -> Plan:
    from mwviz.training.plan import Plan
    from mwviz.training.recipe import Recipe, arms

    recipe = Recipe(
        steps=options.steps,
        learning_rate=options.lr,
        batch_tokens=options.batch_tokens,
        seed=options.seed,
        objective=options.objective,
        clip=options.clip,
        most=options.most,
        strength=options.strength,
        rise=options.rise,
        lora_rank=options.lora,
        weight_decay=options.weight_decay,
        grad_clip=options.grad_clip or None,
        warmup_steps=options.warmup,
    )
    return Plan(
        files=tuple(options.files),
        methods=arms(options.method),
        recipe=recipe,
        rollouts=tuple(options.rollout),
        held_out=tuple(options.held_out),
        watch=options.watch,
        model=options.model,
        adapter=options.adapter,
        device=options.device,
        world=options.world,
    )


@contextmanager
def _held_back() -> Iterator[Callable[[], bool]]:
    """Whether an interrupt has come, which waits for the step's end; the second one does not."""
    came: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def hold(number: int, _frame: FrameType | None) -> None:
        if came:
            raise KeyboardInterrupt
        came.append(number)
        tell("stops after this step; once more stops now and goes back to the last checkpoint")

    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, hold)
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGINT, before)
