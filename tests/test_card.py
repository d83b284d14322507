"""A session on a card in parts: nothing measured is lost, and every bar is in the table."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from bench import (
    apart,
    batched,
    card,
    card_parts,
    card_report,
    performance_cards,
    performance_table,
    timed_tests,
)
from bench.card_parts import Setting, Steps
from mwviz.engine import attention, batches, bench, trials
from mwviz.engine.layout import Layout
from mwviz.engine.model import Model
from mwviz.engine.timing import Timing
from mwviz.engine.workloads import read_workload

SETTING = Setting(torch.device("cpu"), 0.001, "tiny")


def timing(method: str, **changes: Any) -> dict[str, Any]:
    row = {"model": "0.6B", "workload": "B", "method": method, "refused": "", "recomputed": False}
    numbers = dict.fromkeys(("forward", "train", "first", "setup", "predicted"), 0.5)
    floors = {"forward_floors": 2.05, "train_floors": 2.0, "tokens_per_second": 1.0}
    return (
        row | numbers | floors | {"peak": 60, "max_drift": None, "gradient_error": None} | changes
    )


SPEED = {
    "timings": [
        timing("logit_tree sdpa", train=3.0),
        timing("packed_mask split"),
        timing("packed_mask varlen", train=0.4),
        timing("packed_mask flex, layers not compiled", train=0.763),
        timing("packed_mask eager", refused="a row of 9 tokens does not fit", train=0.0, peak=0),
        timing("plain causal pass sdpa, layers not compiled", peak=100),
    ],
    "exact": {"model": "0.6B", "workload": "B", "method": "packed_mask", "why": "", "predicted": 1},
    "rate": 7e14,
    "widths": {"layers": 28},
}
WIDE = [
    timing("packed_mask flex", model="tiny float32", max_drift=2.9e-6, gradient_error=5e-7),
]
RECORDED = {
    f"{method} {kind}": 1e-5 for method in ("packed_mask", "logit_tree") for kind in ("max", "mean")
}
FOUND = {
    "0.6B B": SPEED,
    "float32": WIDE,
    "0.6B D rounding": {
        f"{method} {kind}": off
        for method, off in (("logit_tree sdpa", 0.03), ("packed_mask split", 0.07))
        for kind in ("max", "mean")
    },
    "0.6B A alone": {"max": 0.03, "mean": 0.01, "targets": 9},
    "held-0 rollout-float32": RECORDED | {"floor p50": 1e-6, "floor p99.9": 1e-5},
    "held-0 rollout-bfloat16": RECORDED | {"floor p50": 1e-2, "floor p99.9": 1e-1},
    "0.6B B pieces": {"split 4194304": 0.48},
    "1.7B tensor": {
        "how": "tensor",
        "bfloat16, 9 tokens": {"gradient, worst": 0.0123, "ms": {"packed_mask train": 7.0}},
    },
    "0.6B B batched": {
        "rows": 40,
        "batches": 5,
        **{f"{form} {kind}": 0.6 for form in ("one by one", "batched") for kind in ("forward",)},
        "one by one train": 1.5,
        "batched train": 1.0,
        "forward faster": 1.0,
        "train faster": 1.5,
        "one by one peak": 2**33,
        "batched peak": 2**34,
        "max |d logprob|": 0.027,
        "gradient error": 0.012,
    },
    "gpu pair": {"last": "1 passed", "results": {"test_gpu.py::test_two_cards": "passed, 22.0 s"}},
    "gpu tests": {
        "last": "12 passed, 1 not run",
        "results": {"test_one": "passed, 2.0 s", "test_two": "not run, 0.0 s"},
        "failures": {},
    },
    "0.6B B profile": {
        "qwen3-0.6B B varlen": [["total", 0, 1.0]],
        "qwen3-0.6B B score": [
            ["cudnn_fprop", 1, 200.0],
            ["flex_attention", 2, 50.0],
            ["nvjet_x", 3, 100.0],
            ["Memcpy DtoD", 4, 40.0],
            ["total", 0, 400.0],
        ],
    },
    "1.7B A": {"failed": ["Traceback", "RuntimeError: out of memory. Tried to allocate"]},
}


@pytest.fixture
def parts() -> dict[str, Any]:
    steps = {name: {"found": found, "seconds": 1.0} for name, found in FOUND.items()}
    return {"all": {"date": "2026-01-01", "device": "card", "versions": {}, "steps": steps}}


def test_the_table_says_of_every_bar_what_was_reached(parts: dict[str, Any]) -> None:
    text = "\n".join(card_report.table(card_report.document(parts)))
    for said in (
        "0.6B B split: train 500 ms x floor 2.00 (2.1); score 500 ms x floor 2.05 (2.0, missed); "
        "x LogitTree 6.00 (3.5); peak 0.60 (0.65); first 0 (60.0) s; set-up 0.5000 (0.01, missed)",
        "0.6B B varlen: train 400 ms",
        "0.6B B split: of AReaL's time, rescaled 0.56 (0.48, missed)",
        "float32 packed_mask flex: 2.9e-06 (2e-06, missed) nats; gradient 5.0e-07 (1e-06)",
        "16 bits 0.6B D packed_mask split max: 0.070 (0.06, missed) nats",
        "last branch alone, 0.6B A: max 0.03",
        "recorded, float32, 1 rollouts, packed_mask: 1.0e-05 (0.0001) nats",
        "recorded, held-0 rollout-bfloat16: mean 1e-05",
        "0.6B B pieces: split 4194304 0.48",
        "two cards, tensor, bfloat16, 9 tokens: gradient, worst 0.0123, ms [packed_mask train 7]",
        "0.6B B packed_mask eager: refused: a row of 9 tokens does not fit",
        "tests on the card: 12 passed, 1 not run",
        "tests on the card: test_two: not run",
        "tests on two cards: 1 passed",
        "0.6B B batched: rows 40, batches 5,",
        "FAILED 1.7B A: RuntimeError: out of memory",
    ):
        assert said in text, text


def test_the_page_says_all_that_a_session_found(parts: dict[str, Any]) -> None:
    page = performance_table.measured(card_report.document(parts))
    for said in (
        "1.7B A was not measured: RuntimeError: out of memory.",
        "| B | packed_mask split | 500 (2.05) | 500 (2.00) | 6.00 | 1 | 0.0 | 500.0 | 0.5 |",
        "| B | packed_mask eager | does not fit | - |",
        "B, packed_mask eager: a row of 9 tokens does not fit.",
        "| 0.6B B | packed_mask split | 2.00 (2.1) | 2.05 (2.0, missed) | 6.00 (3.5) | 0.60 (0.65) "
        "| 0.5000 (0.01, missed) | 0.5 (60.0) |",
        # 500 ms are 2.05 floors: attention 250, products 100, the rest 50, waiting 100.
        "| 0.6B B score | 2.05 (2.0) | 1.02 | 0.41 | 0.20 | 0.41 |",
        "| B | 500 | 1112 |",
        "| packed_mask flex | 2.9e-06 (2e-06, missed) | 5.0e-07 (1e-06) |",
        "| packed_mask split | 0.070 (0.06, missed) |",
        "0.6B A largest 0.03, mean 0.01 nats",
        "| held-0, float32 | 1.0e-05 (0.0001) |",
        "| tensor, bfloat16, 9 tokens | - | - | - | 0.012 | - | - | 7 |",
        "(`tests/engine/test_gpu.py`): 12 passed, 1 not run.",
        "The one that needs two, `test_two_cards`: passed, 22.0 s.",
        "| 0.6B B | 40, 5 | 600 | 600 | 1.00 | 1500 | 1000 | 1.50 | 8.0 | 16.0 | 0.027 | 0.012 "
        "| 0.50 |",
        "| 0.6B B split, score | 200 | 50 | 0 | 100 | 40 | 10 | 400 |",
        "| 0.6B B varlen, train | 0 | 0 | 0 | 0 | 0 | 1 | 1 |",
        "| 0.6B B pieces | split 4194304 0.48 |",
    ):
        assert said in page, page


def test_a_later_run_takes_the_place_of_what_failed(parts: dict[str, Any]) -> None:
    later = card_report.document(parts)
    failed = [{"step": step, "lines": ["Error: no"]} for step in ("1.7B tensor", "1.7B A")]
    first = later | {"failed": failed, "tests": {"last": "1 failed"}}
    page = performance_table.measured(performance_cards.without(first, later))
    assert "1.7B A was not measured" in page
    for said in ("1.7B tensor", "1 failed", "tensor, bfloat16", "one by one and in batches"):
        assert said not in page
    section = performance_cards.section(later, first)
    for said in ("## Two card, 2026-01-01", "tensor, bfloat16", "in batches", "12 passed"):
        assert said in section


def test_what_divides_one_run_by_another_is_marked_and_how_far_they_lie_apart(
    parts: dict[str, Any],
) -> None:
    """Rows one by one took 0.5 s to score and 3 s to train in the first run, then 0.6 and 1.5."""
    later = card_report.document(parts)
    same = "\n".join(performance_cards.batches(later, later))
    assert "gradient error | packed |" in same
    assert "across" not in same
    section = performance_cards.section(later, later | {"sweep": {}})
    assert "one by one lie up to 100 % apart" in section
    assert "gradient error | packed, across the runs |" in section
    assert "Within the run" not in section
    swept = {"0.6B B batched": {"16384 tokens": 9.0, f"{batches.MOST} tokens": 2.0}}
    assert "those tables: 0.6B B 0.25." in performance_cards.section(
        later, later | {"sweep": swept}
    )


def test_a_page_has_no_part_that_was_not_tried(parts: dict[str, Any]) -> None:
    some = {"float32", "0.6B B", "0.6B D rounding"}
    steps = {name: one for name, one in parts["all"]["steps"].items() if name in some}
    page = performance_table.measured(
        card_report.document({"all": parts["all"] | {"steps": steps}})
    )
    for said in (
        "two cards",
        "Tried beside",
        "last branch alone",
        "Rollouts of",
        "need a card",
        "needs two",
    ):
        assert said not in page
    assert "Where a pass takes longer" not in page


def test_the_rate_is_measured_before_the_card_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, torch.dtype]] = []
    measured = bench.matmul_rate

    def rate(device: str, dtype: torch.dtype) -> float:
        asked.append((device, dtype))
        return measured(device, dtype)

    def speed(*_given: object, **_named: object) -> list[Timing]:
        assert asked, "the rate comes first"
        return []

    monkeypatch.setattr(bench, "matmul_rate", rate)
    monkeypatch.setattr(trials, "speed", speed)
    setting = replace(SETTING, device=torch.device("cpu", 0))
    (_, measure), *_ = card_parts.shape("tiny", setting)
    assert measure()["rate"] > 0
    # By the name that the floors use, for which the rate is known then.
    assert asked == [("cpu", torch.float32)]


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A part of three steps, the second of which fails the first time."""
    ran: list[str] = []

    def found(name: str, number: int) -> dict[str, int]:
        ran.append(name)
        if number == 2 and ran.count(name) == 1:
            raise RuntimeError("no memory")
        return {name: number}

    def steps(_setting: Setting) -> Steps:
        for number, name in enumerate(("first", "second", "third"), 1):
            yield name, partial(found, name, number)

    monkeypatch.setitem(card.PARTS, "some", (100, steps))
    return ran


