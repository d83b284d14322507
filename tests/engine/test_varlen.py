"""Calls for branches of any length say what the plain mask says, with its gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mwviz.engine import attention, flex, losses, order, pieces, remainder, vocabulary
from mwviz.engine.check import built_in_tree
from mwviz.engine.layout import layout
from mwviz.tree import EvictionTree
from mwviz.views import build_view
from tests.engine import tiny
from tests.engine.test_blocks import CPU, Longs, dense_attention, tree_intervals, visible

ROUNDING = 1e-5
"""Nats, in float32."""
GRADIENT_ROUNDING = 1e-4


def in_heavy_order(until: Longs) -> Longs:
    heavy = order.heavy_first(until)
    assert heavy is not None
    return heavy.visible_until


BRANCHY = np.repeat([760, 560, 420, 560, 760], [150, 220, 50, 140, 200])
"""Ends of a tree of three branches, with a triangle and a rectangle of whole blocks."""


@settings(max_examples=60, deadline=None)
@example(until=BRANCHY, smallest=1 << 12)
@given(until=tree_intervals(), smallest=st.sampled_from([1, 1 << 14, 1 << 40]))
def test_stretches_and_pieces_hold_each_visible_pair_once(until: Longs, smallest: int) -> None:
    heavy = in_heavy_order(until)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "SMALLEST", smallest)
        taken = pieces.largest(heavy)
    held = np.zeros((len(heavy), len(heavy)), dtype=int)
    for piece in taken:
        rows = slice(piece.first_query, piece.last_query)
        part = held[rows, piece.first_key : piece.last_key]
        part += np.tril(np.ones_like(part)) if piece.causal else 1
    calls = remainder.calls_of(heavy, taken, device=CPU)
    for call in [] if calls is None else remainder.listed(*calls):
        ends = zip(call.queries[:-1].tolist(), call.queries[1:].tolist(), strict=True)
        bounds = zip(call.held[:-1].tolist(), call.held[1:].tolist(), strict=True)
        for (low, high), (first, last) in zip(ends, bounds, strict=True):
            keys = call.keys[first:last].numpy()
            queries = np.arange(call.first + low, call.first + high)
            seen = np.ones((len(queries), len(keys)), dtype=int)
            seen = np.tril(seen, len(keys) - len(queries)) if call.causal else seen
            held[queries[:, None], keys[None]] += seen
            assert len(queries) <= call.longest[0]
            assert len(keys) <= call.longest[1]
    assert np.array_equal(held, visible(heavy))


@pytest.mark.parametrize("smallest", [1 << 12, 1 << 14, 1 << 40])
def test_calls_and_pieces_merge_to_the_whole_with_its_gradient(
    smallest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "SMALLEST", smallest)
    until = in_heavy_order(BRANCHY)
    longer = flex.lengthened(until)
    mask = flex.block_mask(longer, device=CPU, without=pieces.largest(longer), gathered=True)
    assert vars(mask)["calls"] is not None
    torch.manual_seed(1)
    size = len(longer)
    vectors = [torch.randn(1, heads, size, 16, dtype=torch.float64) for heads in (4, 2, 2)]
    outer = torch.randn(1, 4, size, 16, dtype=torch.float64)
    results = []
    for gathered in (False, True):
        query, key, value = (part.clone().requires_grad_() for part in vectors)
        if gathered:
            out = flex._attend(query, key, value, mask, 0.25)
        else:
            out, _total = dense_attention(query, key, value, torch.from_numpy(visible(longer)))
        results.append((out, *torch.autograd.grad(out, (query, key, value), outer)))
    for whole, merged in zip(*results, strict=True):
        assert float((whole - merged).detach().abs().max()) < 1e-5


@pytest.mark.parametrize("smallest", [1 << 13, 1 << 40])
def test_a_model_says_and_learns_what_it_does_from_separate_branches(
    smallest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "SMALLEST", smallest)
    tree = built_in_tree(tiny.VOCABULARY, (300, 200, 180))
    logprob, gradient = run(tree, "varlen", "packed_mask")
    expected, truth = run(tree, "sdpa", "logit_tree")
    assert float((logprob - expected).abs().max()) < ROUNDING
    assert float((gradient - truth).norm() / truth.norm()) < GRADIENT_ROUNDING


def run(tree: EvictionTree, kernel: str, method: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities and the gradient of their mean, without the chooser's refusals."""
    model = tiny.model_of(tiny.llama_config(max_position_embeddings=1024))
    said = torch.zeros(len(tree.token))
    for row in build_view(tree, method).rows:
        part = layout(tree, row, limit=None)
        hidden = attention.hidden_states(model, part, kernel)[torch.from_numpy(part.edges.query)]
        out = vocabulary.head(model)
        tokens = torch.from_numpy(tree.ids[tree.token[part.edges.target]].astype(np.int64))
        found = out.log_softmax(hidden.detach()).gather(1, tokens[:, None])[:, 0]
        said[torch.from_numpy(part.edges.target)] = found.detach()
        losses.edge_loss(tree, part, model, hidden=hidden, out=out).backward()  # type: ignore[no-untyped-call]
    parts = [p.grad.flatten() for p in model.module.parameters() if p.grad is not None]
    return said, torch.cat(parts)
