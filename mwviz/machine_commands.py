"""The commands about this machine: `app`, `bench` and `doctor`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from mwviz.console import output_file, place, plain
from mwviz.display import visible
from mwviz.options import DEVICES, Commands, add_command, factor, port
from mwviz.wording import counted


def add_app(added: Commands) -> None:
    """Options of `app`."""
    about = "open the browser app; without a file, its built-in demo"
    command = add_command(added, "app", app, about=about, example="mwviz app run.jsonl")
    command.add_argument("paths", nargs="*", metavar="FILE|DIR", help="traces to offer")
    command.add_argument(
        "--port", type=port, help="on 127.0.0.1; default: first free one from 8501"
    )
    command.add_argument("--model", action="append", help="model to offer besides the embedded one")
    command.add_argument("--device", choices=DEVICES, default="auto")


def add_bench(added: Commands) -> None:
    """Options of `bench`."""
    about = "measure exact methods and kernels on this machine, on random-weight models"
    example = "mwviz bench --shape 0.6B -o bench.json"
    command = add_command(added, "bench", bench, about=about, example=example)
    command.add_argument("--shape", action="append", help="0.6B, 1.7B or tiny (default: tiny)")
    command.add_argument(
        "--workloads",
        default="bench/workloads",
        metavar="DIR",
        help="trees to run (default: those of a checkout, bench/workloads)",
    )
    command.add_argument("--scale", type=factor, default=1.0, help="factor of every span's tokens")
    command.add_argument("-o", "--out", metavar="OUT", help="write all numbers as JSON")
    command.add_argument("--device", choices=DEVICES, default="auto")


def add_doctor(added: Commands) -> None:
    """Options of `doctor`."""
    about = "report what is installed and what to do about the rest"
    example = "mwviz doctor --install-model"
    command = add_command(added, "doctor", doctor, about=about, example=example)
    command.add_argument("--install-model", action="store_true", help="install the embedded model")
    command.add_argument("--model", metavar="M", help="name the traps of a model's chat template")


def app(options: argparse.Namespace) -> int:
    """Runs the browser app until it is stopped."""
    from mwviz.serve import notes, serve

    for sentence in notes(options.paths):
        print(visible(f"mwviz: {sentence}"), file=sys.stderr)
    device = None if options.device == "auto" else options.device
    return serve(options.paths, options.port, models=options.model or (), device=device)


def bench(options: argparse.Namespace) -> int:
    """Times, memory and distances of every exact method that this machine can run."""
    out = None if options.out is None else output_file(options.out)

    from mwviz.engine.model import choose_device
    from mwviz.engine.timing import line, table
    from mwviz.engine.trials import run

    shapes = tuple(options.shape or ("tiny",))
    device = choose_device(options.device)
    told = 0
    for document in run(Path(options.workloads), device, shapes=shapes, scale=options.scale):
        for row in document["timings"][told:]:
            print(visible(line(row)), flush=True)
        told = len(document["timings"])
        if out:  # each time, so that a run that is cut short leaves its numbers
            with place(options.out):
                out.write_text(json.dumps(plain(document), indent=1, allow_nan=False) + "\n")
    for model in dict.fromkeys(row["model"] for row in document["timings"]):
        rows = [row for row in document["timings"] if row["model"] == model]
        print(visible("\n".join(["", model, "", *table(rows)])))
    for choice in document["exact"]:
        said = f"{choice['model']} {choice['workload']}: exact takes {choice['method']}"
        print(visible(f"{said}: {choice['why']}"))
    return 0


def doctor(options: argparse.Namespace) -> int:
    """What is installed, and what to do about the rest."""
    from mwviz.doctor import examine, template_traps
    from mwviz.engine import embedded

    if options.install_model:
        embedded.install(lambda message: print(message, file=sys.stderr))
    broken = 0
    found = examine() if options.model is None else template_traps(options.model)
    for finding in found:
        print(f"{finding.name:<24}{finding.state}")
        if finding.remedy:
            broken += 1
            print(f"{'':<24}-> {finding.remedy}")
    if options.model is None:
        print("everything is there" if not broken else f"{counted(broken, 'thing')} to do")
    return 0