def test_a_part_called_again_does_what_is_missing(part: list[str], tmp_path: Path) -> None:
    card.run("some", SETTING, tmp_path)
    held = json.loads((tmp_path / "some.json").read_text())["steps"]
    assert held["second"]["found"]["failed"][-1] == "RuntimeError: no memory"
    card.run("some", SETTING, tmp_path)
    assert part == ["first", "second", "third", "second"]
    held = json.loads((tmp_path / "some.json").read_text())["steps"]
    assert [one["found"] for one in held.values()] == [
        {"first": 1},
        {"second": 2},
        {"third": 3},
    ]


def test_a_part_out_of_time_says_where_to_go_on(
    part: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    card.run("some", SETTING, tmp_path, until=0.0)
    assert "call again for first" in capsys.readouterr().out
    monkeypatch.setitem(card.PARTS, "some", (-1, card.PARTS["some"][1]))
    card.run("some", SETTING, tmp_path)
    assert part == []
    assert "call again for first" in capsys.readouterr().out


TIMED = """
import pytest, signal
def test_through_compiled_layers(): pass
def test_slow():
    assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 100
    signal.raise_signal(signal.SIGALRM)
    while True: signal.pause()
def test_wrong(): assert 1 == 2
@pytest.mark.skip(reason="needs two")
def test_another_card(): pass
def test_cheap(): pass
"""


def test_tests_on_a_card_end_in_time_and_all_are_told(tmp_path: Path) -> None:
    """The slow one never ends by itself, but sends the alarm that is set for it at once."""
    file, out = tmp_path / "test_some.py", tmp_path / "found.json"
    file.write_text(TIMED)
    for seconds in ("600", "0"):
        command = [sys.executable, "-m", "bench.timed_tests", str(out), seconds, str(file)]
        said = apart.output(command, 600)
        found = json.loads(out.read_text())
        names = ["test_slow", "test_wrong", "test_cheap"]
        names += ["test_another_card", "test_through_compiled_layers"]
        assert [name.split("::")[1] for name in found] == names, said
        came_to = [one["came to"] for one in found.values()]
        if seconds == "0":
            assert came_to == [*["not run"] * 3, "skipped", "not run"]
        else:
            assert came_to == ["failed", "failed", "passed", "skipped", "passed"]
            slow = next(
                one for name, one in found.items() if name.endswith("test_some.py::test_slow")
            )
            assert "test_slow took more than 100 s" in str(slow["lines"])
            assert timed_tests.summary(found) == "2 failed, 2 passed, 1 skipped"


def test_tests_of_one_name_are_told_apart_and_none_is_told_too(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    files = [tmp_path / f"test_{name}.py" for name in ("one", "two")]
    files[0].write_text("def test_same(): pass")
    files[1].write_text("def test_same(): assert 1 == 2")
    command = [sys.executable, "-m", "bench.timed_tests", str(out), "600"]
    apart.output([*command, *map(str, files)], 600)
    assert timed_tests.summary(json.loads(out.read_text())) == "1 passed, 1 failed"
    files[0].write_text("")
    apart.output([*command, str(files[0])], 600)
    assert timed_tests.summary(json.loads(out.read_text())) == "no tests ran"


def test_a_run_of_no_tests_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "output", lambda *_: "begun\nno such file")
    ((_, measure),) = card_parts.tests(SETTING)
    found = measure()
    assert found["last"] == "no tests ran: no such file"
    assert found["said"] == ["begun", "no such file"]


def test_a_model_over_cards_is_compared_with_one_card_of_this_session_or_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `one` leaves lies there when the part is called again; where it does not, it is run."""
    monkeypatch.setattr(card_parts, "CARDS", tmp_path)
    ran: list[str] = []

    def output(command: list[str], _limit: int) -> str:
        how = next(word for word in command if word in {"one", "spread", "tensor"})
        ran.append(how)
        folder, out = (Path(word) for word in command[command.index(how) + 1 :][:2])
        if how == "one":
            (folder / "float32, 9 tokens.pt").write_text("")
        if ran.count("one") != ends_early:
            out.write_text("{}")
        return ""

    ends_early = 1
    monkeypatch.setattr(apart, "output", output)
    steps = dict(card_parts.cards(SETTING))
    steps["tiny one"]()
    ends_early = 0
    steps["tiny tensor"]()
    assert ran == ["one", "one", "tensor"], "what was not finished is run again"
    dict(card_parts.cards(SETTING))["tiny spread"]()
    assert ran == ["one", "one", "tensor", "spread"]
    monkeypatch.setattr(torch, "__version__", "0")
    dict(card_parts.cards(SETTING))["tiny spread"]()
    assert ran[4:] == ["one", "spread"], "another version says other things"


def test_batches_of_both_shapes_are_compared() -> None:
    steps = dict(card_parts.together(replace(SETTING, shape=None)))
    assert list(steps) == [f"{name} {tree} batched" for name in ("0.6B", "1.7B") for tree in "DB"]
    found = dict(card_parts.together(SETTING))["tiny D batched"]()
    assert found["one by one train"] > 0
    assert found["batched train"] > 0
    assert found["gradient error"] < 1e-5


def test_a_command_that_hangs_is_ended_with_what_it_wrote() -> None:
    said = apart.output(["sh", "-c", "echo begun; sleep 600"], 1)
    assert said.splitlines() == ["begun", "", "stopped after 1 s"]


def test_batches_are_compared_with_rows_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    model = bench.random_model("tiny", device=torch.device("cpu"), dtype=torch.float32)
    file = apart.ROOT / "bench" / "workloads" / "D.json"
    workload = read_workload(file, vocabulary=model.vocabulary, scale=0.003)
    monkeypatch.setattr(batches, "possible", lambda *_: True)
    run, lines = attention.hidden_states, []

    def hidden_states(model: Model, part: Layout, kernel: str, **how: bool) -> torch.Tensor:
        lines.append(len(part.lengths))
        return run(model, part, kernel, **how)

    monkeypatch.setattr(attention, "hidden_states", hidden_states)
    found = batched.compared(model, workload, runs=1)
    assert found["rows"] == 24
    assert found["batches"] < 8
    # A step that is not counted and one that is, of either form.
    steps = [24] * 2 + [found["batches"]] * 2
    assert len(lines) == sum(steps)
    assert set(lines[:48]) == {1}
    assert sum(lines[48:]) == 48
    assert 0 < found["gradient error"] < 1e-5
    assert found["max |d logprob|"] < 1e-5
    assert batches.MOST > 0
