"""What `mwviz train` prints: steps and looks as they come, then what there is.

Steps and the summary go to stdout, everything else to stderr.
"""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mwviz.console import plain
from mwviz.display import visible
from mwviz.wording import counted

if TYPE_CHECKING:
    from mwviz.training.estimate import Estimate
    from mwviz.training.plan import Plan
    from mwviz.training.runs import Event

SHOWN = ("loss_true", "coverage", "drift", "drift_diverging", "kl", "gap_view", "cosine", "floor")
"""Of a look at held-out rollouts, in the printed table; what a world measures follows."""
WIDE = 26
"""Characters of a column there: two numbers of four digits, an arrow and a gap."""


def resuming(folder: Path) -> str:
    """The command that goes on with a run."""
    return shlex.join(("mwviz", "train", "--resume", str(folder)))


def print_json_summary(plan: Plan, folder: Path, note: str, predicted: Estimate) -> None:
    """The summary as one line of JSON."""
    from mwviz.training.endings import can_go_on
    from mwviz.training.outcome import outcome
    from mwviz.training.results import statuses, table

    watched, states = table(folder, "watch"), statuses(folder)
    by_arm = watched.groupby("arm", sort=False) if len(watched) else ()
    looks = {arm: rows.to_dict("records") for arm, rows in by_arm}
    summary = {
        "event": "summary",
        "folder": str(folder),
        "command": plan.command,
        "resume": resuming(folder) if any(map(can_go_on, states.values())) else None,
        "note": note,
        "tokens": list(predicted.tokens),
        "outcome": outcome(watched, plan),
        "predicted": {"seconds": predicted.seconds, "bytes": predicted.bytes},
        "arms": {
            arm: {**one._asdict(), "before": looks[arm][0], "after": looks[arm][-1]}
            if arm in looks
            else one._asdict()
            for arm, one in states.items()
        },
    }
    print(json.dumps(plain(summary), ensure_ascii=True, allow_nan=False))


def print_summary(plan: Plan, folder: Path) -> None:
    """The table of looks if there is one, how far failed arms came and why, and where it lies."""
    from mwviz.training.endings import can_go_on
    from mwviz.training.outcome import outcome
    from mwviz.training.results import before_and_after, statuses, table
    from mwviz.training.world import world_columns

    watched, states = table(folder, "watch"), statuses(folder)
    shown = (*SHOWN, *world_columns(watched.columns))
    which = "held-out rollouts" if plan.held_out else "the rollouts trained on"
    print_table(before_and_after(watched, shown), which, shown)
    for sentence in outcome(watched, plan):
        print(visible(sentence))
    for arm, one in states.items():
        if one.state == "failed":
            far = f"{arm} ended after {one.step} of {counted(plan.recipe.steps, 'step')}"
            print(visible(f"{far}: {one.message}"))
    print(visible(f"kept in {folder}; the same again: {plan.command}"))
    if any(map(can_go_on, states.values())):
        print(visible(f"with that mended, it goes on with: {resuming(folder)}"))


def print_event(event: Event, *, as_json: bool) -> None:
    """A step or a look on stdout, or why an arm ended."""
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
            tell(f"{event.arm}: step {step.step}: {step.note}")
    elif event.watch:
        numbers = {name: getattr(event.watch, name) for name in SHOWN} | dict(event.watch.world)
        cells = "  ".join(f"{name} {_number(value)}" for name, value in numbers.items())
        print(f"{event.arm:<14} after {event.watch.step:>3}  {cells}", flush=True)
    else:
        tell(f"{event.arm}: {event.failure}")


def print_table(rows: Any, which: str, shown: Sequence[str]) -> None:
    """The table `before_and_after` of some columns; nothing before the first look."""
    if len(rows) == 0:
        return
    own = "; behind it what --world measures" if len(shown) > len(SHOWN) else ""
    print(
        f"\n{which}, before -> after, in nats: loss_true over all sampled tokens; drift, "
        "kl and gap_view over the covered share; drift_diverging over those of them whose context "
        f"differs; |drift| up to the floor is rounding; cosine with the exact gradient{own}"
    )
    print(f"{'arm':<14}{'steps':>6}" + "".join(f"{name:>{WIDE}}" for name in shown))
    for row in rows.to_dict("records"):
        cells = "".join(
            f"{_number(row[f'{name} before']) + ' -> ' + _number(row[f'{name} after']):>{WIDE}}"
            for name in shown
        )
        print(f"{row['arm']:<14}{row['steps']:>6}{cells}")


def _number(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.4g}"


def tell(text: str) -> None:
    """Says it on stderr; "" is nothing to say."""
    if text:
        print(visible(f"mwviz: {text}"), file=sys.stderr)
