"""The benchmark: what is measured on which model, in which order, and the document of it.

Correctness in float32 on small trees comes first; times follow in the device's usual dtype.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers

from mwviz.engine import bench
from mwviz.engine.bench import Method
from mwviz.engine.choice import choose_exact
from mwviz.engine.model import Model
from mwviz.engine.profiling import Kernel, kernels
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz.engine.timing import Timing, as_json
from mwviz.engine.widths import widths
from mwviz.engine.workloads import Workload, read_workload
from mwviz.errors import ModelError, TraceError
from mwviz.views import build_view

SMALL = 0.03
"""Factor of the trees' tokens in correctness runs."""
BRANCHES = Method("logit_tree", "sdpa", None)
PACKED = {
    "cuda": tuple(Method("packed_mask", kernel, None) for kernel in ("split", "varlen", "flex")),
    "cpu": (Method("packed_mask", "sdpa", None),),
}
PLAIN = {
    "cuda": (Method("packed_mask", "flex", False), Method(bench.PLAIN, "sdpa", False)),
    "cpu": (),
}


class Choice(NamedTuple):
    """What `exact` takes for training, said before anything is run."""

    model: str
    workload: str
    method: str
    why: str
    predicted: float
    """Seconds."""


def correctness(folder: Path, device: torch.device) -> Iterator[Timing]:
    """Every exact method in float32 on small trees, against LogitTree."""
    model = bench.random_model("tiny", device=device, dtype=torch.float32)
    kernels = ("flex", "sdpa", "eager") if device.type == "cuda" else ("sdpa", "eager")
    methods = (BRANCHES, *(Method("packed_mask", kernel, None) for kernel in kernels))
    for workload in workloads(folder, model, scale=SMALL):
        yield from bench.measure("tiny float32", model, workload, methods, runs=1)


def workloads(folder: Path, model: Model, *, scale: float = 1.0) -> list[Workload]:
    """The trees of a folder, by name."""
    files = sorted(folder.glob("*.json"))
    return [read_workload(file, vocabulary=model.vocabulary, scale=scale) for file in files]


def speed(name: str, model: Model, workload: Workload, *, runs: int = 2) -> Iterator[Timing]:
    """LogitTree, every packed kernel, and layers as transformers has them."""
    kind = model.device.type
    methods = (BRANCHES, *PACKED[kind], *PLAIN[kind])
    yield from bench.measure(name, model, workload, methods, runs=runs)


def chosen(name: str, model: Model, workload: Workload) -> Choice:
    """The method that `exact` would train with."""
    choice = choose_exact(workload.tree, model, train=True)
    return Choice(name, workload.name, choice.method, choice.why, choice.prediction.seconds)


def rounding(name: str, workload: Workload, device: torch.device) -> dict[str, float]:
    """Largest and mean |d logprob| in nats of 16-bit scores against float32 LogitTree.

    Args:
        name: Of `bench.SHAPES`; two models of it are made.
        workload: The tree.
        device: Where to run.
    """
    wide = bench.random_model(name, device=device, dtype=torch.float32)
    truth = finish(score(workload.tree, build_view(workload.tree, "logit_tree"), wide)).logprob
    narrow = bench.random_model(name, device=device, dtype=torch.bfloat16)
    # The same weights in both: rounded once, then widened.
    for one, two in zip(wide.module.parameters(), narrow.module.parameters(), strict=True):
        two.data.copy_(one.data)
    found: dict[str, float] = {}
    for method in (BRANCHES, *PACKED[device.type]):
        view = build_view(workload.tree, method.view)
        said = finish(score(workload.tree, view, narrow, kernel=method.kernel)).logprob
        off = np.abs(said - truth)
        found |= {
            f"{method.label} max": float(off.max()),
            f"{method.label} mean": float(off.mean()),
        }
    return found


def alone(model: Model, workload: Workload) -> dict[str, float]:
    """|d logprob| in nats of a tree's last branch packed with the others against it alone."""
    view = build_view(workload.tree, "logit_tree")
    last = replace(view, rows=view.rows[-1:])
    packed = build_view(workload.tree, "packed_mask")
    one, two = (finish(score(workload.tree, part, model)).logprob for part in (last, packed))
    off = np.abs(one - two)
    held = off[~np.isnan(off)]
    return {"max": float(held.max()), "mean": float(held.mean()), "targets": len(held)}


def run(
    folder: Path, device: torch.device, *, shapes: Sequence[str], scale: float = 1.0
) -> Iterator[dict[str, Any]]:
    """The document as it grows, one timing at a time; correctness first.

    Args:
        folder: Holds the workloads.
        device: Where to run.
        shapes: Of `bench.SHAPES`.
        scale: Factor of every span's tokens.

    Raises:
        ModelError: A shape is unknown.
        TraceError: The folder holds no workloads.
    """
    unknown = [shape for shape in shapes if shape not in bench.SHAPES]
    if unknown:
        raise ModelError(f"unknown shape {unknown[0]!r}; expected one of {', '.join(bench.SHAPES)}")
    if not any(folder.glob("*.json")):
        raise TraceError(f"{folder}: holds no workloads (*.json)")
    timings: list[Timing] = []
    choices: list[Choice] = []
    profiles: dict[str, list[Kernel]] = {}
    off: dict[str, dict[str, float]] = {}
    for timing in correctness(folder, device):
        timings.append(timing)
        yield document(timings, choices)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    for shape in shapes:
        model = bench.random_model(shape, device=device, dtype=dtype)
        rate = bench.matmul_rate(str(model.device), dtype)
        sizes = {"rate": rate, "widths": {shape: widths(model)._asdict()}}
        trees = workloads(folder, model, scale=scale)
        for workload in trees:
            choices.append(chosen(shape, model, workload))
            for timing in speed(shape, model, workload):
                timings.append(timing)
                yield document(timings, choices, **sizes, profiles=profiles)
            profiles |= where_time_goes(shape, model, workload)
            yield document(timings, choices, **sizes, profiles=profiles, rounding=off)
        least = min(trees, key=lambda one: len(one.tree.token))
        off[f"{shape} {least.name}"] = rounding(shape, least, device)
        yield document(timings, choices, **sizes, profiles=profiles, rounding=off)


def where_time_goes(name: str, model: Model, workload: Workload) -> dict[str, list[Kernel]]:
    """Kernels of a training step and of scoring with the preferred packed kernel, warmed up."""
    method = PACKED[model.device.type][0]
    return kernels_of(f"qwen3-{name} {workload.name}", model, workload, method)


def kernels_of(
    title: str, model: Model, workload: Workload, method: Method
) -> dict[str, list[Kernel]]:
    """The same of one method, under a title and the title with `score` behind it."""
    run = bench.warm_run(model, workload, method)
    return {
        title: kernels(run.train, model.device),
        f"{title} score": kernels(run.score, model.device),
    }


def document(timings: Sequence[Timing], choices: Sequence[Choice], **more: Any) -> dict[str, Any]:
    """All results with what they were measured on."""
    return {
        **measured_on(cuda=torch.cuda.is_available()),
        "timings": as_json(timings),
        "exact": [choice._asdict() for choice in choices],
        **more,
    }


def measured_on(*, cuda: bool) -> dict[str, Any]:
    """Date, device and versions, as every document of results begins."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "device": torch.cuda.get_device_name() if cuda else platform.processor() or "cpu",
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
    }
