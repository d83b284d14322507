"""What one part of `bench.card` measures: named steps, each giving a plain object."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._dynamo
import transformers

from bench import apart, batched, timed_tests
from mwviz.engine import bench, floors, fused, pieces, trials
from mwviz.engine.model import Model, load_model
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz.engine.timing import as_json
from mwviz.engine.widths import widths
from mwviz.engine.workloads import Workload, read_workload
from mwviz.tree import EvictionTree
from mwviz.views import build_view
from tests.engine.test_recorded import COMMITTED, rollouts

WORKLOADS = apart.ROOT / "bench" / "workloads"
ORDER = "ABDC"
"""Trees as they are run: what is decided least comes first."""
SMALLEST = (1 << 20, 1 << 21, 1 << 22, 1 << 23)
"""Pairs from which a piece gets a kernel of its own, tried by the part `pieces`."""
TESTS_LIMIT, CARDS_LIMIT = 330, 170
"""Seconds."""
PAIR = "tests/engine/test_gpu.py::test_a_long_row_runs_on_another_card"
"""The test that one card skips."""
CARDS = Path(tempfile.gettempdir()) / "mwviz-cards"
"""Where one card leaves its model and what that says, for those over two cards."""

Steps = Iterator[tuple[str, Callable[[], Any]]]


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and how large everything runs."""

    device: torch.device
    scale: float
    shape: str | None
    """Takes the place of every shape, to try a part without a card."""
    record: Path = COMMITTED
    """Calls of the embedded model with their log-probabilities."""

    @property
    def dtype(self) -> torch.dtype:
        """Of models that are timed."""
        return torch.bfloat16 if self.device.type == "cuda" else torch.float32


def exact(setting: Setting) -> Steps:
    """float32 on small trees against LogitTree."""
    yield "float32", lambda: as_json(list(trials.correctness(WORKLOADS, setting.device)))


def shape(name: str, setting: Setting) -> Steps:
    """Every method on every tree, then where the time goes, then what 16 bits do."""
    name = setting.shape or name
    for tree in ORDER:
        yield f"{name} {tree}", partial(_timed, name, tree, setting)
    for tree in ORDER:
        yield f"{name} {tree} profile", partial(_profiled, name, tree, setting)
    yield f"{name} A alone", lambda: trials.alone(_model(name, setting), _tree("A", setting))
    if name != "1.7B":
        rounded = partial(trials.rounding, name, device=setting.device)
        yield f"{name} D rounding", lambda: rounded(workload=_tree("D", setting))


def _timed(name: str, tree: str, setting: Setting) -> dict[str, Any]:
    model, workload = _model(name, setting), _tree(tree, setting)
    return {
        "exact": trials.chosen(name, model, workload)._asdict(),
        # As the floors ask for it, so that it is measured once and before anything is tried.
        "rate": bench.matmul_rate(str(model.device), model.dtype),
        "timings": as_json(list(trials.speed(name, model, workload, runs=3))),
        "widths": widths(model)._asdict(),
    }


def _profiled(name: str, tree: str, setting: Setting) -> dict[str, Any]:
    model, workload = _model(name, setting), _tree(tree, setting)
    found: dict[str, Any] = {}
    for method in trials.PACKED[setting.device.type][:2]:
        preferred = method == trials.PACKED[setting.device.type][0]
        title = f"qwen3-{name} {tree}{'' if preferred else ' ' + method.kernel}"
        found |= trials.kernels_of(title, model, workload, method)
    return found


def sweep(setting: Setting) -> Steps:
    """Training with other pieces, LogitTree row by row, and nothing made again going back."""
    name = setting.shape or "0.6B"
    for tree in ORDER:
        yield f"{name} {tree} pieces", partial(_pieces, name, tree, setting)
    for tree in ORDER:
        yield f"{name} {tree} batched", partial(_batched, name, tree, setting)
    yield f"{name} A keeps more", partial(_keeping, name, setting)


def _pieces(name: str, tree: str, setting: Setting) -> dict[str, float]:
    model, workload = _model(name, setting), _tree(tree, setting)
    found, before = {}, pieces.SMALLEST
    for smallest in SMALLEST:
        for method in trials.PACKED[setting.device.type][:2]:
            pieces.SMALLEST = smallest
            try:
                run = bench.warm_run(model, workload, method)
                found[f"{method.kernel} {smallest}"] = bench.timed(run.train, model.device, runs=3)
            finally:
                pieces.SMALLEST = before
    return found


def _keeping(name: str, setting: Setting) -> dict[str, float]:
    model, workload = _model(name, setting), _tree("A", setting)
    run = bench.warm_run(model, workload, trials.PACKED[setting.device.type][0])
    before = dict(fused._KEEPS)
    try:
        fused._KEEPS["ban_recompute_materialized_backward"] = True
        torch._dynamo.reset()
        seconds = bench.timed(run.train, model.device, runs=3)
        cuda = model.device.type == "cuda"
        return {"train": seconds, "peak": torch.cuda.max_memory_allocated() if cuda else 0}
    finally:
        fused._KEEPS.update(before)
        torch._dynamo.reset()


