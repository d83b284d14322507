"""What `mwviz train` does: the estimate first, one line a step, and what came of it.

Steps and the summary go to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from mwviz.console import output_folder, plain
from mwviz.display import visible
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
from mwviz.wording import counted

if TYPE_CHECKING:
    from mwviz.training.plan import Plan
    from mwviz.training.runs import Event

SHOWN = ("loss_true", "coverage", "drift", "drift_diverging", "kl", "gap_view", "cosine", "floor")
"""Of a look at held-out rollouts, in the printed table."""
WIDE = 26
"""Characters of a column there: two numbers of four digits, an arrow and a gap."""
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
    from mwviz.training.outcome import outcome
    from mwviz.training.plan import material
    from mwviz.training.results import before_and_after, statuses, table
    from mwviz.training.runs import run

    held = material(plan)
    if held.note:
        _tell(held.note)
    model = load_model(plan.model, device=plan.device, adapter=plan.adapter)
    predicted = estimate(plan, held, model)
    _tell(f"{counted(len(held.trained), 'rollout')} on {model.label}: {predicted}")
    for sentence in predicted.tokens:
        _tell(sentence)
    events = run(plan, folder, held, model=model)
    try:
        with closing(events), _held_back() as stopped:
            for event in events:
                if event.told:
                    _print_event(event, as_json=options.json)
                if stopped():
                    raise KeyboardInterrupt
    except KeyboardInterrupt:
        again = shlex.join(("mwviz", "train", "--resume", str(folder)))
        _tell(f"cancelled; what it has is kept, and goes on with: {again}")
        return CANCELLED
    watched, states = table(folder, "watch"), statuses(folder)
    failed = {arm: one.message for arm, one in states.items() if one.state == "failed"}
    comes_to = outcome(watched, plan.recipe.objective)
    if options.json:
        looks = {arm: rows.to_dict("records") for arm, rows in watched.groupby("arm", sort=False)}
        summary = {
            "event": "summary",
            "folder": str(folder),
            "command": plan.command,
            "note": held.note,
            "tokens": list(predicted.tokens),
            "outcome": comes_to,
            "predicted": {"seconds": predicted.seconds, "bytes": predicted.bytes},
            "arms": {
                arm: {**one._asdict(), "before": looks[arm][0], "after": looks[arm][-1]}
                if arm in looks
                else one._asdict()
                for arm, one in states.items()
            },
        }
        print(json.dumps(plain(summary), ensure_ascii=True, allow_nan=False))
    else:
        which = "held-out rollouts" if plan.held_out else "the rollouts trained on"
        _print_table(before_and_after(watched, SHOWN), which)
        _print_outcome(comes_to)
        print(visible(f"kept in {folder}; the same again: {plan.command}"))
    return 1 if failed else 0


def _print_outcome(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        print(visible(sentence))


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
    )


def _print_event(event: Event, *, as_json: bool) -> None:
    report = event.step or event.watch
    if as_json:
        kind = "failed" if report is None else "step" if event.step else "watch"
        row = {"message": event.failure} if report is None else report.to_json()
        line: dict[str, Any] = {"event": kind, "arm": event.arm, **row}
        print(json.dumps(plain(line), ensure_ascii=True, allow_nan=False), flush=True)
        return
    if event.step:
        step = event.step
        print(
            f"{event.arm:<14} step {step.step:>4}  loss {_number(step.loss)}  "
            f"nll {_number(step.nll)}  kl {_number(step.kl)}  gap {_number(step.gap)}  "
            f"|g| {step.grad_norm:.3g}  {counted(step.targets, 'target')}, {step.seconds:.1f} s, "
            f"{event.eta:.0f} s to go",
            flush=True,
        )
        if step.note:
            _tell(f"{event.arm}: step {step.step}: {step.note}")
    elif event.watch:
        cells = "  ".join(f"{name} {_number(getattr(event.watch, name))}" for name in SHOWN)
        print(f"{event.arm:<14} after {event.watch.step:>3}  {cells}", flush=True)
    else:
        _tell(f"{event.arm}: {event.failure}")


@contextmanager
def _held_back() -> Iterator[Callable[[], bool]]:
    """Whether an interrupt has come, which waits for the step's end; the second one does not."""
    came: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def hold(number: int, _frame: FrameType | None) -> None:
        if came:
            raise KeyboardInterrupt
        came.append(number)
        _tell("stops after this step; once more stops now and goes back to the last checkpoint")

    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, hold)
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGINT, before)


def _print_table(rows: Any, which: str) -> None:
    if len(rows) == 0:
        return
    print(
        f"\n{which}, before -> after, in nats: loss_true over all sampled tokens; drift, "
        "kl and gap_view over the covered share; drift_diverging over those of them whose context "
        "differs; |drift| up to the floor is rounding; cosine with the exact gradient"
    )
    print(f"{'arm':<14}{'steps':>6}" + "".join(f"{name:>{WIDE}}" for name in SHOWN))
    for row in rows.to_dict("records"):
        cells = "".join(
            f"{_number(row[f'{name} before']) + ' -> ' + _number(row[f'{name} after']):>{WIDE}}"
            for name in SHOWN
        )
        print(f"{row['arm']:<14}{row['steps']:>6}{cells}")


def _number(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.4g}"


def _tell(text: str) -> None:
    print(visible(f"mwviz: {text}"), file=sys.stderr)
