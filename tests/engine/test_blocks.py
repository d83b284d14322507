"""Block masks, heavy-path order and regular pieces say what the plain mask says."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
import torch._dynamo
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._dynamo.testing import CompileCounter
from torch.nn.attention.flex_attention import BlockMask

from mwviz.engine import flex, kernels, merging, order, pieced, pieces
from mwviz.engine.check import built_in_tree
from mwviz.engine.merging import Part, merge
from mwviz.errors import ModelError
from mwviz.views import build_view
from tests.engine import tiny

CPU = torch.device("cpu")
Bools = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]


@st.composite
def tree_intervals(draw: st.DrawFn) -> Longs:
    """Ends of the keys' intervals of a random tree in depth-first order."""
    segments = draw(st.lists(st.tuples(st.integers(1, 200), st.integers(0, 3)), max_size=7))
    start = 0
    until: list[tuple[int, int, int]] = []
    open_segments: list[int] = []
    for length, closed in [(draw(st.integers(1, 200)), 0), *segments]:
        for _ in range(min(closed, len(open_segments))):
            segment = open_segments.pop()
            until[segment] = (until[segment][0], until[segment][1], start)
        open_segments.append(len(until))
        until.append((start, length, -1))
        start += length
    ends = [(length, start if end < 0 else end) for _, length, end in until]
    return np.repeat([end for _, end in ends], [length for length, _ in ends])


def visible(until: Longs) -> Bools:
    """bool (T, T): [q, k], by definition."""
    index = np.arange(len(until))
    return (index[None] <= index[:, None]) & (index[:, None] < until[None])


def spread(mask: BlockMask, size: int) -> Bools:
    """bool (T, T): what the blocks and their rule let a kernel compute."""
    full = flex.padded(size)
    index = torch.arange(full)
    rule = mask.mask_mod(index[:1], index[:1], index[:, None], index[None])
    seen = torch.zeros(full, full, dtype=torch.bool)
    for whole, counts, places in (
        (False, mask.kv_num_blocks, mask.kv_indices),
        (True, mask.full_kv_num_blocks, mask.full_kv_indices),
    ):
        assert counts is not None
        assert places is not None
        for block, count in enumerate(counts[0, 0].tolist()):
            for key in places[0, 0, block, :count].tolist():
                rows = slice(block * flex.BLOCK, (block + 1) * flex.BLOCK)
                columns = slice(key * flex.BLOCK, (key + 1) * flex.BLOCK)
                seen[rows, columns] = True if whole else rule[rows, columns]
    assert bool(seen.any(1).all()), "a padding token must see something"
    return seen[:size, :size].numpy()


@settings(max_examples=60, deadline=None)
@given(until=tree_intervals())
def test_blocks_let_through_exactly_what_is_visible(until: Longs) -> None:
    mask = flex.block_mask(until, device=CPU)
    assert np.array_equal(spread(mask, len(until)), visible(until))


@settings(max_examples=30, deadline=None)
@given(until=tree_intervals(), taken=st.booleans())
def test_the_backward_pass_lists_the_same_blocks_by_their_keys(until: Longs, taken: bool) -> None:
    heavy = order.heavy_first(until)
    assert heavy is not None
    longer = flex.lengthened(heavy.visible_until)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "SMALLEST", 1 << 14)
        found = pieces.largest(longer) if taken else []
    mask = flex.block_mask(longer, device=CPU, without=found)
    if vars(mask)["alone"]:
        assert int(mask.kv_num_blocks.sum()) == 0
        return
    given_lists = (
        *(mask.kv_num_blocks, mask.kv_indices),
        *(mask.full_kv_num_blocks, mask.full_kv_indices),
    )
    truth = BlockMask.from_kv_blocks(*given_lists, BLOCK_SIZE=flex.BLOCK, mask_mod=mask.mask_mod)
    assert mask.seq_lengths == truth.seq_lengths
    for name in ("q_num_blocks", "q_indices", "full_q_num_blocks", "full_q_indices"):
        ours, theirs = getattr(mask, name), getattr(truth, name)
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)


@settings(max_examples=60, deadline=None)
@given(until=tree_intervals())
def test_filling_a_row_up_changes_nothing_of_what_its_tokens_see(until: Longs) -> None:
    longer = flex.lengthened(until)
    assert len(longer) % flex.BLOCK == 0
    size = len(until)
    assert np.array_equal(visible(longer)[:size, :size], visible(until))
    assert not visible(longer)[:size, size:].any()
    assert np.array_equal(visible(longer).diagonal(), np.ones(len(longer), dtype=bool))


