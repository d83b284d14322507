"""Measures every exact method and kernel on the benchmark's trees: correct first, then fast.

Times are medians of CUDA events around whole steps, set-up of masks included; on the CPU of the
clock.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import AutoModelForCausalLM, Qwen3Config

from mwviz.engine import attention, cost, feed, losses, score, vocabulary
from mwviz.engine.layout import layout
from mwviz.engine.model import Model, memory_errors, wrap
from mwviz.engine.steps import finish
from mwviz.engine.timing import Timing
from mwviz.engine.widths import widths
from mwviz.engine.work import Work, operations, visible_pairs
from mwviz.engine.workloads import Workload
from mwviz.errors import ModelError
from mwviz.tree import EvictionTree
from mwviz.views import View, build_view

SHAPES = {"0.6B": (1024, 3072, 28), "1.7B": (2048, 6144, 28), "tiny": (128, 384, 2)}
"""Hidden width, inner width and layers of Qwen3-like models with random weights; `tiny` is for
correctness and for trying the bench."""
VOCABULARY = {"0.6B": 151936, "1.7B": 151936, "tiny": 1024}
SEED = 5
PLAIN = "plain causal pass"
"""Not a method: the tree's tokens in one causal row, for comparison of time and memory."""
PROBE = 8192
"""Side of the matrices whose product is the hardware's rate."""


class Method(NamedTuple):
    """A layout and the kernel to run it on."""

    view: str
    kernel: str
    compiled: bool | None
    """None as the engine chooses; False runs layers as transformers has them."""

    @property
    def label(self) -> str:
        """Name in the table."""
        plain = ", layers not compiled" if self.compiled is False else ""
        return f"{self.view} {self.kernel}{plain}"


class Floor(NamedTuple):
    """Least seconds of a tree on this machine."""

    forward: float
    train: float


def random_model(name: str, *, device: torch.device, dtype: torch.dtype) -> Model:
    """A Qwen3-like model of one of `SHAPES`, the same weights for every call."""
    torch.manual_seed(SEED)
    hidden, inner, layers = SHAPES[name]
    config = Qwen3Config(
        vocab_size=VOCABULARY[name],
        num_attention_heads=16 if name != "tiny" else 4,
        num_key_value_heads=8 if name != "tiny" else 2,
        head_dim=128,
        tie_word_embeddings=True,
        max_position_embeddings=40960,
        initializer_range=0.06 if name == "tiny" else 0.02,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
    )
    with device:
        build = AutoModelForCausalLM.from_config
        module = build(config, dtype=dtype)  # type: ignore[no-untyped-call]  # transformers'
    module.train(mode=False)
    return wrap(module, name=f"qwen3-{name}", revision="random")


def floor(model: Model, tree: EvictionTree, rate: float) -> Floor:
    """Operations of the tree's own tokens, pairs and targets over the matmul rate."""
    (row,) = build_view(tree, "packed_mask").rows
    pairs = visible_pairs(row.visible_until)
    linear, attended, logits = operations(
        widths(model), Work(tree.size, pairs, pairs, len(tree.token))
    )
    train = cost.BACKWARD * (linear + logits) + cost.BACKWARD_ATTENTION * attended
    return Floor((linear + attended + logits) / rate, train / rate)


@lru_cache(maxsize=2)
def matmul_rate(device: str, dtype: torch.dtype) -> float:
    """Operations a second of a large product."""
    side = PROBE if device.startswith("cuda") else 1024
    left = torch.randn(side, side, device=device, dtype=dtype)
    right = torch.randn(side, side, device=device, dtype=dtype)
    seconds = timed(lambda: left @ right, torch.device(device), runs=10)
    return 2.0 * side**3 / seconds


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's


def timed(
    run: Callable[[], object], device: torch.device, *, runs: int, warm: bool = False
) -> float:
    """Median seconds of some runs; after one that is not counted, unless it was made already."""
    if not warm:
        run()
    found = []
    for _ in range(runs):
        if device.type == "cuda":
            began, ended = (_event() for _ in range(2))
            began.record()
            run()
            ended.record()
            ended.synchronize()
            found.append(float(began.elapsed_time(ended)) / 1e3)
        else:
            start = time.perf_counter()
            run()
            found.append(time.perf_counter() - start)
    return median(found)


class _Truth(NamedTuple):
    """What LogitTree gives."""

    logprob: np.ndarray[Any, np.dtype[np.float32]]
    gradient: list[torch.Tensor]


