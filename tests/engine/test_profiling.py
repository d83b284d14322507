"""Kernel times of a run are listed and sum up."""

from __future__ import annotations

import pytest
import torch

from mwviz.engine import profiling

CPU = torch.device("cpu")


def test_the_product_takes_most_of_a_large_product() -> None:
    square = torch.randn(400, 400)
    found = profiling.kernels(lambda: square @ square + 1, CPU)
    assert found[0].name == "aten::mm"
    assert found[0].calls == 1
    assert {"aten::add", "others", profiling.TOTAL} <= {kernel.name for kernel in found}
    assert found[-1].ms == pytest.approx(sum(kernel.ms for kernel in found[:-1]))


def test_what_is_not_listed_is_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "SHOWN", 1)
    square = torch.randn(50, 50)
    first, others, total = profiling.kernels(lambda: square @ square + 1, CPU)
    assert others.calls >= 1
    assert total.ms == pytest.approx(first.ms + others.ms)
    assert others.ms > 0