def test_a_row_filled_up_leaves_nothing_beside_its_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "SMALLEST", 1 << 13)
    until = np.repeat([700, 512, 700], [256, 256, 188])
    longer = flex.lengthened(until)
    for row, left in ((until, 4), (longer, 0)):
        mask = flex.block_mask(row, device=CPU, without=pieces.largest(row))
        assert mask.full_kv_num_blocks is not None
        assert int(mask.kv_num_blocks.sum() + mask.full_kv_num_blocks.sum()) == left


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), size=st.integers(1, 500))
def test_blocks_need_no_tree(seed: int, size: int) -> None:
    until = np.arange(size) + np.random.default_rng(seed).integers(1, 300, size)
    mask = flex.block_mask(until.clip(max=size), device=CPU)
    assert np.array_equal(spread(mask, size), visible(until))


@settings(max_examples=30, deadline=None)
@given(until=tree_intervals(), window=st.integers(1, 400))
def test_a_sliding_layer_sees_only_near_ancestors(until: Longs, window: int) -> None:
    depth = visible(until).sum(1) - 1
    mask = flex.block_mask(until, device=CPU, positions=depth, window=window)
    near = depth[:, None] - depth[None] < window
    assert np.array_equal(spread(mask, len(until)), visible(until) & near)


@pytest.mark.parametrize("rule", [{"without": (pieces.Piece(0, 128, 0, 128),)}, {"gathered": True}])
def test_a_window_takes_no_pieces(rule: dict[str, Any]) -> None:
    until = np.full(256, 256)
    with pytest.raises(AssertionError):
        flex.block_mask(until, device=CPU, positions=np.arange(256), window=64, **rule)


def test_only_blocks_that_something_sees_are_listed() -> None:
    until = np.repeat([512, 256, 512], [128, 128, 256])
    mask = flex.block_mask(until, device=CPU)
    assert mask.full_kv_num_blocks is not None
    assert mask.kv_num_blocks.flatten().tolist() == [1, 1, 1, 1]
    assert mask.full_kv_num_blocks.flatten().tolist() == [0, 1, 1, 2]


@settings(max_examples=60, deadline=None)
@given(until=tree_intervals())
def test_heavy_order_keeps_who_sees_whom(until: Longs) -> None:
    heavy = order.heavy_first(until)
    assert heavy is not None
    assert np.array_equal(heavy.token[heavy.place], np.arange(len(until)))
    moved = visible(heavy.visible_until)[np.ix_(heavy.place, heavy.place)]
    assert np.array_equal(moved, visible(until))


def test_heavy_order_puts_the_trunk_before_short_branches() -> None:
    until = np.repeat([9, 5, 9], [3, 2, 4])
    heavy = order.heavy_first(until)
    assert heavy is not None
    assert heavy.token.tolist() == [0, 1, 2, 5, 6, 7, 8, 3, 4]


def test_overlapping_intervals_have_no_heavy_order() -> None:
    assert order.heavy_first(np.array([4, 3, 3, 4])) is not None
    assert order.heavy_first(np.array([2, 4, 3, 4])) is None


@settings(max_examples=60, deadline=None)
@given(until=tree_intervals())
def test_pieces_are_visible_disjoint_and_left_out_of_the_blocks(until: Longs) -> None:
    heavy = order.heavy_first(until)
    assert heavy is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "SMALLEST", 1)
        found = pieces.largest(heavy.visible_until)
    seen = visible(heavy.visible_until)
    covered = np.zeros(seen.shape, dtype=int)
    for piece in found:
        rows = slice(piece.first_query, piece.last_query)
        columns = slice(piece.first_key, piece.last_key)
        part = seen[rows, columns]
        assert part.sum() == piece.pairs
        assert np.array_equal(part, np.tril(part) if piece.causal else np.ones_like(part))
        covered[rows, columns] += part
    assert covered.max(initial=0) <= 1
    mask = flex.block_mask(heavy.visible_until, device=CPU, without=found)
    listed = mask.kv_num_blocks.sum() + (
        0 if mask.full_kv_num_blocks is None else mask.full_kv_num_blocks.sum()
    )
    whole = flex.block_mask(heavy.visible_until, device=CPU)
    before = whole.kv_num_blocks.sum() + (
        0 if whole.full_kv_num_blocks is None else whole.full_kv_num_blocks.sum()
    )
    assert before - listed == sum(blocks(piece) for piece in found)


