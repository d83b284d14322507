"""What running rows costs: operations, seconds and bytes, before they are run.

The formulas are those of docs/performance.md; the rates come from a calibration of under a second,
once for each device, dtype and width. Letters: U tokens, P visible pairs, M targets, L layers, V
vocabulary, h hidden width, q and kv widths of all query and key heads, i inner width.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch

from mwviz.engine import attention, batches, dense, fused, order, partition, pieces
from mwviz.engine.model import Model
from mwviz.trie import Longs
from mwviz.views.view import Row

BACKWARD = 3.0
"""Operations of forward and backward together over those of forward, of a linear layer."""
BACKWARD_ATTENTION = 3.5
"""The same of attention, which computes its weights again."""

CUDA_SHARES = {
    "regular": (0.85, 0.75),
    "flex": (0.61, 0.53),
    "split": (0.26, 0.27),
    "varlen": (0.15, 0.16),
}
"""Share of the matmul rate that attention reaches, forward and backward, measured on an H200: plain
attention, FlexAttention of whole rows, and what `split` and `varlen` do with the pieces' rest, the
gathering of its keys included."""
CUDA_LAUNCH = {True: 9e-4, False: 1.4e-3}
"""Seconds a layer of a forward pass spends on launches, compiled or not, while the device may still
be at work; measured beside an H200."""
CUDA_MOVES = 0.32
"""Share of a copy's bandwidth that the work between products reaches; measured on an H200."""
RESERVE = 0.9
"""Share of the free memory that a row may plan with; the allocator fragments the rest."""
KEPT = {True: 1.05, False: 2.2}
"""Activations kept for the backward pass, compiled or not, over `Widths.kept`; measured."""


class Widths(NamedTuple):
    """Sizes of a model that its cost depends on."""

    layers: int
    hidden: int
    query: int
    key: int
    inner: int
    vocabulary: int
    weights: int
    """Parameters of all layers' matrices."""
    number: int
    """Bytes of one number."""

    @property
    def kept(self) -> int:
        """Bytes that all layers keep of a token for the backward pass, compiled."""
        numbers = 2 * self.hidden + 3 * self.query + 3 * self.key + 2 * self.inner
        return numbers * self.number * self.layers


class Work(NamedTuple):
    """What one row asks for, or the lines of one batch."""

    tokens: int
    pairs: int
    """(query, key) pairs that the row's kernel computes."""
    regular: int
    """Those of them that plain attention computes."""
    targets: int
    line: int | None = None
    """Tokens of a line of a batch; None for a row."""

    @property
    def longest(self) -> int:
        """Tokens that stand behind one another."""
        return self.tokens if self.line is None else self.line


class Rates(NamedTuple):
    """Operations a second, and bytes a second."""

    linear: float
    regular: tuple[float, float]
    """Plain attention, forward and backward."""
    masked: tuple[float, float]
    """Attention under a mask, forward and backward."""
    memory: float
    """Bytes that work between products moves."""


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
        kernel: As `attention.choose_kernel` gave it.
        train: Whether the backward pass is run too.
    """
    size, rate = widths(model), _rates(model, kernel)
    work: list[Work] = []
    cut = 0
    for row, *more in grouped(model, rows, kernel=kernel, train=train):
        if more:
            work.append(_batch_work([row, *more], kernel, model))
            continue
        parts = _fitting(row, _work(row, kernel, model), model, train=train)
        work += parts
        cut += len(parts) if len(parts) > 1 else 0
    again = train and any(
        recomputes(model, tokens=part.tokens, targets=part.targets) for part in work
    )
    passes = BACKWARD + again if train else 1.0
    attentions = BACKWARD_ATTENTION + again if train else 1.0
    logit_passes = BACKWARD if train else 1.0
    seconds = operations = 0.0
    for part in work:
        linear, attended, logits = _operations(size, part)
        busy = (linear * passes + logits * logit_passes) / rate.linear
        busy += _attention_seconds(size, part, rate, train=train, again=again)
        busy += _moves(model, kernel, size, part) * passes
        seconds += max(busy, _launches(model, kernel, size, part) * passes)
        operations += linear * passes + attended * attentions + logits * logit_passes
    need = max((row_bytes(model, part, train=train, recompute=again) for part in work), default=0)
    return Prediction(seconds, operations, need, again, cut)


def grouped(
    model: Model, rows: Sequence[Row], *, kernel: str, train: bool
) -> list[tuple[Row, ...]]:
    """Rows that run together, as many as fit without layers that run twice; else one by one.

    Args:
        model: Runs them.
        rows: A view's.
        kernel: As `attention.choose_kernel` gave it.
        train: Whether the backward pass is run too.
    """
    # The table of scores keeps what the first row says of a target, so that order must stay.
    if not batches.possible(model, kernel) or (not train and batches.trains_twice(rows)):
        return [(row,) for row in rows]
    tokens = max(1, sum(row.size for row in rows))
    targets = sum(len(row.edges.target) for row in rows) * batches.MOST // tokens

    def most(line: int) -> int:
        found = most_tokens(
            model, tokens=batches.MOST, targets=targets, train=train, twice=False, line=line
        )
        return batches.MOST if found is None else found

    return batches.groups(model, rows, kernel=kernel, most=most)


def _batch_work(rows: Sequence[Row], kernel: str, model: Model) -> Work:
    """What a batch asks for, padding included."""
    line = batches.fed_length(model, max(row.size for row in rows), kernel)
    pairs = len(rows) * (line * (line + 1) // 2)
    targets = sum(int(np.count_nonzero(row.edges.weight > 0)) for row in rows)
    return Work(len(rows) * line, pairs, pairs, targets, line)


def _fitting(row: Row, whole: Work, model: Model, *, train: bool) -> list[Work]:
    """The row, or what the rows ask for that it is cut into if it does not fit."""
    most = most_tokens(model, tokens=whole.tokens, targets=whole.targets, train=train)
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


def fits(model: Model, prediction: Prediction) -> bool:
    """Whether what is predicted fits in the memory that is free now; unknown counts as yes."""
    free = free_bytes(model)
    return free is None or prediction.bytes <= RESERVE * free


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


def recomputes(model: Model, *, tokens: int, targets: int) -> bool:
    """Whether a row's backward pass fits only if layers keep nothing but their inputs."""
    free = free_bytes(model)
    if free is None:
        return False
    part = Work(tokens, 0, 0, targets)
    return row_bytes(model, part, train=True, recompute=False) > RESERVE * free


