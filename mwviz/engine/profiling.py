"""Where a run's time goes on the device, kernel by kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

SHOWN = 60
"""Kernels listed by name; the rest are summed up."""
TOTAL = "total"


class Kernel(NamedTuple):
    """A kernel of one run; on the CPU an operator, without what it calls."""

    name: str
    calls: int
    ms: float
    """Of all calls together."""


def kernels(run: Callable[[], object], device: torch.device) -> list[Kernel]:
    """Kernels of one run, the longest first, then the sum of the others and of all.

    Args:
        run: Has been run before, so that nothing is compiled.
        device: Where it runs.
    """
    cuda = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as seen:
        run()
        if cuda:
            torch.cuda.synchronize(device)
    found = sorted(
        (
            Kernel(one.key[:82], one.count, _microseconds(one, cuda=cuda) / 1e3)
            for one in seen.key_averages()
        ),
        key=lambda one: -one.ms,
    )
    rest = found[SHOWN:]
    others = Kernel("others", sum(one.calls for one in rest), sum(one.ms for one in rest))
    return [*found[:SHOWN], others, Kernel(TOTAL, 0, sum(one.ms for one in found))]


def _microseconds(one: object, *, cuda: bool) -> float:
    """Of its own, without what it calls."""
    return float(getattr(one, "self_device_time_total" if cuda else "self_cpu_time_total"))