def blocks(piece: pieces.Piece) -> int:
    rows = (piece.last_query - piece.first_query) // flex.BLOCK
    columns = (piece.last_key - piece.first_key) // flex.BLOCK
    return rows * (rows + 1) // 2 if piece.causal else rows * columns


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> CompileCounter:
    """Counts what is compiled where parts are merged as on a card."""
    torch._dynamo.reset()  # what other tests compiled counts towards the limit of graphs
    counter = CompileCounter()
    monkeypatch.setattr(merging, "_mixed", torch.compile(merging._mix, backend=counter))
    monkeypatch.setattr(merging, "_mix", merging._mixed_in_place)
    return counter


@pytest.mark.parametrize("compiled", [False, True])
def test_parts_merge_to_the_whole_with_its_gradient(
    compiled: bool, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if compiled:
        request.getfixturevalue("graphs")
    monkeypatch.setattr(pieces, "SMALLEST", 1 << 13)
    (row,) = build_view(built_in_tree(64, (300, 200, 180)), "packed_mask").rows
    heavy = order.heavy_first(row.visible_until)
    assert heavy is not None
    until = flex.lengthened(heavy.visible_until)
    size = len(until)
    found = pieces.largest(until)
    assert {piece.causal for piece in found} == {True, False}
    seen = torch.from_numpy(visible(until))
    rest = seen.clone()
    for piece in found:
        rest[piece.first_query : piece.last_query, piece.first_key : piece.last_key] = False
    torch.manual_seed(1)
    vectors = [torch.randn(1, heads, size, 16, dtype=torch.float64) for heads in (4, 2, 2)]
    outer = torch.randn(1, 4, size, 16, dtype=torch.float64)
    results = []
    for allowed in (seen, rest):
        query, key, value = (part.clone().requires_grad_() for part in vectors)
        out, total = dense_attention(query, key, value, allowed)
        if allowed is rest:
            table = pieced.table(found)
            out = pieced.attend_with((out, total), (query, key, value), table, 0.25)
        results.append((out, *torch.autograd.grad(out, (query, key, value), outer)))
    for whole, merged in zip(*results, strict=True):
        assert float((whole - merged).abs().max()) < 1e-5


def test_pieces_that_hold_everything_need_no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "SMALLEST", 1 << 13)
    until = flex.lengthened(np.repeat([700, 512, 700], [256, 256, 188]))
    found = pieces.largest(until)
    mask = flex.block_mask(until, device=CPU, without=found)
    assert vars(mask)["alone"]
    assert not vars(flex.block_mask(until, device=CPU, without=found[:-1]))["alone"]
    torch.manual_seed(1)
    vectors = [torch.randn(1, heads, 768, 16, dtype=torch.float64) for heads in (4, 2, 2)]
    outer = torch.randn(1, 4, 768, 16, dtype=torch.float64)
    results = []
    for alone in (False, True):
        query, key, value = (part.clone().requires_grad_() for part in vectors)
        if alone:
            out = flex._attend(query, key, value, mask, 0.25)
        else:
            out, _total = dense_attention(query, key, value, torch.from_numpy(visible(until)))
        results.append((out, *torch.autograd.grad(out, (query, key, value), outer)))
    for whole, merged in zip(*results, strict=True):
        assert float((whole - merged).detach().abs().max()) < 1e-5


SPANS = [(0, 512), (128, 384), (128, 640), (256, 384)]
"""Queries of parts: some in all of them, some in one, the last of a row of 768 in none."""


def parts(dtype: torch.dtype) -> list[Part]:
    """In memory as a model's are: one query's heads follow one another."""
    torch.manual_seed(2)
    return [
        Part(
            *span,
            torch.randn(1, span[1] - span[0], 4, 16, dtype=dtype).transpose(1, 2),
            torch.randn(1, 4, span[1] - span[0], dtype=torch.promote_types(dtype, torch.float32)),
        )
        for span in SPANS
    ]


