"""Kernel times of a run are listed and sum up."""

from __future__ import annotations

import pytest
import torch

from mwviz.engine import profiling

CPU = torch.device("cpu")


def test_kernels_are_listed_from_the_longest_and_sum_up() -> None:
    square = torch.randn(400, 400)
    found = profiling.kernels(lambda: square @ square + 1, CPU)
    *listed, others, total = found
    calls = {kernel.name: kernel.calls for kernel in listed}
    assert calls["aten::mm"] == calls["aten::add"] == 1
    assert [kernel.ms for kernel in listed] == sorted((k.ms for k in listed), reverse=True)
    assert (others.name, total.name) == ("others", profiling.TOTAL)
    assert total.ms == pytest.approx(sum(kernel.ms for kernel in found[:-1]))


def test_what_is_not_listed_is_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "SHOWN", 1)
    square = torch.randn(50, 50)
    first, others, total = profiling.kernels(lambda: square @ square + 1, CPU)
    assert others.calls >= 1
    assert total.ms == pytest.approx(first.ms + others.ms)
    assert others.ms > 0
