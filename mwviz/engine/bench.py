"""Measures every exact method and kernel on the benchmark's trees: correct first, then fast.

Times are medians of CUDA events around whole steps, set-up of masks included; on the CPU of the
clock. Letters as in `mwviz.engine.cost`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import AutoModelForCausalLM, Qwen3Config

from mwviz.engine import attention, cost, losses, score, vocabulary
from mwviz.engine.model import Model, wrap
from mwviz.engine.steps import finish
from mwviz.engine.workloads import Workload
from mwviz.tree import EvictionTree
from mwviz.views import View, build_view

SHAPES = {
    "0.6B": {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28},
    "1.7B": {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28},
    "tiny": {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 2},
}
"""Qwen3-like models with random weights; `tiny` is for correctness and for trying the bench."""
VOCABULARY = {"0.6B": 151936, "1.7B": 151936, "tiny": 1024}
SEED = 5
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


@dataclass(frozen=True, slots=True)
class Timing:
    """One row of the table; seconds and bytes; None where it was not run."""

    model: str
    workload: str
    method: str
    forward: float
    train: float | None
    first: float
    """The first forward pass: compilation and kernel planning included."""
    setup: float
    """Laying out the rows and building masks, of one pass."""
    peak: int
    tokens_per_second: float
    forward_floors: float
    """Forward time over the least the hardware allows."""
    train_floors: float | None
    max_drift: float | None
    """Largest |d logprob| against LogitTree, nats."""
    gradient_error: float | None
    """|gradient - LogitTree's| / |LogitTree's|."""
    predicted: float
    """Seconds of the whole step, said before it ran."""
    refused: str = ""


class Floor(NamedTuple):
    """Least seconds of a tree on this machine."""

    forward: float
    train: float


def random_model(name: str, *, device: torch.device, dtype: torch.dtype) -> Model:
    """A Qwen3-like model of one of `SHAPES`, the same weights for every call."""
    torch.manual_seed(SEED)
    config = Qwen3Config(
        vocab_size=VOCABULARY[name],
        num_attention_heads=16 if name != "tiny" else 2,
        num_key_value_heads=8 if name != "tiny" else 1,
        head_dim=128,
        tie_word_embeddings=True,
        max_position_embeddings=40960,
        initializer_range=0.06 if name == "tiny" else 0.02,
        **SHAPES[name],
    )
    with device:
        build = AutoModelForCausalLM.from_config
        module = build(config, dtype=dtype)
    module.train(mode=False)
    return wrap(module, name=f"qwen3-{name}", revision="random")


def floor(model: Model, tree: EvictionTree, rate: float) -> Floor:
    """Operations of the tree's own tokens, pairs and targets over the matmul rate."""
    size = cost.widths(model)
    (row,) = build_view(tree, "packed_mask").rows
    linear = 2.0 * size.weights * tree.size
    attended = 4.0 * size.query * size.layers * cost.visible_pairs(row.visible_until)
    logits = 2.0 * size.hidden * size.vocabulary * len(tree.token)
    train = 3 * linear + 3.5 * attended + 3 * logits
    return Floor((linear + attended + logits) / rate, train / rate)


@lru_cache(maxsize=2)
def matmul_rate(device: str, dtype: torch.dtype) -> float:
    """Operations a second of a large product."""
    side = PROBE if device.startswith("cuda") else 1024
    left = torch.randn(side, side, device=device, dtype=dtype)
    right = torch.randn(side, side, device=device, dtype=dtype)
    seconds = timed(lambda: left @ right, torch.device(device), runs=10)
    return 2.0 * side**3 / seconds


