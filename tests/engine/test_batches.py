"""Rows that run as the lines of one batch say and train what they do one by one.

Only a card runs them together; here the engine is made to, on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Gemma2Config, PreTrainedConfig

from mwviz.engine import (
    attention,
    batches,
    calibration,
    check,
    choice,
    cost,
    kernels,
    memory,
    partition,
    sdcc,
)
from mwviz.engine.calibration import Rates
from mwviz.engine.layout import Layout, joined, layout, lines_between
from mwviz.engine.losses import backward, row_losses
from mwviz.engine.model import MemoryShortageError, Model
from mwviz.engine.score import score
from mwviz.engine.scores import Scores
from mwviz.engine.steps import finish
from mwviz.engine.widths import widths
from mwviz.errors import ModelError
from mwviz.tree import EvictionTree
from mwviz.views import build_view
from mwviz.views.view import Edges
from tests.engine import tiny
from tests.engine.test_families import SIZES, WINDOW, config_of

FAMILIES = ("llama", "qwen3", "qwen3-moe", "phi3", "gpt-neox", "gpt2", "gemma3", "mistral")
ROUNDING = 1e-6
"""Nats, in float32."""
GRADIENT_ROUNDING = 1e-5
"""Relative."""
TREE = tiny.tree_of(
    [
        (range(20), range(20, 40)),
        *((range(branch % 7 + 9), range(branch, branch + 2 + branch % 5)) for branch in range(12)),
        ([3], [5]),
    ]
)
"""Branches of several lengths, one of a single token before its target."""


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Makes rows run together and collects the lengths of the lines of every batch that is run."""
    monkeypatch.setattr(batches, "possible", lambda *_: True)
    return spied(monkeypatch)


def spied(monkeypatch: pytest.MonkeyPatch, most: float = np.inf) -> list[list[int]]:
    """Lengths of the lines of every batch; more padded tokens than `most` run out of memory."""
    run, seen = attention.hidden_states, list[list[int]]()

    def hidden_states(model: Model, part: Layout, kernel: str, **how: bool) -> torch.Tensor:
        # Smaller batches cost less than layers that run twice.
        assert part.lines is None or not how.get("recompute")
        if part.padded > most:
            raise MemoryShortageError("no room")
        if part.lines is not None:
            seen.append(part.lengths.tolist())
        return run(model, part, kernel, **how)

    for module in ("attention", "vocabulary"):
        monkeypatch.setattr(f"mwviz.engine.{module}.hidden_states", hidden_states)
    return seen


def small(config: PreTrainedConfig, *, dtype: torch.dtype = torch.float32) -> Model:
    """Weights as models are trained with: large ones amplify the rounding of other products."""
    model = tiny.model_of(config, dtype=dtype)
    with torch.no_grad():
        for part in model.module.parameters():
            if part.dim() > 1:
                part.mul_(0.25)
    return model


def rows_of(lengths: Sequence[int], seed: int = 0) -> tuple[EvictionTree, list[Layout]]:
    """Causal rows without anything in common, every token but the last predicting the next."""
    random = np.random.default_rng(seed)
    calls = [
        (random.integers(0, tiny.VOCABULARY, 1), random.integers(0, tiny.VOCABULARY, length))
        for length in lengths
    ]
    tree = tiny.tree_of([(one.astype(np.int32), two.astype(np.int32)) for one, two in calls])
    rows = build_view(tree, "call_by_call").rows
    return tree, [layout(tree, row, limit=None) for row in rows]


def states(model: Model, part: Layout) -> torch.Tensor:
    kernel = kernels.choose_kernel(model, packed=False)
    with torch.no_grad():
        return attention.hidden_states(model, part, kernel)


LENGTHS = st.lists(st.integers(1, 24), min_size=2, max_size=6) | st.lists(
    st.sampled_from((1, 1, 7, 7, 60)), min_size=2, max_size=5
)


