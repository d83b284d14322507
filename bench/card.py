"""Measures in parts all that a card has to show of the engine, and says what is missing.

    python -m bench.card              the parts, with the time each may take
    python -m bench.card PART ...     runs them, all but the steps that the folder holds already
    python -m bench.card report       one table; with --to FILE the results of all parts

Each step is written to build/card/PART.json (`--out`) as soon as it is done, a step that fails with
its last lines; a part that has used up its time stops between two steps, and goes on when called
again. `--device cpu --shape tiny --scale 0.003` tries everything without a card, in minutes.
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench import card_parts, card_report
from bench.card_parts import Setting, Steps
from mwviz.engine.trials import measured_on
from tests.engine.test_recorded import COMMITTED

PARTS: dict[str, tuple[int, Callable[[Setting], Steps]]] = {
    "0.6B": (400, partial(card_parts.shape, "0.6B")),
    "1.7B": (420, partial(card_parts.shape, "1.7B")),
    "exact": (120, card_parts.exact),
    "tests": (330, card_parts.tests),
    "together": (200, card_parts.together),
    "embedded": (150, card_parts.embedded),
    "sweep": (240, card_parts.sweep),
    "cards": (520, card_parts.cards),
}
"""Seconds after which no further step is begun, and what gives the steps; in the order in which a
session with little time should take them. `cards` needs two cards, `embedded` the model."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join((*PARTS, "report")))
    parser.add_argument("--out", type=Path, default=Path("build/card"), help="of results")
    parser.add_argument("--to", type=Path, help="file that `report` writes")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="begin no step of any part after these"
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shape", help="takes the place of every shape")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the trees' tokens")
    parser.add_argument("--record", type=Path, default=COMMITTED, help="calls.jsonl")
    given = parser.parse_args()
    unknown = set(given.parts) - {*PARTS, "report"}
    if unknown:
        parser.error(f"unknown part {min(unknown)}; expected one of {', '.join(PARTS)}, report")
    setting = Setting(torch.device(given.device), given.scale, given.shape, given.record)
    if not given.parts:
        print("\n".join(f"{name:10} {limit} s" for name, (limit, _steps) in PARTS.items()))
        return
    given.out.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + given.seconds
    for name in given.parts:
        if name == "report":
            card_report.write(given.out, given.to)
        else:
            run(name, setting, given.out, until=until)
    if "report" not in given.parts:
        card_report.write(given.out, None)


def run(name: str, setting: Setting, out: Path, *, until: float = float("inf")) -> None:
    """One part, as far as its time goes, and that of all parts: `until`, of the monotonic clock."""
    limit, steps = PARTS[name]
    file = out / f"{name}.json"
    if file.is_file():
        document = json.loads(file.read_text())
    else:
        document = {**measured_on(cuda=setting.device.type == "cuda"), "steps": {}}
    done: dict[str, Any] = document["steps"]
    began = time.monotonic()
    for step, measure in steps(setting):
        if step in done and "failed" not in done[step]["found"]:
            continue
        start = time.monotonic()
        if start - began > limit or start > until:
            print(f"{name}: its time is over; call again for {step} and what follows", flush=True)
            return
        found = _safe(measure)
        done[step] = {"found": found, "seconds": round(time.monotonic() - start, 1)}
        file.write_text(json.dumps(document) + "\n")
        failed = ": failed: " + found["failed"][-1] if "failed" in found else ""
        print(f"{name}: {step}: {done[step]['seconds']} s{failed}", flush=True)


def _safe(measure: Callable[[], Any]) -> Any:
    """What a step finds, or how it failed: what follows must not be lost for it."""
    try:
        return measure()
    except Exception:  # whatever it is, it is in the results
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return {"failed": traceback.format_exc().splitlines()[-25:]}


if __name__ == "__main__":
    main()
