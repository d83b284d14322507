"""`why`, `leaks` and `undo`, and what `score` tells in detail, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mwviz
from mwviz.cli import main
from mwviz.engine.effect import put_back
from mwviz.engine.model import load_model
from mwviz.why import find_target, why
from tests.engine.tiny import llama_config, module_of
from tests.test_causes import logprob

TAIL = (
    ([0, 1], [2]),
    ([0, 1, 2, 3], [4, 9]),
    ([0, 1, 2, 3, 4, 9, 5, 6], [7]),
    ([0, 1, 7, 4, 9, 5], [8]),
)
"""Theory, T3 with a longer second answer: 9 sees 7 from the future and misses 2 and 3."""
ROUNDING = 1e-4


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    module_of(llama_config()).save_pretrained(folder)
    return str(folder)


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "tail.jsonl"
    lines = [
        {"prompt_ids": prompt, "completion_ids": completion, "temperature": 1.0,
         "logprobs": [-1.0] * len(completion)}
        for prompt, completion in TAIL
    ]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, lines)))
    return str(path)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_what_each_class_does_equals_a_plain_masked_run(model: str, trace: str) -> None:
    (analysis,) = mwviz.load(trace).analyses
    scorer = load_model(model)
    found = why(analysis, "rightmost", find_target(analysis, 1, 1), scorer)
    change = {one.name: one.change for one in found.classes}
    seen, true = [0, 1, 7, 4], [0, 1, 2, 3, 4]
    here, there = logprob(scorer, seen, 9), logprob(scorer, true, 9)
    expected = {
        "agree": here - logprob(scorer, seen, 9, without=(0, 1)),
        "future": here - logprob(scorer, seen, 9, without=(2,)),
        "erased": logprob(scorer, true, 9, without=(2, 3)) - there,
    }
    assert change == pytest.approx(expected, abs=ROUNDING)
    assert abs(expected["future"]) > 0.01
    keys = {one.name: one.keys for one in found.classes}
    assert keys == {"agree": 3, "future": 1, "erased": 2}
    mass = {one.name: one.mass for one in found.classes}
    assert (mass["agree"] or 0) + (mass["future"] or 0) == pytest.approx(1, abs=ROUNDING)
    assert found.attention is not None
    assert mass["erased"] == pytest.approx(found.attention.missed)
    assert found.attention.missed > 0.01


def test_why_tells_causes_of_one_token(
    model: str, trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ("why", trace, "--call", "1", "--token", "1")
    found = told(capsys, *place, "--model", model)
    assert found["causes"]["view"] != found["causes"]["true"]
    assert {one["name"] for one in found["classes"]} == {"agree", "future", "erased"}
    assert main([*place, "--model", model]) == 0
    text = capsys.readouterr().out
    assert "drift" in text
    assert "sees 1 token (future) of" in text
    assert "time travel" in text
    shares = found["attention"]
    assert f"{np.mean([layer[1] for layer in shares['here']]):.1%} of its attention under" in text
    assert "most on text that it misses:" in text
    assert sum(one["here"] or 0 for one in found["looks"]) == pytest.approx(1, abs=ROUNDING)
    assert {one["name"] for one in found["looks"]} == {"agree", "future", "erased"}
    plain = told(capsys, *place, "--no-model")
    assert (plain["causes"], plain["classes"]) == (None, [])
    assert (plain["attention"], plain["looks"]) == (None, [])
    assert plain["sources"] == found["sources"]


def test_leaks_is_why_from_the_other_side(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "leaks", trace, "--call", "2")
    assert found["span"] == [8, 9]
    hit = [(one["call"], one["token"], one["class"]) for one in found["reaches"]]
    assert hit == [(1, 0, "future"), (1, 1, "future")]
    gone = told(capsys, "leaks", trace, "--call", "1", "--span", "2:4")["reaches"]
    assert {one["class"] for one in gone} == {"erased"}
    assert sum(one["tokens"] for one in gone if (one["call"], one["token"]) == (1, 1)) == 2
    assert main(["leaks", trace, "--call", "3"]) == 0
    assert "where it belongs" in capsys.readouterr().out


def test_white_space_alone_is_quoted_by_its_signs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "blank.jsonl"
    call = {"messages": [{"role": "user", "content": "go"}], "completion": "\n\n"}
    path.write_text(json.dumps(call))
    assert main(["leaks", str(path), "--call", "0"]) == 0
    assert r"under rightmost: '\n\n'" in capsys.readouterr().out


def test_of_many_rollouts_the_first_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "many.jsonl"
    call = {"prompt_ids": [1, 2], "completion_ids": [3]}
    path.write_text("".join(json.dumps({"rollout": f"e{n}", **call}) + "\n" for n in range(300)))
    assert main(["leaks", str(path), "--call", "0", "--rollout", "x"]) == 2
    told = "no rollout 'x'; there are 'e0', 'e1', 'e2', 'e3', 'e4' and 295 more"
    assert told in capsys.readouterr().err


def test_undo_scores_the_calls_behind_an_eviction_again(
    model: str, trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (one,) = told(capsys, "undo", trace, "--model", model)["junctions"]
    (analysis,) = mwviz.load(trace).analyses
    expected = put_back(analysis.tree, analysis.junction_list[0], load_model(model))
    (call,) = one["calls"]
    assert (one["call"], one["put_back"], call["call"]) == (3, expected.undone.tokens, 3)
    assert call["change"] == pytest.approx(float(np.nanmean(expected.change)), abs=ROUNDING)
    assert call["kl"] == pytest.approx(float(np.nanmean(expected.lost.kl)), abs=ROUNDING)
    assert main(["undo", trace, "--model", model]) == 0
    assert "information lost" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("why", "--call", "1", "--token", "9"), "call 1 sampled 2 tokens"),
        (("why", "--call", "9", "--token", "0"), "the rollout has 4 calls"),
        (("why", "--call", "0", "--token", "0", "--no-model"), "calls that it trains: 1, 2, 3"),
        (("why", "--call", "1", "--token", "0", "--rollout", "x"), "no rollout 'x'"),
        (("leaks", "--call", "1", "--span", "2:99"), "expected --span A:B within"),
        (("undo", "--call", "1"), "there is one before call 3"),
    ],
)
def test_what_is_not_there_is_named(
    arguments: tuple[str, ...], message: str, model: str, trace: str, capsys: Any
) -> None:
    command, *rest = arguments
    named = [] if command == "leaks" else ["--model", model]
    assert main([command, trace, *rest, *named]) == 2
    assert message in capsys.readouterr().err


def test_score_in_detail_has_all_parts(
    model: str, trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = tmp_path / "batch.jsonl"
    ids = [0, 1, 7, 4, 9, 5, 8]
    batch.write_text(
        json.dumps(
            {
                "input_ids": ids,
                "loss_mask": [0, 0, 0, 1, 1, 0, 1],
                "logprobs": [-2.0] * len(ids),
                "advantages": [1.0] * len(ids),
            }
        )
    )
    asked = ("score", trace, "--model", model, "--method", "rightmost", "--own", str(batch))
    found = told(capsys, *asked, "--details", "--weights", "sampler")
    methods = found["rollouts"][0]["methods"]
    assert set(methods) == {"rightmost", "batch.jsonl"}
    for numbers in methods.values():
        assert set(numbers["details"]) == {"gap", "distances", "junctions", "policy", "cost"}
    own = methods["batch.jsonl"]["details"]
    assert own["gap"]["gap"] == pytest.approx(-1.0, abs=ROUNDING)
    assert own["policy"]["clipped"] == 0
    assert own["cost"]["predicted_seconds"] > 0
    assert "no reward" in methods["rightmost"]["details"]["policy"]["refused"]
    assert "estimate" in found["details"]["rightmost"]
    assert "details" not in told(capsys, *asked)["rollouts"][0]["methods"]["rightmost"]
    assert main([*asked, "--details"]) == 0
    printed = capsys.readouterr()
    assert "rightmost: about" in printed.err
    assert "conditioning" in printed.out
    check = ("check", trace, "--view", str(batch), "--model", model, "--max-drift", "0.001")
    assert main([*check, "--format", "json"]) == 1
    seen = capsys.readouterr()
    assert json.loads(seen.out)["findings"][0]["rule"] == "max-drift"
    assert "0 are in no context" in seen.err