@settings(max_examples=40, deadline=None)
@given(lengths=LENGTHS, family=st.sampled_from(FAMILIES), shift=st.integers(0, 30))
def test_every_line_has_the_states_of_its_row(lengths: list[int], family: str, shift: int) -> None:
    model = MODELS[family]
    _tree, parts = rows_of(lengths)
    # Positions of their own, as rows of a trainer that keeps them have.
    parts[-1] = replace(parts[-1], positions=parts[-1].positions + shift)
    whole = joined(parts)
    assert whole is not None
    found = states(model, whole)
    expected = torch.cat([states(model, part) for part in parts])
    assert found.shape == expected.shape
    assert float((found - expected).abs().max()) < 5e-6 * float(expected.abs().max())


MODELS = {name: replace(small(config_of(name)), touching={"sdpa": ""}) for name in FAMILIES}
"""Windows of `WINDOW` tokens in gemma3 and mistral, learned positions in gpt2; none is checked."""


def test_soft_caps_hold_in_every_line() -> None:
    config = Gemma2Config.from_dict(SIZES | {"head_dim": 16, "attn_logit_softcapping": 2.0})
    model = small(config)
    assert kernels.choose_kernel(model, packed=False) == "eager"
    _tree, parts = rows_of([5, 30, 1])
    whole = joined(parts)
    assert whole is not None
    expected = torch.cat([states(model, part) for part in parts])
    assert float((states(model, whole) - expected).abs().max()) < 1e-5


def test_a_line_without_its_positions_is_noticed() -> None:
    """The equality above would not hold with other ones."""
    _tree, parts = rows_of([9, 9])
    whole = joined(parts)
    assert whole is not None
    wrong = states(MODELS["llama"], replace(whole, positions=2 * whole.positions))
    assert float((wrong - states(MODELS["llama"], whole)).abs().max()) > 1e-3


@settings(max_examples=40, deadline=None)
@given(lengths=LENGTHS, data=st.data())
def test_lines_are_cut_from_a_batch_as_they_were_put_in(
    lengths: list[int], data: st.DataObject
) -> None:
    _tree, parts = rows_of(lengths)
    whole = joined(parts)
    assert whole is not None
    assert whole.lengths.tolist() == [len(part.ids) for part in parts]
    first = data.draw(st.integers(0, len(parts) - 1))
    last = data.draw(st.integers(first + 1, len(parts)))
    found, expected = lines_between(whole, first, last), joined(parts[first:last])
    assert expected is not None
    assert np.array_equal(found.ids, expected.ids)
    assert np.array_equal(found.positions, expected.positions)
    assert np.array_equal(found.edges.query, expected.edges.query)
    assert np.array_equal(found.edges.target, expected.edges.target)
    assert np.array_equal(found.edges.weight, expected.edges.weight)
    assert (found.lines is None) == (last - first == 1)
    assert np.array_equal(found.lengths, expected.lengths)


@settings(max_examples=40, deadline=None)
@given(lengths=LENGTHS, most=st.integers(1, 200))
def test_a_batch_is_cut_between_its_lines(lengths: list[int], most: int) -> None:
    _tree, parts = rows_of(lengths)
    whole = joined(parts)
    assert whole is not None
    cut = partition.layouts(whole, most)
    assert all(part.padded <= most or part.lines is None for part in cut)
    assert np.array_equal(np.concatenate([part.ids for part in cut]), whole.ids)
    target = np.concatenate([part.edges.target for part in cut])
    assert np.array_equal(target, whole.edges.target)
    half = partition.halves(whole, MODELS["llama"])
    assert len(half) > 1
    assert max(part.padded for part in half) < whole.padded


def test_rows_that_train_nothing_are_left_out() -> None:
    _tree, parts = rows_of([4, 5])
    none = np.empty(0, dtype=np.int64)
    silent = replace(parts[0], edges=Edges(none, none, np.empty(0, dtype=np.float32)))
    assert joined([silent, parts[1]]) is parts[1]
    assert joined([silent]) is None


