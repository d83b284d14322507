from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from mwviz.engine import batches, bench, calibration, cost, dense, memory, work
from mwviz.engine.calibration import Rates
from mwviz.engine.choice import choose_exact
from mwviz.engine.widths import widths
from mwviz.engine.workloads import read_workload
from mwviz.errors import TraceError
from mwviz.views import build_view
from tests.engine import tiny
from tests.test_architecture import ROOT

WORKLOADS = ROOT / "bench" / "workloads"
LISTED = {"A": (57362, 73746, 537047211), "D": (29836, 100492, 101983951)}
"""Tokens, branch tokens and visible pairs that the files themselves state."""


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates of a machine that is never busy."""
    rates = Rates(1e12, (5e11, 5e11), (1e11, 1e11), 1e11)
    monkeypatch.setattr(calibration, "rates", lambda *_: rates)


@pytest.mark.parametrize("name", LISTED)
def test_workloads_have_the_size_they_state(name: str) -> None:
    tree = read_workload(WORKLOADS / f"{name}.json", vocabulary=100).tree
    (row,) = build_view(tree, "packed_mask").rows
    branches = sum(row.size for row in build_view(tree, "logit_tree").rows)
    assert (tree.size, branches, work.visible_pairs(row.visible_until)) == LISTED[name]
    assert len(np.unique(tree.token)) == len(tree.token)
    before = tree.position_of(tree.query)
    assert np.array_equal(before, tree.position_of(tree.token) - 1)


def test_a_broken_workload_is_refused() -> None:
    with pytest.raises(TraceError, match="not a workload"):
        read_workload(WORKLOADS / "stress.py", vocabulary=100)


def test_widths_count_the_matrices_of_all_layers() -> None:
    size = widths(tiny.llama())
    layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96
    assert size.weights == 2 * layer
    assert (size.query, size.key, size.inner, size.vocabulary) == (64, 32, 96, 64)


@pytest.mark.usefixtures("steady")
def test_operations_follow_the_formulas() -> None:
    tree, model = tiny.tree_of(tiny.RUNNING_EXAMPLE), tiny.llama()
    view, size = build_view(tree, "logit_tree"), widths(model)
    linear = sum(2 * size.weights * row.size for row in view.rows)
    pairs = sum(row.size * (row.size + 1) // 2 for row in view.rows)
    logits = 2 * size.hidden * size.vocabulary * len(tree.token)
    attended = 4 * size.query * size.layers * pairs
    forward = cost.predict(model, view.rows, kernel="sdpa")
    train = cost.predict(model, view.rows, kernel="sdpa", train=True)
    assert forward.operations == linear + attended + logits
    assert train.operations == 3 * linear + 3.5 * attended + 3 * logits
    assert train.seconds > 2 * forward.seconds > 0


@pytest.mark.usefixtures("steady")
def test_a_row_on_the_cpu_moves_all_weights_however_short() -> None:
    """So that many short rows cost more than one of all their tokens."""
    model = tiny.llama()
    short, long = ([([1], range(2, 2 + size))] for size in (2, 4))
    one, two, twice = (
        cost.predict(model, build_view(tiny.tree_of(calls), "call_by_call").rows, kernel="sdpa")
        for calls in (short, long, short * 2)
    )
    weights = sum(part.numel() for part in model.module.parameters() if part.dim() > 1) * 4
    head = 64 * 64 * 4
    assert twice.seconds == pytest.approx(2 * one.seconds)
    assert one.seconds > (weights - head) / 1e11
    assert two.seconds - one.seconds < one.seconds


def test_gathered_pairs_are_those_of_the_kernels_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "CPU_BLOCK", 3)
    tree = tiny.tree_of(tiny.RUNNING_EXAMPLE)
    (row,) = build_view(tree, "packed_mask").rows
    until = row.visible_until
    seen = [
        {k for q in range(start, min(start + 3, len(until))) for k in range(q + 1) if q < until[k]}
        for start in range(0, len(until), 3)
    ]
    width = [min(3, len(until) - start) for start in range(0, len(until), 3)]
    exact = sum(len(keys) * rows for keys, rows in zip(seen, width, strict=True))
    assert exact == work.gathered_pairs(until)


@pytest.mark.usefixtures("steady")
def test_exact_packs_where_much_is_shared_and_not_where_nothing_is() -> None:
    model = bench.random_model("tiny", device=torch.device("cpu"), dtype=torch.float32)
    shared = tiny.tree_of([(range(60), [token] * 3) for token in range(60, 64)])
    apart = tiny.tree_of([([token] * 60, [token] * 3) for token in range(4)])
    assert choose_exact(shared, model).method == "packed_mask"
    assert choose_exact(apart, model).method == "logit_tree"


@pytest.mark.usefixtures("steady")
def test_a_choice_says_why_and_what_it_will_cost() -> None:
    choice = choose_exact(tiny.tree_of(tiny.RUNNING_EXAMPLE), tiny.llama(), train=True)
    assert "predicted" in choice.why
    assert str(choice.prediction).startswith("about ")
    assert choice.prediction.against(2.0).endswith("took 2 s")


def test_layers_run_twice_only_if_memory_would_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.llama()
    assert not memory.recomputes(model, tokens=10**9, targets=10)

    def need_of(*, recompute: bool) -> int:
        return memory.row_bytes(model, tokens=1000, targets=100, train=True, recompute=recompute)

    need = need_of(recompute=False)
    for free, twice in ((2 * need, False), (need, True)):
        monkeypatch.setattr(memory, "free_bytes", lambda _model, free=free: free)
        assert memory.recomputes(model, tokens=1000, targets=100) is twice
    assert need_of(recompute=True) < need


@pytest.mark.usefixtures("steady")
def test_a_row_too_large_is_said_to_be_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    model = bench.random_model("tiny", device=torch.device("cpu"), dtype=torch.float32)
    tree = tiny.tree_of([(range(60), [token] * 3) for token in range(60, 80)])
    (row,) = view = build_view(tree, "packed_mask").rows
    whole = cost.predict(model, view, kernel="sdpa", train=True)
    tokens, targets = row.size * 9 // 10, len(tree.token) * 9 // 10
    need = memory.row_bytes(model, tokens=tokens, targets=targets, train=True, recompute=True)
    monkeypatch.setattr(memory, "free_bytes", lambda _model: need / memory.RESERVE)
    cut = cost.predict(model, view, kernel="sdpa", train=True)
    assert (whole.cut, cut.cut) == (0, 2)
    assert cut.bytes <= need < whole.bytes
    assert cut.seconds > whole.seconds
    assert "cut into 2 rows that fit" in str(cut)
    assert choose_exact(tree, model, train=True).method == "packed_mask"


@pytest.mark.usefixtures("steady")
def test_branches_are_taken_where_not_even_a_part_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.llama()
    tree = tiny.tree_of([(range(60), [token] * 3) for token in range(60, 64)])
    answers = iter((True, False))
    monkeypatch.setattr(memory, "fits", lambda *_: next(answers))
    choice = choose_exact(tree, model)
    assert choice.method == "logit_tree"
    assert "does not fit in memory" in choice.why


KERNELS = ("split", "varlen", "flex")
LINEAR = {"0.6B": 0.93, "1.7B": 0.99}
"""Share of a large product's rate that one as wide as the layers reaches on the card."""
MOVES = 1.25e12
"""Bytes a second between products, as calibrated there."""