def timed(run: Callable[[], object], device: torch.device, *, runs: int) -> float:
    """Median seconds of some runs, after one that is not counted."""
    run()
    found = []
    for _ in range(runs):
        if device.type == "cuda":
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            began.record()  # type: ignore[no-untyped-call]
            run()
            ended.record()  # type: ignore[no-untyped-call]
            ended.synchronize()  # type: ignore[no-untyped-call]
            found.append(began.elapsed_time(ended) / 1e3)  # type: ignore[no-untyped-call]
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
    name: str,
    model: Model,
    workload: Workload,
    methods: Sequence[Method],
    *,
    train: bool = True,
    runs: int = 3,
) -> Iterator[Timing]:
    """One timing a method; the first must be LogitTree's, which the others are compared with."""
    rate = matmul_rate(str(model.device), model.dtype)
    least = floor(model, workload.tree, rate)
    truth: _Truth | None = None
    for method in methods:
        view = build_view(workload.tree, method.view)
        timing, found = _measure(
            model, workload.tree, view, method, truth=truth, train=train, runs=runs
        )
        truth = found if truth is None else truth
        yield Timing(
            model=name,
            workload=workload.name,
            method=method.label,
            tokens_per_second=workload.tree.size / (timing["train"] or timing["forward"]),
            forward_floors=timing["forward"] / least.forward,
            train_floors=timing["train"] / least.train if timing["train"] else None,
            **timing,
        )


def _measure(
    model: Model,
    tree: EvictionTree,
    view: View,
    method: Method,
    *,
    truth: _Truth | None,
    train: bool,
    runs: int,
) -> tuple[dict[str, Any], _Truth]:
    device, kernel = model.device, method.kernel
    packed = any(row.mask != "causal" for row in view.rows)
    chosen = attention.choose_kernel(model, packed=packed, kernel=kernel)
    predicted = cost.predict(model, view.rows, kernel=chosen, train=train).seconds

    def forward() -> Any:
        return finish(score.score(tree, view, model, kernel=kernel))

    def step() -> None:
        model.module.zero_grad(set_to_none=True)
        if method.compiled is False:
            _plain_step(tree, view, model, chosen)
        else:
            losses.backward(tree, view, model, kernel=kernel)

    began = time.perf_counter()
    scores = forward()
    first = time.perf_counter() - began
    forward_time = timed(forward, device, runs=runs)
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    train_time = timed(step, device, runs=runs) if train else None
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
    gradient = [part.grad.clone() for part in model.module.parameters() if part.grad is not None]
    model.module.zero_grad(set_to_none=True)
    drift = error = None
    if truth is not None:
        drift = float(np.nanmax(np.abs(scores.logprob - truth.logprob)))
        error = gradient_error(gradient, truth.gradient) if train else None
    found = {
        "forward": forward_time,
        "train": train_time,
        "first": first,
        "setup": timed(lambda: _set_up(tree, view, model, chosen), device, runs=3),
        "peak": peak,
        "max_drift": drift,
        "gradient_error": error,
        "predicted": predicted,
    }
    return found, _Truth(scores.logprob, gradient)


def _plain_step(tree: EvictionTree, view: View, model: Model, kernel: str) -> None:
    """The training step with layers as transformers has them."""
    out = vocabulary.head(model)
    for row in view.rows:
        part = attention.layout(tree, row, limit=model.max_positions)
        hidden = attention.hidden_states(model, part, kernel, compiled=False)
        hidden = hidden[torch.from_numpy(part.edges.query).to(model.device)]
        loss = losses.edge_loss(tree, part, model, hidden=hidden, out=out)
        (loss / len(tree.token)).backward()  # type: ignore[no-untyped-call]


def gradient_error(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """Norm of the difference over the norm of what is expected."""
    pairs = list(zip(found, expected, strict=True))
    off = sum(float((one.float() - two.float()).norm()) ** 2 for one, two in pairs)
    return float((off / sum(float(two.float().norm()) ** 2 for two in expected)) ** 0.5)


def _set_up(tree: EvictionTree, view: View, model: Model, kernel: str) -> None:
    for row in view.rows:
        part = attention.layout(tree, row, limit=model.max_positions)
        attention.prepare(model, part, kernel, compiled=True)


def as_json(timings: Sequence[Timing]) -> list[dict[str, Any]]:
    """The rows as plain objects."""
    return [asdict(timing) for timing in timings]
