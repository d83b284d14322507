"""Compiled functions keep as many graphs as the engine asks for, and say when they are too few."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch._dynamo
from torch._dynamo.exc import FailOnRecompileLimitHit
from torch._dynamo.testing import CompileCounter

from mwviz.engine import fused

DEFAULT = 8
"""Dynamo's own limit."""


def graphs(kinds: int, monkeypatch: pytest.MonkeyPatch, *, limited: bool) -> int:
    """Graphs made for a function that needs one for each kind."""
    counter, compile_with = CompileCounter(), torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda function, **how: compile_with(function, backend=counter, **how)
    )

    def scaled(values: torch.Tensor, name: str) -> torch.Tensor:
        return values + 1 if name else values

    torch._dynamo.reset()
    run = fused.compile_within_limits(scaled, dynamic=True) if limited else torch.compile(scaled)
    for kind in range(kinds):
        assert run(torch.ones(2), "x" * (kind + 1)).tolist() == [2.0, 2.0]
    torch._dynamo.reset()
    return int(counter.frame_count)


def test_more_kinds_than_dynamos_own_limit_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert graphs(DEFAULT + 4, monkeypatch, limited=True) == DEFAULT + 4


def test_otherwise_the_rest_would_run_uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert graphs(DEFAULT + 4, monkeypatch, limited=False) == DEFAULT


def test_too_many_kinds_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "GRAPHS", 10)
    monkeypatch.setattr(fused, "_LIMITS", fused._LIMITS | {"recompile_limit": 10})
    with pytest.raises(FailOnRecompileLimitHit):
        graphs(12, monkeypatch, limited=True)


def test_the_limit_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch._dynamo.config.recompile_limit
    assert before == DEFAULT
    graphs(2, monkeypatch, limited=True)
    assert torch._dynamo.config.recompile_limit == before


def test_whatever_is_compiled_has_the_limit() -> None:
    folder = Path(fused.__file__).parent
    compiling = [file.name for file in folder.glob("*.py") if "torch.compile(" in file.read_text()]
    assert compiling == ["fused.py"]
