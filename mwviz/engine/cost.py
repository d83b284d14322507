"""What running rows costs: operations, seconds and bytes, before they are run.

The formulas are those of docs/performance.md. What rows ask for is `mwviz.engine.work`'s, what the
machine does in a second `mwviz.engine.calibration`'s, and what fits `mwviz.engine.memory`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mwviz.engine import batches, calibration, dense, kernels, memory, partition, work
from mwviz.engine.calibration import Rates
from mwviz.engine.model import Model
from mwviz.engine.widths import Widths, widths
from mwviz.engine.work import Work
from mwviz.views.view import Row

BACKWARD = 3.0
"""Operations of forward and backward together over those of forward, of a linear layer."""
BACKWARD_ATTENTION = 3.5
"""The same of attention, which computes its weights again."""

WEIGHTS = {"cpu": 6, "cuda": 3}
"""Times that a training step of a row moves the layers' weights: read forward and backward, their
gradient written, and added to what is there (two read, one written). On a card products hide all
but the last."""
HEAD = {"cpu": 12, "cuda": 8}
"""The same of the output head: its gradient is summed up and scaled in one array, then joined to
that of the embedding."""
LOGITS = 3
"""Times that a forward pass moves the logits, float32: written, then read twice."""
LOGITS_TRAINED = 2
"""Logits' bytes of forward and backward together over those of forward."""
APART = 4
"""Bytes between products of layers that are not compiled over those of layers that are."""

CUDA_LAUNCH = {True: 7.4e-4, False: 1.4e-3}
"""Seconds a layer of a forward pass spends on launches, compiled or not, while the device may still
be at work; measured beside two H200, where it was between 6.7e-4 and 8.9e-4."""
CUDA_WAIT = 5e-3
"""Seconds of each pass of a row in which a card has nothing to do: the row is laid out, its first
layer launched, its result fetched. Measured beside an H200: of a row of a few hundred tokens in a
model of two layers they are all that it takes."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a run will cost."""

    seconds: float
    operations: float
    bytes: int
    """Peak of the largest row, weights not counted."""
    recompute: bool
    """Whether layers have to run again in the backward pass for lack of memory."""
    cut: int = 0
    """Rows that packed ones are cut into for lack of memory; 0 if they fit."""

    def __str__(self) -> str:
        text = f"about {self.seconds:.2g} s, {self.bytes / 2**30:.2g} GiB"
        text = f"{text}, layers run twice to save memory" if self.recompute else text
        return f"{text}, cut into {self.cut} rows that fit" if self.cut else text

    def against(self, seconds: float) -> str:
        """Predicted and measured time in one phrase."""
        return f"predicted {self.seconds:.2g} s, took {seconds:.2g} s"


def predict(model: Model, rows: Sequence[Row], *, kernel: str, train: bool = False) -> Prediction:
    """Seconds, operations and bytes of running rows as `score` and `losses` do.

    Args:
        model: Runs them.
        rows: All of one kind.
        kernel: As `kernels.choose_kernel` gave it.
        train: Whether the backward pass is run too.
    """
    size, rate = widths(model), calibration.rates(model, kernel)
    asked: list[Work] = []
    cut = 0
    for row, *more in batches.grouped(model, rows, kernel=kernel, train=train):
        if more:
            asked.append(work.of_batch([row, *more], kernel, model))
            continue
        parts = _fitting(row, work.of_row(row, kernel, model), model, train=train)
        asked += parts
        cut += len(parts) if len(parts) > 1 else 0
    again = train and any(
        memory.recomputes(model, tokens=part.tokens, targets=part.targets) for part in asked
    )
    passes = BACKWARD + again if train else 1.0
    attentions = BACKWARD_ATTENTION + again if train else 1.0
    logit_passes = BACKWARD if train else 1.0
    seconds = operations = 0.0
    for part in asked:
        linear, attended, logits = work.operations(size, part)
        busy = (linear * passes + logits * logit_passes) / rate.linear
        busy += _attention_seconds(size, part, rate, train=train, again=again)
        moved = _moves(model, kernel, size, part) * passes
        moved += _gathered(model, size, part) * passes
        moved += _logits(size, part) * (LOGITS_TRAINED if train else 1)
        moved += _standing(model, size, train=train, again=again)
        busy += moved / rate.memory
        # The host's own work is hidden behind the device's only while a pass is under way.
        busy += _waits(model) * passes
        seconds += max(busy, _launches(model, kernel, size, part) * passes)
        operations += linear * passes + attended * attentions + logits * logit_passes
    need = max((_bytes(model, part, train=train, recompute=again) for part in asked), default=0)
    # Rows come one after another, and each reuses what the largest one was given.
    return Prediction(seconds + need / rate.fresh, operations, need, again, cut)


