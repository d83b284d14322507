"""Measures what a machine does in a second, once for each device, dtype and width.

It takes less than a second itself: on a card the rates of attention follow from that of products.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch

from mwviz.engine import dense
from mwviz.engine.model import Model
from mwviz.engine.widths import widths
from mwviz.engine.work import gathered_pairs

CUDA_SHARES = {
    "regular": (0.82, 0.68),
    "flex": (0.58, 0.49),
    "split": (0.26, 0.22),
    "varlen": (0.15, 0.145),
}
"""Share of the matmul rate that attention reaches, forward and backward, measured on an H200, those
of plain attention by the time of its kernels alone: plain attention, FlexAttention of whole rows,
and what `split` and `varlen` do with the pieces' rest, the gathering of its keys included."""
CUDA_MOVES = 0.58
"""Share of a copy's bandwidth that the work between products reaches; measured on an H200, by the
time of its kernels alone."""

COPIED = 1 << 27
"""Bytes of an array that no cache of a CPU holds."""


class Rates(NamedTuple):
    """Operations a second, and bytes a second."""

    linear: float
    regular: tuple[float, float]
    """Plain attention, forward and backward."""
    masked: tuple[float, float]
    """Attention under a mask, forward and backward."""
    memory: float
    """Bytes that work between products moves."""
    fresh: float = math.inf
    """Bytes of memory that a CPU is given anew, beyond what writing to them takes."""


def rates(model: Model, kernel: str) -> Rates:
    """Rates of a kernel on the model's device, from a calibration of under a second."""
    size = widths(model)
    head = size.query // int(model.module.config.get_text_config().num_attention_heads)
    name = kernel if kernel in CUDA_SHARES else "flex"
    return _calibrated(str(model.device), model.dtype, (size.hidden, size.query, head), name)


@lru_cache(maxsize=16)
def _calibrated(device: str, dtype: torch.dtype, sizes: tuple[int, int, int], kernel: str) -> Rates:
    """Measures products, masked and causal attention, and a copy, each a few times."""
    hidden, query, head = sizes
    place = torch.device(device)
    watch = _Watch(place)
    tokens = 8192 if place.type == "cuda" else 512
    with torch.inference_mode():
        left = torch.randn(tokens, hidden, device=place, dtype=dtype)
        right = torch.randn(4 * hidden, hidden, device=place, dtype=dtype)
        linear = 2.0 * tokens * hidden * right.shape[0]
        linear /= watch.seconds(lambda: torch.nn.functional.linear(left, right))
        rows = tokens if place.type == "cuda" else -(-COPIED // (8 * hidden * dtype.itemsize))
        # Written to before it is timed: a page that is new is given out first, which takes longer.
        big = torch.empty(rows, 8 * hidden, device=place, dtype=dtype).fill_(1)
        copy = torch.empty_like(big).fill_(1)
        memory = 2.0 * big.numel() * dtype.itemsize
        memory /= watch.seconds(lambda: torch.mul(big, 2.0, out=copy))
        if place.type == "cuda":
            plainly, under_mask = CUDA_SHARES["regular"], CUDA_SHARES[kernel]
            return Rates(
                linear,
                (plainly[0] * linear, plainly[1] * linear),
                (under_mask[0] * linear, under_mask[1] * linear),
                CUDA_MOVES * memory,
            )
        known = watch.seconds(lambda: copy.fill_(1))
        new = watch.seconds(lambda: torch.empty_like(big).fill_(1)) - known
        fresh = big.numel() * dtype.itemsize / new if new > 0 else math.inf
        vectors = torch.randn(1, query // head, tokens, head, device=place, dtype=dtype)
        attend = torch.nn.functional.scaled_dot_product_attention
        plain = watch.seconds(lambda: attend(vectors, vectors, vectors, is_causal=True))
        until = np.repeat((tokens, tokens // 2, tokens), (tokens // 4, tokens // 4, tokens // 2))
        index = np.arange(tokens)
        hidden_pairs = torch.from_numpy((index > index[:, None]) | (index[:, None] >= until))
        mask = torch.zeros(1, 1, tokens, tokens, dtype=dtype)
        mask.masked_fill_(hidden_pairs, torch.finfo(dtype).min)
        layer = torch.nn.Identity()
        packed = watch.seconds(lambda: dense.masked_sdpa(layer, vectors, vectors, vectors, mask))
    causal = 2.0 * query * tokens**2 / plain
    masked = 4.0 * query * gathered_pairs(until) / packed
    linear, causal, masked, memory, fresh = (
        rate / watch.slower for rate in (linear, causal, masked, memory, fresh)
    )
    return Rates(linear, (causal,) * 2, (masked,) * 2, memory, fresh)


class _Watch:
    """Times work: by the clock on a card, by core seconds on the CPU.

    There other processes take turns, so that the clock says of one piece of work more than of the
    next; how much it is ahead of the cores is known of all of them together.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._clock = self._core = 0.0

    @property
    def slower(self) -> float:
        """How many times the seconds that are given went by on the clock, over all work."""
        return self._clock / self._core if self.device.type == "cpu" else 1.0

    def seconds(self, run: Callable[[], object]) -> float:
        """Shortest of some runs; core seconds are shared out among threads.

        On CUDA several are sent at once, so that launches do not count.
        """
        cuda = self.device.type == "cuda"
        at_once, threads = 20 if cuda else 1, torch.get_num_threads()
        best = float("inf")
        for _ in range(4):
            began, worked = time.perf_counter(), time.process_time()
            for _ in range(at_once):
                run()
            if cuda:
                torch.cuda.synchronize(self.device)
            clock = (time.perf_counter() - began) / at_once
            core = (time.process_time() - worked) / threads or clock
            self._clock, self._core = self._clock + clock, self._core + core
            best = min(best, core if self.device.type == "cpu" else clock)
        return best
