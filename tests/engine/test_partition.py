"""A row cut into several says and trains what the whole row does."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mwviz.engine import attention, memory, partition
from mwviz.engine.layout import Layout, layout
from mwviz.engine.losses import backward
from mwviz.engine.model import MemoryShortageError, Model
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz.views import build_view
from tests.engine import tiny
from tests.engine.test_blocks import tree_intervals, visible

TREE = tiny.tree_of(
    [
        (range(20), range(20, 40)),
        *(([*range(40), branch], range(branch + 1, branch + 4)) for branch in range(30, 46)),
    ]
)
"""The trunk is trained too, so that a loss term counted in every part would show."""
LONGEST = 44
SIZE = 40 + 16 * 4
BUILT_IN = 29
"""Tokens of the self-check's tree."""


def test_the_tree_has_a_trunk_and_branches() -> None:
    assert TREE.size == SIZE


@settings(max_examples=60, deadline=None)
@given(until=tree_intervals(), share=st.floats(0.1, 1.0))
def test_parts_are_closed_small_and_train_everything_once(until: np.ndarray, share: float) -> None:
    seen = visible(until)
    longest = int(seen.sum(1).max())
    most = max(longest, round(share * len(until)))
    parts = partition.branches_of(until, most)
    for part in parts:
        assert part.keep.sum() <= most
        # Whatever a kept token sees is kept.
        assert not seen[part.keep][:, ~part.keep].any()
        assert not (part.first & ~part.keep).any()
    assert np.array_equal(sum(part.first.astype(int) for part in parts), np.ones(len(until)))


@settings(max_examples=30, deadline=None)
@given(until=tree_intervals())
def test_a_branch_longer_than_what_fits_cannot_be_cut(until: np.ndarray) -> None:
    longest = int(visible(until).sum(1).max())
    assert partition.branches_of(until, longest - 1) == []


def test_a_row_that_fits_or_is_causal_stays_whole() -> None:
    model = tiny.llama()
    packed, causal = (
        layout(TREE, build_view(TREE, name).rows[0], limit=None)
        for name in ("packed_mask", "logit_tree")
    )
    assert partition.layouts(packed, None) == [packed]
    assert partition.layouts(packed, SIZE) == [packed]
    assert partition.layouts(causal, 5) == [causal]
    assert len(partition.layouts(packed, 60)) == 4
    with pytest.raises(MemoryShortageError, match="a row of 44 tokens does not fit"):
        partition.halves(causal, model)


@pytest.mark.parametrize("most", [60, LONGEST])
def test_scores_and_gradients_of_parts_are_those_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    expected, whole = scored(), gradient()
    monkeypatch.setattr(memory, "most_tokens", lambda *_, **__: most)
    rows = spied(monkeypatch)
    assert np.abs(scored() - expected).max() < 1e-5
    assert max(rows) <= most
    assert float((gradient() - whole).norm() / whole.norm()) < 1e-5


def test_a_row_that_runs_out_of_memory_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, whole = scored(), gradient()
    rows = spied(monkeypatch, most=65)
    assert np.abs(scored() - expected).max() < 1e-5
    assert float((gradient() - whole).norm() / whole.norm()) < 1e-5
    assert max(rows) == SIZE


def test_a_row_with_a_branch_of_more_than_half_is_cut_to_that() -> None:
    tree = tiny.tree_of([(range(20), range(20, 40)), ([0, 1, 2], [50, 51])])
    whole = layout(tree, build_view(tree, "packed_mask").rows[0], limit=None)
    parts = partition.halves(whole, tiny.llama())
    assert sorted(len(part.ids) for part in parts) == [5, 40]
    assert sum(len(part.edges.target) for part in parts) == len(tree.token)


def test_a_row_that_cannot_be_cut_further_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    spied(monkeypatch, most=LONGEST - 1)
    with pytest.raises(MemoryShortageError, match="cannot be cut into smaller ones; logit_tree"):
        scored()
    with pytest.raises(MemoryShortageError, match="cannot be cut into smaller ones; logit_tree"):
        gradient()


def test_what_fits_follows_from_the_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.llama()
    assert memory.most_tokens(model, tokens=10**9, targets=10, train=True) is None
    for free in (1 << 20, 1 << 22):
        monkeypatch.setattr(memory, "free_bytes", lambda _model, free=free: free)
        most = memory.most_tokens(model, tokens=10**6, targets=100, train=True)
        assert most is not None
        need = [
            memory.row_bytes(model, tokens=size, targets=1, train=True, recompute=True)
            for size in (most, most + 2)
        ]
        assert need[0] <= memory.RESERVE * free < need[1]


def spied(monkeypatch: pytest.MonkeyPatch, most: int = SIZE) -> list[int]:
    """Tokens of every row that is run; longer ones than `most` run out of memory."""
    rows: list[int] = []
    run = attention.hidden_states

    def hidden_states(model: Model, part: Layout, kernel: str, **how: bool) -> torch.Tensor:
        if len(part.ids) > BUILT_IN:
            rows.append(len(part.ids))
        if len(part.ids) > most:
            raise MemoryShortageError("no room")
        return run(model, part, kernel, **how)

    for module in ("attention", "vocabulary"):
        monkeypatch.setattr(f"mwviz.engine.{module}.hidden_states", hidden_states)
    return rows


def scored() -> npt.NDArray[np.float32]:
    return finish(score(TREE, build_view(TREE, "packed_mask"), tiny.llama())).logprob


def gradient() -> torch.Tensor:
    model = tiny.llama()
    backward(TREE, build_view(TREE, "packed_mask"), model)
    return torch.cat([p.grad.flatten() for p in model.module.parameters() if p.grad is not None])