def most_tokens(
    model: Model,
    *,
    tokens: int,
    targets: int,
    train: bool,
    twice: bool = True,
    line: int | None = None,
) -> int | None:
    """Tokens of a row that fit; None if all do.

    Args:
        model: Runs it.
        tokens: Of the whole row.
        targets: Of the whole row.
        train: Whether the backward pass is run too.
        twice: Whether layers may run twice in it so that more fits.
        line: Tokens of a line of a batch; None for a row.
    """
    free = free_bytes(model)

    def need(count: int) -> int:
        part = Work(count, 0, 0, -(-targets * count // tokens), line)
        return row_bytes(model, part, train=train, recompute=train and twice)

    if free is None or not tokens or need(tokens) <= RESERVE * free:
        return None
    low, high = 1, tokens
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if need(middle) <= RESERVE * free else (low, middle - 1)
    return low


def row_bytes(model: Model, part: Work, *, train: bool, recompute: bool) -> int:
    """Bytes that a row needs beyond the weights."""
    size = widths(model)
    compiled = fused.can_compile(model.module) and model.device.type == "cuda"
    if part.line is not None:  # many short lines are not compiled, but keep as much as a long row
        compiled = attention.fuses(model, "sdpa", part.line)
    of_layers = int(size.kept * KEPT[compiled])
    token = of_layers if train and not recompute else of_layers // size.layers
    if recompute:
        token += size.hidden * size.number * size.layers
    held = min(part.targets * size.vocabulary, 1 << 28) * 4 * 3
    head = size.vocabulary * size.hidden * (4 + size.number) if train else 0
    gradients = size.weights * size.number if train else 0
    return part.tokens * token + held + head + gradients


def free_bytes(model: Model) -> int | None:
    """Memory that can still be taken; None where the device does not tell."""
    if model.device.type != "cuda":
        return None
    free, _total = torch.cuda.mem_get_info(model.device)
    unused = torch.cuda.memory_reserved(model.device) - torch.cuda.memory_allocated(model.device)
    return free + unused


def widths(model: Model) -> Widths:
    """The sizes, from the configuration and the loaded layers."""
    config = model.module.config.get_text_config()
    heads = int(config.num_attention_heads)
    head = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
    keys = int(getattr(config, "num_key_value_heads", None) or heads)
    hidden = int(config.hidden_size)
    inner = getattr(config, "intermediate_size", None) or 4 * hidden
    return Widths(
        layers=int(config.num_hidden_layers),
        hidden=hidden,
        query=heads * head,
        key=keys * head,
        inner=int(inner),
        vocabulary=model.vocabulary,
        weights=fused.matrix_numbers(model.module),
        number=model.dtype.itemsize,
    )


def visible_pairs(visible_until: Longs) -> int:
    """P: pairs of a query and a key that it sees."""
    return int((visible_until - np.arange(len(visible_until))).sum())


def _operations(size: Widths, part: Work) -> tuple[float, float, float]:
    """Floating-point operations of one forward pass: linear layers, attention, vocabulary."""
    linear = 2.0 * size.weights * part.tokens
    attended = 4.0 * size.query * size.layers * part.pairs
    return linear, attended, 2.0 * size.hidden * size.vocabulary * part.targets


def _work(row: Row, kernel: str, model: Model) -> Work:
    tokens, targets = row.size, int(np.count_nonzero(row.edges.weight > 0))
    if row.mask == "causal":
        pairs = tokens * (tokens + 1) // 2
        return Work(tokens, pairs, pairs, targets)
    until = row.visible_until
    if kernel in attention.PIECED:
        heavy = order.heavy_first(until)
        taken = [] if heavy is None else pieces.largest(heavy.visible_until)
        regular = sum(piece.pairs for piece in taken)
        return Work(tokens, visible_pairs(until), regular, targets)
    if kernel == "flex":
        return Work(tokens, visible_pairs(until), 0, targets)
    if model.device.type == "cpu" and kernel == "sdpa":
        return Work(tokens, _gathered_pairs(until), 0, targets)
    return Work(tokens, tokens**2, 0, targets)


def _gathered_pairs(visible_until: Longs) -> int:
    """Pairs computed where a block of queries gathers the keys that any of them sees."""
    size, pairs = len(visible_until), 0
    for start in range(0, size, dense.CPU_BLOCK):
        stop = min(start + dense.CPU_BLOCK, size)
        before = int(np.count_nonzero(visible_until[:start] > start))
        pairs += (stop - start) * (before + stop - start)
    return pairs


def _moves(model: Model, kernel: str, size: Widths, part: Work) -> float:
    """Seconds of a forward pass in which numbers are moved between products."""
    token = 6 * size.hidden + 3 * (size.query + 2 * size.key) + 3 * size.inner
    moved = part.tokens * token * size.number * size.layers / _rates(model, kernel).memory
    apart = model.device.type == "cuda" and not attention.fuses(model, kernel, part.longest)
    return 2 * moved if apart else moved


def _launches(model: Model, kernel: str, size: Widths, part: Work) -> float:
    """Seconds that a forward pass takes at least, however short the row."""
    if model.device.type != "cuda":
        return 0.0
    return size.layers * CUDA_LAUNCH[attention.fuses(model, kernel, part.longest)]


def _rates(model: Model, kernel: str) -> Rates:
    size = widths(model)
    head = size.query // int(model.module.config.get_text_config().num_attention_heads)
    name = kernel if kernel in CUDA_SHARES else "flex"
    return _calibrated(str(model.device), model.dtype, (size.hidden, size.query, head), name)


@lru_cache(maxsize=16)
def _calibrated(device: str, dtype: torch.dtype, sizes: tuple[int, int, int], kernel: str) -> Rates:
    """Measures products, masked and causal attention, and a copy, each a few times."""
    hidden, query, head = sizes
    place = torch.device(device)
    tokens = 8192 if place.type == "cuda" else 512
    with torch.inference_mode():
        left = torch.randn(tokens, hidden, device=place, dtype=dtype)
        right = torch.randn(4 * hidden, hidden, device=place, dtype=dtype)
        linear = 2.0 * tokens * hidden * right.shape[0]
        linear /= _seconds(place, lambda: torch.nn.functional.linear(left, right))
        big = torch.randn(tokens, 8 * hidden, device=place, dtype=dtype)
        memory = 2.0 * big.numel() * dtype.itemsize / _seconds(place, lambda: big * 2.0)
        if place.type == "cuda":
            regular, masked = CUDA_SHARES["regular"], CUDA_SHARES[kernel]
            return Rates(
                linear,
                (regular[0] * linear, regular[1] * linear),
                (masked[0] * linear, masked[1] * linear),
                CUDA_MOVES * memory,
            )
        vectors = torch.randn(1, query // head, tokens, head, device=place, dtype=dtype)
        attend = torch.nn.functional.scaled_dot_product_attention
        plain = _seconds(place, lambda: attend(vectors, vectors, vectors, is_causal=True))
        until = np.repeat((tokens, tokens // 2, tokens), (tokens // 4, tokens // 4, tokens // 2))
        index = np.arange(tokens)
        hidden_pairs = torch.from_numpy((index > index[:, None]) | (index[:, None] >= until))
        mask = torch.zeros(1, 1, tokens, tokens, dtype=dtype)
        mask.masked_fill_(hidden_pairs, torch.finfo(dtype).min)
        layer = torch.nn.Identity()
        packed = _seconds(place, lambda: dense.masked_sdpa(layer, vectors, vectors, vectors, mask))
    causal_rate = 2.0 * query * tokens**2 / plain
    masked_rate = 4.0 * query * _gathered_pairs(until) / packed
    return Rates(linear, (causal_rate,) * 2, (masked_rate,) * 2, memory)


def _seconds(device: torch.device, run: Callable[[], object]) -> float:
    """Shortest of some runs; on CUDA several are sent at once, so that launches do not count."""
    at_once = 20 if device.type == "cuda" else 1
    best = float("inf")
    for _ in range(4):
        began = time.perf_counter()
        for _ in range(at_once):
            run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = min(best, (time.perf_counter() - began) / at_once)
    return best