def test_any_number_of_parts_are_merged_by_their_weights() -> None:
    given_parts = parts(torch.float64)
    out, total = merge(given_parts, torch.empty(1, 4, 768, 16, dtype=torch.float64))
    for query in range(768):
        rows = [
            (part.out[0, :, query - part.first], part.total[0, :, query - part.first])
            for part in given_parts
            if part.first <= query < part.last
        ]
        if not rows:
            assert not out[0, :, query].any()
            assert bool((total[0, :, query] == -torch.inf).all())
            continue
        weights = torch.stack([one for _, one in rows]).softmax(0)
        expected = sum(
            weight[:, None] * row for weight, (row, _) in zip(weights, rows, strict=True)
        )
        assert torch.allclose(out[0, :, query], torch.as_tensor(expected), atol=1e-12)
        whole = torch.stack([one for _, one in rows]).logsumexp(0)
        assert torch.allclose(total[0, :, query].double(), whole, atol=1e-6)


@pytest.mark.parametrize("compiled", [False, True])
def test_many_parts_over_one_stretch_are_mixed_as_if_at_once(
    compiled: bool, request: pytest.FixtureRequest
) -> None:
    counter = request.getfixturevalue("graphs") if compiled else None
    torch.manual_seed(3)
    outs = torch.randn(13, 1, 256, 4, 16, dtype=torch.float64).transpose(2, 3)
    totals = torch.randn(13, 1, 4, 256, dtype=torch.float64)
    like = torch.empty(1, 256, 4, 16, dtype=torch.float64).transpose(1, 2)
    for many in range(1, 14):
        given_parts = [Part(0, 256, outs[one], totals[one]) for one in range(many)]
        out, total = merge(given_parts, like)
        weights = totals[:many].softmax(0)[..., None]
        assert torch.allclose(out, (weights * outs[:many]).sum(0), atol=1e-12)
        assert torch.allclose(total.double(), totals[:many].logsumexp(0), atol=1e-6)
        assert torch.equal(merge(given_parts, like)[0], out)
    assert counter is None or counter.frame_count == 3, "two, three and four parts"


LIKE = torch.empty(1, 768, 4, 16, dtype=torch.bfloat16).transpose(1, 2)
PLAIN, _ = merge(parts(torch.bfloat16), LIKE)


def test_one_graph_merges_as_many_parts_of_any_place_and_length(graphs: CompileCounter) -> None:
    out, _total = merge(parts(torch.bfloat16), LIKE)
    assert torch.equal(out, PLAIN)
    assert graphs.frame_count == 3, "two, three and four parts"


def test_a_graph_knows_the_widths_of_its_model(graphs: CompileCounter) -> None:
    for heads in (4, 2, 8):
        for first in (0, 128):
            two = [
                Part(*span, torch.ones(1, heads, 256, 16), torch.zeros(1, heads, 256))
                for span in ((first, first + 256), (first + 128, first + 384))
            ]
            merge(two, torch.empty(1, heads, 768, 16))
    assert graphs.frame_count == 3, "one for each number of heads, none for any"


def test_a_mask_on_another_device_keeps_its_pieces() -> None:
    until = flex.lengthened(np.repeat([700, 512, 700], [256, 256, 188]))
    piece = pieces.Piece(0, 512, 0, 512)

    def build(device: torch.device) -> BlockMask:
        return flex.block_mask(until, device=device, without=(piece,))

    mask = flex.spread(build, CPU)
    assert mask.to("cpu") is mask
    other = mask.to("meta")
    assert other.kv_num_blocks.device.type == "meta"
    assert vars(other)["pieces"].tolist() == [list(piece)]
    assert other.to("meta") is other


def dense_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, allowed: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and log-sum-exp; 0 and -inf for a query that sees nothing."""
    scores = query @ key.repeat_interleave(2, 1).transpose(-1, -2) * 0.25
    scores = scores.masked_fill(~allowed, -torch.inf)
    total = scores.logsumexp(-1)
    finite = total.masked_fill(total.isinf(), 0.0)[..., None]
    weights = torch.where(allowed, (scores.masked_fill(~allowed, 0.0) - finite).exp(), 0.0)
    return weights @ value.repeat_interleave(2, 1), total


@pytest.mark.parametrize("kernel", ["flex", "split", "varlen"])
def test_block_kernels_are_refused_by_name_on_the_cpu(kernel: str) -> None:
    with pytest.raises(ModelError, match=f"kernel {kernel} has no backward pass on cpu; take sdpa"):
        kernels.choose_kernel(tiny.llama(), packed=True, kernel=kernel)


def test_a_layer_without_its_block_mask_is_refused() -> None:
    query = torch.zeros(1, 2, 4, 16)
    with pytest.raises(ModelError, match="the packed mask did not reach this layer"):
        flex._flex(torch.nn.Identity(), query, query, query, None)