def _bytes(model: Model, part: Work, *, train: bool, recompute: bool) -> int:
    return memory.row_bytes(
        model,
        tokens=part.tokens,
        targets=part.targets,
        train=train,
        recompute=recompute,
        line=part.line,
    )


def _fitting(row: Row, whole: Work, model: Model, *, train: bool) -> list[Work]:
    """The row, or what the rows ask for that it is cut into if it does not fit."""
    most = memory.most_tokens(model, tokens=whole.tokens, targets=whole.targets, train=train)
    if most is None or row.mask == "causal":
        return [whole]
    parts = partition.branches_of(row.visible_until, most)
    if not parts:
        return [whole]
    kept = [int(np.count_nonzero(part.keep)) for part in parts]
    trained = [int(np.count_nonzero(part.first)) for part in parts]
    return [
        Work(
            tokens=count,
            pairs=whole.pairs * count // whole.tokens,
            regular=whole.regular * count // whole.tokens,
            targets=-(-whole.targets * new // whole.tokens),
        )
        for count, new in zip(kept, trained, strict=True)
    ]


def _attention_seconds(size: Widths, part: Work, rate: Rates, *, train: bool, again: bool) -> float:
    operations = 4.0 * size.query * size.layers
    forwards, backwards = 1 + again, (BACKWARD_ATTENTION - 1) * train
    return sum(
        operations * pairs * (forwards / rates[0] + backwards / rates[1])
        for pairs, rates in (
            (part.regular, rate.regular),
            (part.pairs - part.regular, rate.masked),
        )
    )


def _moves(model: Model, kernel: str, size: Widths, part: Work) -> int:
    """Bytes that a forward pass moves between products."""
    token = 6 * size.hidden + 3 * (size.query + 2 * size.key) + 3 * size.inner
    moved = part.tokens * token * size.number * size.layers
    apart = model.device.type == "cuda" and not kernels.fuses(model, kernel, part.longest)
    return APART * moved if apart else moved


def _gathered(model: Model, size: Widths, part: Work) -> int:
    """Bytes of keys and values that a packed row's blocks gather and repeat for all heads."""
    if model.device.type != "cpu" or part.tokens <= dense.CPU_BLOCK:
        return 0
    keys = (part.pairs - part.regular) // dense.CPU_BLOCK
    # Read and written by the gather, read and written for all heads; keys, then values.
    return 2 * keys * (3 * size.key + size.query) * size.number * size.layers


def _logits(size: Widths, part: Work) -> int:
    """Bytes of logits that a forward pass moves."""
    return LOGITS * part.targets * size.vocabulary * 4


def _standing(model: Model, size: Widths, *, train: bool, again: bool) -> int:
    """Bytes of weights and their gradients that are moved for each row or batch, however short."""
    cpu = model.device.type == "cpu"
    kind, head = "cpu" if cpu else "cuda", size.vocabulary * size.hidden
    if not train:
        return (size.weights + head) * size.number if cpu else 0
    weights = WEIGHTS[kind] + again * cpu
    return (weights * size.weights + HEAD[kind] * head) * size.number


def _waits(model: Model) -> float:
    return CUDA_WAIT if model.device.type == "cuda" else 0.0


def _launches(model: Model, kernel: str, size: Widths, part: Work) -> float:
    """Seconds that a forward pass takes at least, however short the row."""
    if model.device.type != "cuda":
        return 0.0
    return size.layers * CUDA_LAUNCH[kernels.fuses(model, kernel, part.longest)]