@pytest.mark.parametrize("shape", LINEAR)
def test_predictions_are_within_15_percent_of_what_a_card_took(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = json.loads(max((ROOT / "bench" / "results").glob("h200-*.json")).read_text())
    rate = LINEAR[shape] * results["rate"]
    model = bench.random_model(shape, device=torch.device("meta"), dtype=torch.bfloat16)

    def rates(_model: object, kernel: str) -> Rates:
        regular, masked = calibration.CUDA_SHARES["regular"], calibration.CUDA_SHARES[kernel]
        forward, backward = ((rate * r, rate * m) for r, m in zip(regular, masked, strict=True))
        return Rates(rate, (forward[0], backward[0]), (forward[1], backward[1]), MOVES)

    monkeypatch.setattr(calibration, "rates", rates)
    took = {
        (row["workload"], row["method"].removeprefix("packed_mask ")): row["train"]
        for row in results["timings"]
        if row["model"] == shape and not row["refused"] and not row["recomputed"]
    }
    off = {}
    for tree in sorted({tree for tree, _ in took}):
        workload = read_workload(WORKLOADS / f"{tree}.json", vocabulary=model.vocabulary).tree
        rows = build_view(workload, "packed_mask").rows
        for kernel in (one for one in KERNELS if (tree, one) in took):
            said = cost.predict(model, rows, kernel=kernel, train=True).seconds
            off[tree, kernel] = said / took[tree, kernel] - 1
    assert len(off) >= len(KERNELS)
    assert {name for name, share in off.items() if abs(share) > 0.15} == set(), off


TRIED = {"A": 1.312, "B": 1.681, "C": 3.401, "D": 0.981}
"""Seconds of a training step with LogitTree's rows in batches, of the 0.6B shape on the card of
bench/results/h200-2026-11-30.json."""


@pytest.mark.parametrize("tree", TRIED)
def test_batches_are_predicted_within_15_percent_of_what_a_card_took(
    tree: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = json.loads((ROOT / "bench" / "results" / "h200-2026-11-30.json").read_text())
    rate = LINEAR["0.6B"] * results["rate"]
    forward, backward = (rate * share for share in calibration.CUDA_SHARES["regular"])
    rates = Rates(rate, (forward, backward), (forward, backward), MOVES)
    monkeypatch.setattr(calibration, "rates", lambda *_: rates)
    monkeypatch.setattr(memory, "free_bytes", lambda _model: None)
    model = bench.random_model("0.6B", device=torch.device("meta"), dtype=torch.bfloat16)
    model = replace(model, device=torch.device("cuda"))
    workload = read_workload(WORKLOADS / f"{tree}.json", vocabulary=model.vocabulary).tree
    rows = build_view(workload, "logit_tree").rows
    said = cost.predict(model, rows, kernel="sdpa", train=True).seconds
    assert said == pytest.approx(TRIED[tree], rel=0.15)
    monkeypatch.setattr(batches, "MOST", 0)
    alone = cost.predict(model, rows, kernel="sdpa", train=True).seconds
    # Where rows are short, one by one takes much longer; where they are long, as long.
    assert (alone > 1.5 * said) is (tree in "BD")


def test_calibration_finds_rates() -> None:
    rates = calibration.rates(tiny.llama(), "sdpa")
    assert min(rates.linear, rates.regular[0], rates.masked[0], rates.memory) > 0