@settings(max_examples=60, deadline=None)
@given(lengths=st.lists(st.integers(1, 90), max_size=14), most=st.integers(1, 400))
def test_groups_hold_every_row_once_and_only_like_ones(lengths: list[int], most: int) -> None:
    tree, _parts = rows_of(lengths) if lengths else (TREE, [])
    rows = build_view(tree, "call_by_call").rows if lengths else ()
    found = batches.of_like_length(MODELS["llama"], rows, kernel="sdpa", most=lambda _line: most)
    place = {id(row): index for index, row in enumerate(rows)}
    order = [[place[id(row)] for row in group] for group in found]
    assert sorted(chain.from_iterable(order)) == list(range(len(rows)))
    assert all(group == sorted(group) for group in order)
    assert order == sorted(order)
    for group in found:
        sizes = [row.size for row in group]
        assert len(group) == 1 or max(sizes) * len(group) <= most
        assert min(sizes) >= batches.LIKE * max(sizes)


def scored(tree: EvictionTree, model: Model, method: str = "logit_tree") -> Scores:
    return finish(score(tree, build_view(tree, method), model))


def gradient(
    tree: EvictionTree, model: Model, method: str = "logit_tree", **how: object
) -> npt.NDArray[np.float64]:
    backward(tree, build_view(tree, method), model, **how)  # type: ignore[arg-type]
    parts = [p.grad for p in model.module.parameters() if p.grad is not None]
    found = torch.cat([part.double().flatten() for part in parts]).numpy()
    model.module.zero_grad(set_to_none=True)
    return found


def near(found: npt.NDArray[np.float64], expected: npt.NDArray[np.float64]) -> bool:
    rounding = GRADIENT_ROUNDING * np.linalg.norm(expected)  # 0 where all ids are padding
    return bool(np.linalg.norm(found - expected) <= rounding)


@st.composite
def trees(draw: st.DrawFn) -> EvictionTree:
    """Calls that share beginnings, of very different lengths."""
    token = st.integers(0, tiny.VOCABULARY - 1)
    trunk = draw(st.lists(token, min_size=1, max_size=12))
    size = st.integers(1, 8) | st.sampled_from((1, 60))
    calls = [
        (trunk[: draw(st.integers(1, len(trunk)))], [draw(token) for _ in range(draw(size))])
        for _ in range(draw(st.integers(2, 7)))
    ]
    return tiny.tree_of(calls)


FORCED = settings(max_examples=15, deadline=None)


@FORCED
@given(
    tree=trees(),
    family=st.sampled_from(("llama", "gpt2", "gemma3")),
    method=st.sampled_from(("logit_tree", "call_by_call")),
    most=st.sampled_from((30, 100, 4000)),
)
def test_scores_and_gradients_are_those_of_rows_one_by_one(
    tree: EvictionTree, family: str, method: str, most: int
) -> None:
    model = MODELS[family]
    expected, slopes = scored(tree, model, method), gradient(tree, model, method)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "possible", lambda *_: True)
        patch.setattr(batches, "MOST", most)
        found = scored(tree, model, method)
        assert np.abs(found.logprob - expected.logprob).max() < ROUNDING
        assert np.abs(found.entropy - expected.entropy).max() < 1e-5
        assert found.hidden is not None
        assert expected.hidden is not None
        assert np.abs(found.hidden - expected.hidden).max() < 1e-5
        assert np.abs(found.rank - expected.rank).max() <= 1
        assert near(gradient(tree, model, method), slopes)


def test_rows_do_run_together(together: list[list[int]]) -> None:
    model = MODELS["llama"]
    expected = {row.size for row in build_view(TREE, "logit_tree").rows}
    steps = list(score(TREE, build_view(TREE, "logit_tree"), model))
    assert {size for lines in together for size in lines} <= expected
    assert max(map(len, together)) > 2
    done = [step.done for step in steps]
    assert done == sorted(set(done))
    assert (
        done[-1] == steps[-1].total == sum(row.size for row in build_view(TREE, "logit_tree").rows)
    )
    together.clear()
    gradient(TREE, model)
    assert max(map(len, together)) > 2