def measure(
    name: str, model: Model, workload: Workload, methods: Sequence[Method], *, runs: int = 2
) -> Iterator[Timing]:
    """One timing a method; the first must be LogitTree's, which the others are compared with."""
    least = floor(model, workload.tree, matmul_rate(str(model.device), model.dtype))
    truth: _Truth | None = None
    for method in methods:
        found = _tried(warm_run(model, workload, method), truth, runs)
        _let_go(model)
        if isinstance(found, str):
            yield Timing(name, workload.name, method.label, refused=found)
            continue
        timing, truth = found.timing, truth or found.truth
        del found  # its gradient is as large as the weights
        yield replace(
            timing,
            model=name,
            workload=workload.name,
            tokens_per_second=workload.tree.size / timing.train,
            forward_floors=timing.forward / least.forward,
            train_floors=timing.train / least.train,
        )


def _tried(run: _Run, truth: _Truth | None, runs: int) -> _Measured | str:
    """What a run finds, or why it cannot be made: one that does not fit must not end the others."""
    longest = max(row.size for row in run.view.rows)
    try:
        with memory_errors(run.model, longest):
            return run.measured(truth, runs)
    except ModelError as error:
        return str(error)


def _let_go(model: Model) -> None:
    """Frees what a run has left: a graph that was cut off may hold itself in a cycle."""
    model.module.zero_grad(set_to_none=True)
    gc.collect()
    if model.device.type == "cuda":
        torch.cuda.empty_cache()


def _view(tree: EvictionTree, name: str) -> View:
    """A method's view, or the tree's tokens as one causal row: wrong, but what packing costs."""
    if name != PLAIN:
        return build_view(tree, name)
    (row,) = build_view(tree, "packed_mask").rows
    until = np.full(len(row.until), row.size, dtype=np.int64)
    return View(name, (replace(row, mask="causal", until=until),), len(tree.token), ())


class _Measured(NamedTuple):
    timing: Timing
    truth: _Truth


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """A method on a tree."""

    model: Model
    tree: EvictionTree
    view: View
    method: Method

    def score(self) -> Any:
        """All log-probabilities."""
        kernel = self.method.kernel
        return finish(score.score(self.tree, self.view, self.model, kernel=kernel))

    def train(self) -> None:
        """One step's gradient."""
        self.model.module.zero_grad(set_to_none=True)
        if self.method.compiled is False:
            _plain_step(self.tree, self.view, self.model, self.method.kernel)
        else:
            losses.backward(self.tree, self.view, self.model, kernel=self.method.kernel)

    def set_up(self) -> None:
        """Rows laid out and masks built."""
        for row in self.view.rows:
            part = layout(self.tree, row, limit=self.model.max_positions)
            feed.prepare(self.model, part, self.method.kernel, compiled=True)

    def measured(self, truth: _Truth | None, runs: int) -> _Measured:
        """Times, memory and distances."""
        device, plain = self.model.device, self.method.compiled is False
        predicted = cost.predict(self.model, self.view.rows, kernel=self.method.kernel, train=True)
        began = time.perf_counter()
        scores = None if plain else self.score()
        first = time.perf_counter() - began
        forward = 0.0 if plain else timed(self.score, device, runs=runs, warm=True)
        began = time.perf_counter()
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
        self.train()
        first += time.perf_counter() - began
        train = timed(self.train, device, runs=runs, warm=True)
        peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
        gradient = [p.grad for p in self.model.module.parameters() if p.grad is not None]
        self.model.module.zero_grad(set_to_none=True)
        drift = error = None
        if truth is not None and scores is not None:
            drift = float(np.nanmax(np.abs(scores.logprob - truth.logprob)))
            error = gradient_error(gradient, truth.gradient)
        timing = Timing(
            method=self.method.label,
            forward=forward,
            train=train,
            first=first,
            setup=timed(self.set_up, device, runs=3),
            peak=peak,
            max_drift=drift,
            gradient_error=error,
            predicted=predicted.seconds,
            recomputed=predicted.recompute,
        )
        logprob = np.empty(0, np.float32) if scores is None else scores.logprob
        return _Measured(timing, _Truth(logprob, gradient))


def warm_run(model: Model, workload: Workload, method: Method) -> _Run:
    """A method on a tree, to be run again."""
    return _Run(model, workload.tree, _view(workload.tree, method.view), method)


def _plain_step(tree: EvictionTree, view: View, model: Model, kernel: str) -> None:
    """The training step with layers as transformers has them."""
    out = vocabulary.head(model)
    for row in view.rows:
        part = layout(tree, row, limit=model.max_positions)
        hidden = attention.hidden_states(model, part, kernel, compiled=False)
        hidden = hidden[torch.from_numpy(part.edges.query).to(model.device)]
        loss = losses.edge_loss(tree, part, model, hidden=hidden, out=out)
        (loss / len(tree.token)).backward()  # type: ignore[no-untyped-call]  # torch's


def gradient_error(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """Norm of the difference over the norm of what is expected."""
    pairs = list(zip(found, expected, strict=True))
    off = sum(float((one.float() - two.float()).norm()) ** 2 for one, two in pairs)
    return float((off / sum(float(two.float().norm()) ** 2 for two in expected)) ** 0.5)
