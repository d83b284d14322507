"""The benchmark's document on a machine without a card."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch

from mwviz.cli import main
from mwviz.engine import bench, trials
from mwviz.engine.bench import Method, random_model
from mwviz.engine.model import Model
from mwviz.engine.timing import COLUMNS
from mwviz.engine.workloads import read_workload
from mwviz.errors import ModelError, TraceError
from tests.test_architecture import ROOT

WORKLOADS = ROOT / "bench" / "workloads"
CPU = torch.device("cpu")
SCALE = 0.004


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One tree, so small that all of it takes seconds."""
    (tmp_path / "D.json").write_bytes((WORKLOADS / "D.json").read_bytes())
    monkeypatch.setattr(trials, "SMALL", SCALE)
    return tmp_path


def test_a_document_says_what_is_exact_fast_and_chosen(folder: Path) -> None:
    *_, document = trials.run(folder, CPU, shapes=["tiny"], scale=SCALE)
    rows = {(row["model"], row["method"]): row for row in document["timings"]}
    packed = rows["tiny float32", "packed_mask sdpa"]
    assert packed["max_drift"] < 1e-5
    assert packed["gradient_error"] < 1e-4
    assert rows["tiny", "packed_mask sdpa"]["train"] > 0
    assert document["exact"][0]["method"] in {"packed_mask", "logit_tree"}
    assert set(document["profiles"]) == {"qwen3-tiny D", "qwen3-tiny D score"}
    off = document["rounding"]["tiny D"]
    assert 0 < off["logit_tree sdpa mean"] < off["logit_tree sdpa max"] < 0.5
    # Packing adds no error of its own to that of 16 bits.
    assert off["packed_mask sdpa max"] < 2 * off["logit_tree sdpa max"]


def test_the_command_ends_with_one_table_a_model_and_what_exact_takes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["bench", "--workloads", str(folder), "--scale", str(SCALE), "--device", "cpu"]
    assert main(command) == 0
    said = capsys.readouterr().out
    heads = [line for line in said.splitlines() if line.startswith("| tree")]
    assert heads == [f"| {' | '.join(COLUMNS)} |"] * 2
    rows = [line.split(" | ") for line in said.splitlines() if line.startswith("| D ")]
    assert [len(row) for row in rows] == [len(COLUMNS)] * 5
    assert [row[4] for row in rows if row[1] == "logit_tree sdpa"] == ["1.00", "1.00"]
    assert all("-" not in (row[9], row[10]) for row in rows if row[1].startswith("packed_mask"))
    assert "\ntiny D: exact takes " in said


class Held:
    """Stands for the tensors of a graph that was cut off."""


def test_a_method_that_does_not_fit_leaves_the_others_their_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = random_model("tiny", device=CPU, dtype=torch.float32)
    tree = read_workload(WORKLOADS / "D.json", vocabulary=model.vocabulary, scale=SCALE)
    held: list[weakref.ref[Held]] = []
    backward = torch.Tensor.backward

    def spent(_tree: object, _view: object, model: Model, _kernel: str) -> None:
        for part in model.module.parameters():
            part.grad = torch.zeros_like(part)
        kept = Held()
        vars(kept)["own"] = kept
        held.append(weakref.ref(kept))
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 128.00 MiB.")

    def freed(loss: torch.Tensor) -> None:
        assert [one() for one in held] == [None]
        assert all(part.grad is None for part in model.module.parameters())
        backward(loss)  # type: ignore[no-untyped-call]  # torch's

    methods = [trials.BRANCHES, Method("packed_mask", "sdpa", False), *trials.PACKED["cpu"]]
    timings = iter(bench.measure("tiny", model, tree, methods, runs=1))
    monkeypatch.setattr(bench, "_plain_step", spent)
    gc.disable()
    try:
        base, refused = next(timings), next(timings)
        monkeypatch.setattr(torch.Tensor, "backward", freed)
        packed = next(timings)
    finally:
        gc.enable()
    assert "tokens does not fit in the memory of cpu" in refused.refused
    assert refused.method == "packed_mask sdpa, layers not compiled"
    assert (base.refused, packed.refused) == ("", "")
    assert packed.max_drift is not None
    assert packed.max_drift < 1e-5


def test_a_branch_says_the_same_alone() -> None:
    model = random_model("tiny", device=CPU, dtype=torch.float32)
    tree = read_workload(WORKLOADS / "D.json", vocabulary=model.vocabulary, scale=SCALE)
    off = trials.alone(model, tree)
    assert off["targets"] > 1
    assert off["mean"] <= off["max"] < 1e-5
    assert np.isfinite(off["max"])


def test_an_unknown_shape_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="unknown shape '9B'; expected one of"):
        next(trials.run(WORKLOADS, CPU, shapes=["9B"]))
    with pytest.raises(TraceError, match="holds no workloads"):
        next(trials.run(tmp_path, CPU, shapes=["tiny"]))