def test_work_can_be_ended_between_batches(
    together: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = MODELS["llama"]
    monkeypatch.setattr(batches, "MOST", 60)
    steps = score(TREE, build_view(TREE, "logit_tree"), model)
    together.clear()
    next(steps)
    steps.close()  # type: ignore[attr-defined]  # a generator
    assert len(together) <= 2


@pytest.mark.parametrize("name", ["gemma3", "mistral"])
def test_rows_longer_than_a_window_run_alone(name: str, together: list[list[int]]) -> None:
    tree = tiny.tree_of(
        [*(([1, 2], [token, 4]) for token in (3, 5)), *((range(20), [t]) for t in (3, 5))]
    )
    scored(tree, MODELS[name])
    assert together
    assert all(size <= WINDOW for lines in together for size in lines)


def test_no_rows_run_together_on_the_cpu_or_under_another_kernel() -> None:
    assert not batches.possible(MODELS["llama"], "sdpa")
    card = replace(MODELS["llama"], device=torch.device("cuda"))
    assert batches.possible(card, "sdpa")
    assert not batches.possible(card, "eager")
    refuses = replace(card.capability, refusals=("its experts drop tokens",))
    assert not batches.possible(replace(card, capability=refuses), "sdpa")


def test_a_target_of_several_rows_is_scored_in_their_order(together: list[list[int]]) -> None:
    """What the first row says of it is kept, so that rows must not change places."""
    trunk = [*range(8), *range(20, 30)]
    tree = tiny.tree_of([(range(8), range(20, 30)), *(([*trunk, one], [one, 3]) for one in (4, 5))])
    model, view = MODELS["llama"], tiny.branch_all(tree)
    assert view.multiplicity.max() > 1
    assert batches.trains_twice(view.rows)
    assert not batches.trains_twice(build_view(TREE, "logit_tree").rows)
    finish(score(tree, view, model))
    assert together == []
    backward(tree, view, model)
    assert together
    model.module.zero_grad(set_to_none=True)


@pytest.mark.parametrize("library", [False, True], ids=["", "checkpointing"])
def test_factors_and_checkpointing_reach_every_line(
    library: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    factor = np.random.default_rng(2).normal(size=len(TREE.token)).astype(np.float32)
    model = small(tiny.llama_config())
    if library:
        model.module.train()
        model.module.gradient_checkpointing_enable()  # type: ignore[no-untyped-call]

    def asked(
        target: npt.NDArray[np.int64], logprob: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]:
        return factor[target] * np.exp(logprob)

    expected = [gradient(TREE, model, factor=one) for one in (factor, asked)]
    monkeypatch.setattr(batches, "possible", lambda *_: True)
    seen = spied(monkeypatch)
    found = [gradient(TREE, model, factor=one) for one in (factor, asked)]
    assert seen
    assert all(near(one, two) for one, two in zip(found, expected, strict=True))


def test_a_batch_that_runs_out_of_memory_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS["llama"]
    expected, slopes = scored(TREE, model).logprob, gradient(TREE, model)
    monkeypatch.setattr(batches, "possible", lambda *_: True)
    seen = spied(monkeypatch, most=45)
    assert np.abs(scored(TREE, model).logprob - expected).max() < ROUNDING
    assert near(gradient(TREE, model), slopes)
    assert seen
    assert all(max(lines) * len(lines) <= 45 for lines in seen)
    spied(monkeypatch, most=39)
    with pytest.raises(MemoryShortageError, match="a row of 40 tokens does not fit"):
        scored(TREE, model)


def test_a_batch_holds_what_fits_without_running_layers_twice(
    monkeypatch: pytest.MonkeyPatch, together: list[list[int]]
) -> None:
    model = MODELS["llama"]
    rows = build_view(TREE, "logit_tree").rows
    tokens, targets = sum(row.size for row in rows), len(TREE.token)
    some = -(-targets * 60 // tokens)
    need = memory.row_bytes(model, tokens=60, targets=some, train=True, recompute=False, line=1)
    monkeypatch.setattr(memory, "free_bytes", lambda _model: need / memory.RESERVE)
    for group in batches.grouped(model, rows, kernel="sdpa", train=True):
        assert len(group) == 1 or max(row.size for row in group) * len(group) <= 60
    expected = max(len(group) for group in batches.grouped(model, rows, kernel="sdpa", train=False))
    assert expected > 4
    gradient(TREE, model)
    assert together
    assert all(max(lines) * len(lines) <= 60 for lines in together)


def test_a_prediction_counts_batches_as_they_run(
    monkeypatch: pytest.MonkeyPatch, together: list[list[int]]
) -> None:
    """One launch a batch, and its padding."""
    model, rows = MODELS["llama"], build_view(TREE, "logit_tree").rows
    monkeypatch.setattr(cost, "_launches", lambda *_: 1.0)
    rates = Rates(1e12, (5e11, 5e11), (1e11, 1e11), 1e11)
    monkeypatch.setattr(calibration, "rates", lambda *_: rates)
    together.clear()
    said = cost.predict(model, rows, kernel="sdpa")
    groups = batches.grouped(model, rows, kernel="sdpa", train=False)
    assert said.seconds == len(groups) < len(rows)
    size = widths(model)
    fed = [max(row.size for row in group) for group in groups]
    linear = sum(
        2.0 * size.weights * one * len(group) for one, group in zip(fed, groups, strict=True)
    )
    pairs = sum(len(group) * one * (one + 1) // 2 for one, group in zip(fed, groups, strict=True))
    logits = 2.0 * size.hidden * size.vocabulary * len(TREE.token)
    assert said.operations == linear + 4.0 * size.query * size.layers * pairs + logits
    largest = max(one * len(group) for one, group in zip(fed, groups, strict=True))
    assert said.bytes >= memory.row_bytes(
        model, tokens=largest, targets=1, train=False, recompute=False, line=1
    )
    scored(TREE, model)
    ran = [sorted(row.size for row in group) for group in groups if len(group) > 1]
    assert sorted(sorted(lines) for lines in together) == sorted(ran)


def mixes(
    share: float, offset: float, *, back: bool
) -> Callable[[torch.nn.Module, object, object], None]:
    """Some of the first line's states seeps into all others, as where a layer mixes a batch.

    Or `back`: some of the last line's.
    """

    def mix(_module: torch.nn.Module, _given: object, output: object) -> None:
        states = output.last_hidden_state  # type: ignore[attr-defined]  # transformers' own type
        if len(states) > 1:
            others, source = (states[:-1], states[-1:]) if back else (states[1:], states[:1])
            others += share * source.mean(1, keepdim=True) + offset

    return mix


@pytest.mark.parametrize(
    ("share", "offset", "back"),
    [(1e-4, 0.0, False), (1e-4, 0.0, True), (0.0, 0.3, False)],
    ids=["found by a token of the first", "found by one of the last", "found by its scores"],
)
def test_a_model_whose_lines_touch_runs_rows_one_by_one(
    share: float, offset: float, back: bool, together: list[list[int]]
) -> None:
    model, rows = small(tiny.llama_config()), build_view(TREE, "logit_tree").rows
    expected = scored(TREE, replace(model, touching={"sdpa": "they do"})).logprob
    assert together == []
    hook = model.module.base_model.register_forward_hook(mixes(share, offset, back=back))
    found = scored(TREE, model)
    hook.remove()
    assert np.array_equal(found.logprob, expected)
    (how,) = model.touching.values()
    assert ("llama says" if offset else "in llama a token of one branch moved a score") in how
    # Said by every run, not only by the one that found out.
    told = (f"rows ran one by one, not in batches: {how}",)
    assert found.notes == scored(TREE, model).notes == told
    trained = row_losses(TREE, build_view(TREE, "logit_tree"), model)
    assert {part.notes for part in trained} == {told}
    single = build_view(tiny.tree_of([([1], [2, 3])]), "logit_tree")
    assert check.grouped(model, single.rows, kernel="sdpa", train=False).notes == ()
    # The self-check's own batches were the only ones.
    assert {tuple(lines) for lines in together} == {(20, 17)}
    assert len(batches.grouped(model, rows, kernel="sdpa", train=True)) == len(rows)


@pytest.mark.parametrize("known", [True, False], ids=["known", "not yet known"])
def test_exact_counts_on_no_batches_where_lines_touch(
    known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches are what makes separate branches the faster ones here."""
    monkeypatch.setattr(batches, "possible", lambda *_: True)
    monkeypatch.setattr(cost, "_launches", lambda *_: 1.0)
    rates = Rates(1e12, (5e11, 5e11), (1e11, 1e11), 1e11)
    monkeypatch.setattr(calibration, "rates", lambda *_: rates)
    model = small(tiny.llama_config())
    one_launch = cost.predict(model, build_view(TREE, "packed_mask").rows, kernel="sdpa")
    monkeypatch.setattr(
        cost, "_launches", lambda _m, _k, _s, part: 1.0 if part.line is not None else 9.0
    )
    assert one_launch.seconds == 1.0
    assert choice.choose_exact(LIKE, model).method == "logit_tree"
    assert list(model.touching.values()) == [""]
    touching = small(tiny.llama_config())
    hook = touching.module.base_model.register_forward_hook(mixes(1e-4, 0.0, back=False))
    if known:
        scored(LIKE, touching)
        assert any(touching.touching.values())
    chosen = choice.choose_exact(LIKE, touching)
    hook.remove()
    rows = build_view(LIKE, "logit_tree").rows
    assert chosen.method == "packed_mask"
    assert any(touching.touching.values())
    assert cost.predict(touching, rows, kernel="sdpa").seconds == 9.0 * len(rows)


def test_dropout_is_no_lasting_proof_that_lines_touch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "possible", lambda *_: True)
    monkeypatch.setattr(
        cost, "_launches", lambda _m, _k, _s, part: 1.0 if part.line is not None else 9.0
    )
    model = small(tiny.llama_config(attention_dropout=0.5))
    model.module.train()
    with pytest.raises(ModelError, match=r"dropout or router jitter is on.* call eval"):
        choice.choose_exact(LIKE, model)
    assert model.touching == {}
    model.module.train(mode=False)
    assert choice.choose_exact(LIKE, model).method == "logit_tree"
    assert list(model.touching.values()) == [""]


LIKE = tiny.tree_of([([1], [2 + branch, *range(10, 20)]) for branch in range(8)])
"""Branches of one length."""


def test_sdcc_trains_the_same_in_batches(
    monkeypatch: pytest.MonkeyPatch, together: list[list[int]]
) -> None:
    model = small(tiny.gpt2_config(), dtype=torch.float64)
    monkeypatch.setattr(batches, "possible", lambda *_: False)
    view = build_view(TREE, "logit_tree")
    targets = np.arange(len(TREE.token))

    def trained() -> tuple[float, npt.NDArray[np.float64]]:
        loss = sdcc.backward(TREE, view, model, consistency=targets, strength=0.5)
        parts = [p.grad for p in model.module.parameters() if p.grad is not None]
        found = torch.cat([part.flatten() for part in parts]).numpy().copy()
        model.module.zero_grad(set_to_none=True)
        return loss, found

    expected, slopes = trained()
    assert together == []
    monkeypatch.setattr(batches, "possible", lambda *_: True)
    loss, found = trained()
    assert together
    assert loss == pytest.approx(expected, rel=1e-9)
    assert near(found, slopes)
