"""A model whose layers two processes share trains as one device does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bench import card_parts
from bench.card_parts import Setting


def test_either_layout_trains_in_two_processes_as_in_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`logit_tree` takes a backward pass a branch, and gradients of norms inside heads add up."""
    monkeypatch.setattr(card_parts, "CARDS", tmp_path)
    monkeypatch.setattr(card_parts, "CARDS_LIMIT", 900)  # of a process that hangs
    setting = Setting(torch.device("cpu"), 0.03, "tiny")
    found = dict(card_parts.cards(setting))["tiny tensor"]()
    assert "failed" not in found, found
    distances = [off for off in found.values() if isinstance(off, dict)]
    assert len(distances) == 2
    for off in distances:
        assert off["packed against one device, max"] < 1e-5
        assert off["logit_tree against one device, max"] < 1e-5
        assert off["gradient, worst"] < 1e-5
        assert off["logit_tree gradient, worst"] < 1e-5, off["logit_tree gradient, worst of"]