def embedded(setting: Setting) -> Steps:
    """Recorded rollouts of the embedded model: float32 to 1e-4, 16 bits within their floor."""
    for dtype in ("float32", "bfloat16"):
        for name in rollouts(setting.record):
            yield f"{name} rollout-{dtype}", partial(_recorded, name, dtype, setting)


def _recorded(name: str, dtype: str, setting: Setting) -> dict[str, float]:
    model, tree = _embedded(setting.device.type, dtype), _rollouts(setting.record)[name]
    found: dict[str, float] = {}
    for method in ("packed_mask", "logit_tree"):
        said = finish(score(tree, build_view(tree, method), model))
        off = np.abs(said.logprob - tree.logprob)
        found |= {f"{method} max": float(off.max()), f"{method} mean": float(off.mean())}
        found |= {f"{method} {said.kernel}": 1.0}
    views = build_view(tree, "packed_mask"), build_view(tree, "logit_tree")
    floor = floors.measure_floor(tree, model, *views)
    return found | {"floor p50": floor.p50, "floor p99.9": floor.p999}


def tests(_setting: Setting) -> Steps:
    """The tests that need a card."""
    yield "gpu tests", partial(_tests, "tests/engine/test_gpu.py")


def _tests(named: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "tests.json"
        command = [sys.executable, "-m", "bench.timed_tests", str(out), str(TESTS_LIMIT)]
        text = apart.output([*command, named], TESTS_LIMIT + 60)
        found = json.loads(out.read_text()) if out.is_file() else {}
    well = {one["came to"] for one in found.values()} <= {"passed", "skipped"}
    said = "" if found else "".join(f": {line}" for line in text.splitlines()[-1:])
    return {
        "last": timed_tests.summary(found) + said,
        "results": {name: f"{one['came to']}, {one['seconds']} s" for name, one in found.items()},
        "failures": {
            name: one["lines"] for name, one in found.items() if one["came to"] == "failed"
        },
        "said": [] if found and well else text.splitlines()[-60:],
    }


def together(setting: Setting) -> Steps:
    """LogitTree's rows in batches against one by one, in the dtype that is timed."""
    shapes = dict.fromkeys(setting.shape or name for name in ("0.6B", "1.7B"))
    for name in shapes:
        for tree in "DB":
            yield f"{name} {tree} batched", partial(_batched, name, tree, setting)


def _batched(name: str, tree: str, setting: Setting) -> dict[str, float]:
    model, workload = _model(name, setting), _tree(tree, setting)
    found = batched.compared(model, workload, runs=2)
    said = {name: value for name, value in found.items() if isinstance(value, int | float)}
    for form in batched.FORMS:
        said |= {f"{form} {name}": value for name, value in found[form].items()}
    return said


def cards(setting: Setting) -> Steps:
    """A model over two cards: layers on each, or each layer cut; the test that needs two."""
    name = setting.shape or "1.7B"
    folder = CARDS / f"{name}-{setting.scale:g}-{_version()}"
    folder.mkdir(parents=True, exist_ok=True)
    for how in ("one", "spread", "tensor"):
        yield f"{name} {how}", partial(_sharded, how, name, folder, setting)
    yield "gpu pair", partial(_tests, PAIR)


def _version() -> str:
    """Of all that decides what a model says: this code, and the libraries that it calls."""
    digest = hashlib.sha256(f"{torch.__version__} {transformers.__version__}".encode())
    for file in sorted(
        [*(apart.ROOT / "mwviz").rglob("*.py"), *(apart.ROOT / "bench").glob("*.py")]
    ):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _sharded(how: str, name: str, folder: Path, setting: Setting) -> dict[str, Any]:
    # Written last: without it what one card left is not whole.
    if how != "one" and not (folder / "one.json").is_file():
        _sharded("one", name, folder, setting)
    out = folder / f"{how}.json"
    out.unlink(missing_ok=True)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [sys.executable, *(launcher if how == "tensor" else []), "-m", "bench.sharded"]
    command += [how, str(folder), str(out), "--shape", name, "--scale", str(setting.scale)]
    text = apart.output([*command, "--device", setting.device.type], CARDS_LIMIT)
    if not out.is_file():
        lines = text.splitlines()
        # A launcher's own summary stands behind what its processes said.
        said = [line for line in lines if "Error: " in line and "ChildFailed" not in line]
        return {"failed": [*lines[-90:], *(said[-1:] or lines[-1:])]}
    found: dict[str, Any] = json.loads(out.read_text())
    return found


@lru_cache(maxsize=1)
def _model(name: str, setting: Setting) -> Model:
    return bench.random_model(name, device=setting.device, dtype=setting.dtype)


@lru_cache(maxsize=1)
def _embedded(device: str, dtype: str) -> Model:
    return load_model(device=device, dtype=dtype)


@lru_cache(maxsize=1)
def _rollouts(record: Path) -> dict[str, EvictionTree]:
    return rollouts(record)


def _tree(name: str, setting: Setting) -> Workload:
    shape_name = setting.shape or "0.6B"
    vocabulary = bench.VOCABULARY[shape_name]
    return read_workload(WORKLOADS / f"{name}.json", vocabulary=vocabulary, scale=setting.scale)
