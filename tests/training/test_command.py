"""`mwviz train` as a user types it, on a tiny model in a folder."""

from __future__ import annotations

import io
import json
import math
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mwviz.cli import main
from mwviz.engine.model import Model, load_model, load_reader
from mwviz.trace import load
from mwviz.train_printed import SHOWN, print_table
from mwviz.training.results import DIVERGED, statuses, table
from tests.saved_model import save_chat_model, save_tiny_model

CALLS = (([1, 2, 3], [4, 5]), ([1, 4, 5], [6, 7]), ([1, 4, 5, 6, 7, 8], [9]))


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A comparison of two arms over three steps; the working folder is this test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    save_tiny_model(tmp_path / "tiny")
    for name, calls in (("run", CALLS), ("more", CALLS[:2])):
        lines = [
            {
                "prompt_ids": prompt,
                "completion_ids": completion,
                "logprobs": [-2.0] * len(completion),
                "temperature": 1.0,
            }
            for prompt, completion in calls
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    command = "train run.jsonl --method rightmost,exact --steps 3 --lr 1e-2 --watch 2"
    return [*command.split(), "--model", "tiny", "--held-out", "more.jsonl", "--out", "first"]


def told(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_one_line_a_step_and_a_summary(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*typed, "--json"]) == 0
    lines = told(capsys)
    steps = [line for line in lines if line["event"] == "step"]
    assert [(line["arm"], line["step"]) for line in steps] == [
        (arm, step) for arm in ("rightmost", "exact") for step in range(3)
    ]
    keys = {"loss", "nll", "kl", "gap", "gap_max", "clipped", "grad_norm", "targets", "eta"}
    assert all(keys <= line.keys() for line in steps)
    looks = [line for line in lines if line["event"] == "watch"]
    assert [line["step"] for line in looks] == [0, 2, 3] * 2
    assert {"drift_diverging", "kl", "tv", "bound", "cosine", "floor", "moved"} <= looks[0].keys()
    summary = lines[-1]
    assert summary["event"] == "summary"
    assert summary["arms"]["exact"]["state"] == "done"
    assert summary["arms"]["exact"]["after"]["loss_true"] < looks[3]["loss_true"]
    assert set(summary["predicted"]["seconds"]) == {"rightmost", "exact"}
    assert summary["outcome"][0].startswith("Trained on what was sampled: exact. Trained on other")


def test_a_run_goes_on_to_its_end_when_nobody_reads_on(
    typed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = os.pipe()
    os.close(there)
    with io.TextIOWrapper(io.FileIO(here, "w")) as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        assert main([*typed, "--json"]) == 0
    assert {(one.state, one.step) for one in statuses(Path("first")).values()} == {("done", 3)}


def test_the_printed_command_repeats_the_run(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*typed, "--json"]) == 0
    command = told(capsys)[-1]["command"]
    assert main([*command.split()[1:], "--out", "second", "--json"]) == 0
    one, two = (table(Path(name), "steps")["loss"].tolist() for name in ("first", "second"))
    assert one == two


def test_a_run_is_resumed_by_its_folder_and_never_overwritten(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(typed) == 0
    out, err = capsys.readouterr()
    assert "before -> after" in out
    assert "about" in err
    assert main(typed) == 2
    assert "--resume first" in capsys.readouterr().err
    assert main(["train", "--resume", "first", "--json"]) == 0
    assert [line["event"] for line in told(capsys)] == ["summary"]
    assert main(["train", "--resume", "first", "run.jsonl"]) == 2
    assert main(["train", "--resume", "nowhere"]) == 2


def test_an_arm_that_fails_gives_1_and_bad_input_2(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (Path() / "batch.jsonl").write_text('{"input_ids": [30, 31], "loss_mask": [0, 1]}')
    typed[typed.index("rightmost,exact")] = "own:batch.jsonl,exact"
    assert main([*typed, "--json"]) == 1
    lines = told(capsys)
    [failed] = [line for line in lines if line["event"] == "failed"]
    assert failed["arm"] == "own:batch.jsonl"
    assert "trains no token" in failed["message"]
    assert lines[-1]["arms"]["exact"]["state"] == "done"
    for wrong, message in (
        (["train"], "needs a FILE"),
        (["train", "gone.jsonl", "--model", "tiny"], "gone.jsonl"),
        (["train", "run.jsonl", "--method", "leftmost"], "unknown method"),
        (["train", "run.jsonl", "--model", "tiny", "--objective", "policy"], "has no reward"),
    ):
        assert main([*wrong, *(["--out", "third"] if len(wrong) > 1 else [])]) == 2
        assert message in capsys.readouterr().err


def test_an_own_batch_trains_as_the_method_it_was_made_by(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    context = [*CALLS[2][0], *CALLS[2][1]]
    mask = [0, 1, 1, 1, 1, 0, 1]
    batch = {"input_ids": context, "loss_mask": mask}
    (Path() / "batch.jsonl").write_text(json.dumps(batch))
    typed[typed.index("rightmost,exact")] = "rightmost,own:batch.jsonl"
    assert main([*typed, "--json"]) == 0
    steps = [line for line in told(capsys) if line["event"] == "step"]
    losses = [line["loss"] for line in steps]
    assert all(map(math.isclose, losses[:3], losses[3:]))


def test_a_checkpoint_is_scored_under_its_own_name(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*typed, "--lora", "2"]) == 0
    capsys.readouterr()
    score = ["score", "run.jsonl", "--method", "rightmost", "--json"]
    assert main([*score, "--model", "tiny", "--adapter", "first/arms/exact"]) == 0
    [one] = [json.loads(capsys.readouterr().out)]
    assert main([*score, "--model", "first/arms/exact"]) == 0
    [two] = [json.loads(capsys.readouterr().out)]
    assert one["model"]["name"] == "tiny+first/exact"
    assert one["model"] == two["model"]
    assert main([*score, "--model", "tiny"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["model"]["revision"] != one["model"]["revision"]


def test_messages_without_ids_are_trained_on_as_the_template_renders_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    save_chat_model(tmp_path / "chatty")
    ask, answer = {"role": "user", "content": "what"}, {"role": "assistant", "content": "four"}
    again = {"role": "user", "content": "is it <|im_end|>"}
    calls = [([ask], answer), ([again], answer)]
    lines = [json.dumps({"messages": prompt, "completion": [said]}) for prompt, said in calls]
    Path("said.jsonl").write_text("\n".join(lines))
    asked = "train said.jsonl --method exact --steps 2 --model chatty --out run --json"
    assert main(asked.split()) == 0
    lines_told = told(capsys)
    fitting = load("said.jsonl").analyses[0].for_model(load_reader("chatty"))
    assert fitting.decoder.text(fitting.encoding.calls[1].context) == (
        "<|im_start|>user\nis it <|im_end|><|im_end|>\n<|im_start|>assistant\nfour<|im_end|>"
    )
    steps = [line for line in lines_told if line["event"] == "step"]
    assert [step["targets"] for step in steps] == [len(fitting.tree.token)] * 2
    [kept] = json.loads(Path("run/config.json").read_text())["signals"]["trained"]
    assert kept["tokens"] == fitting.digest
    sentences = " ".join(lines_told[-1]["tokens"])
    assert "1 of 1 rollout has no ids of this model: its messages are" in sentences
    assert "(template of chatty)" in sentences
    assert "(special_tokens)" in sentences


def test_resume_takes_no_other_plan(typed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--steps", "9"], ["--lora", "2"], ["--method", "exact"]):
        assert main(["train", "--resume", "first", *words]) == 2
        assert "--resume takes no other option but --json" in capsys.readouterr().err
    assert main(["train", "--resume", "first"]) == 2
    assert "holds no training run" in capsys.readouterr().err
    assert main([*typed, "--json"]) == 0
    capsys.readouterr()
    assert main(["train", "--resume", "first", "--json"]) == 0
    assert [line["event"] for line in told(capsys)] == ["summary"]


@pytest.fixture(autouse=True)
def heeding() -> Iterator[None]:
    """Heeds Ctrl-C, which a process that was started in the background ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupting(monkeypatch: pytest.MonkeyPatch, at: int, *, within: bool) -> None:
    """Has the so many-th step, from 1, be interrupted: as Ctrl-C does, or within the step."""
    from mwviz.training import loop

    whole, calls = loop.update, []

    def interrupted(*given: object, **named: object) -> object:
        calls.append(1)
        report = whole(*given, **named)  # type: ignore[arg-type]
        if len(calls) == at:
            if within:
                raise KeyboardInterrupt
            os.kill(os.getpid(), signal.SIGINT)
        return report

    monkeypatch.setattr(loop, "update", interrupted)


def losses(folder: str) -> dict[tuple[str, int], float]:
    rows = table(Path(folder), "steps")
    steps = zip(rows["arm"], rows["step"], rows["loss"], strict=True)
    return {(str(arm), int(step)): float(loss) for arm, step, loss in steps}


@pytest.mark.parametrize("within", [False, True], ids=["between-steps", "within-a-step"])
@pytest.mark.parametrize("at", [2, 5])
def test_an_interrupted_run_goes_on_as_if_it_had_never_stopped(
    typed: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    at: int,
    within: bool,
) -> None:
    """Within a step the weights have moved and nothing counts that step: it must not be saved."""
    whole = [*typed[:-1], "whole"]
    assert main(whole) == 0
    usual = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patched:
        interrupting(patched, at, within=within)
        capsys.readouterr()
        assert main(typed) == 130
    assert signal.getsignal(signal.SIGINT) is usual
    said = capsys.readouterr().err
    assert "goes on with: mwviz train --resume first" in said
    assert ("stops after this step" in said) == (not within)
    arm = ("rightmost", "exact")[at > 3]
    kept = 0 if within else at % 3
    status = json.loads(Path("first/status.json").read_text())
    assert status[arm] == {"state": "cancelled", "step": kept, "message": ""}
    assert main(["train", "--resume", "first", "--json"]) == 0
    lines = [line for line in told(capsys) if line["event"] == "step"]
    assert (lines[0]["arm"], lines[0]["step"]) == (arm, kept)
    found, expected = losses("first"), losses("whole")
    assert found.keys() == expected.keys()
    assert found == pytest.approx(expected, abs=5e-5)
    assert len(table(Path("first"), "watch")) == len(table(Path("whole"), "watch"))


def test_a_folder_with_a_space_can_be_copied_from_the_message(
    typed: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupting(monkeypatch, 1, within=False)
    assert main([*typed[:-1], "a run"]) == 130
    assert "goes on with: mwviz train --resume 'a run'" in capsys.readouterr().err


def edited(path: Path, **fields: object) -> None:
    """Gives every call of a log other fields."""
    lines = [json.loads(text) | fields for text in path.read_text().splitlines()]
    path.write_text("\n".join(map(json.dumps, lines)))


@pytest.fixture
def rewarded(typed: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A policy gradient on two rollouts, broken off after two steps; the words that began it."""
    edited(Path("run.jsonl"), reward=1.0)
    shutil.copy("run.jsonl", "worse.jsonl")
    edited(Path("worse.jsonl"), reward=0.0)
    at = typed.index("run.jsonl")
    words = [*typed[: at + 1], "worse.jsonl", *typed[at + 1 :], "--objective", "policy"]
    with monkeypatch.context() as patched:
        interrupting(patched, 2, within=False)
        assert main(words) == 130
    return words


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"reward": 0.0', '"reward": 0.5', "reward (0 before, 1.5 now)"),
        ("-2.0", "-3.0", "recorded log-probabilities"),
    ],
    ids=["reward", "logprobs"],
)
@pytest.mark.usefixtures("rewarded")
def test_a_resume_refuses_what_else_it_would_learn_from_by_name(
    capsys: pytest.CaptureFixture[str], before: str, after: str, said: str
) -> None:
    capsys.readouterr()
    worse = Path("worse.jsonl")
    content = worse.read_text()
    worse.write_text(content.replace(before, after))
    assert main(["train", "--resume", "first"]) == 2
    told_of = f"have changed since: rollout 'rollout' (2 of 2): its {said}. Bring back"
    assert told_of in capsys.readouterr().err
    worse.write_text(content)
    assert main(["train", "--resume", "first"]) == 0
    assert len(losses("first")) == 6


def test_a_resume_refuses_another_own_batch(
    typed: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = {"input_ids": [*CALLS[2][0], *CALLS[2][1]], "loss_mask": [0, 1, 1, 1, 1, 0, 1]}
    Path("batch.jsonl").write_text(json.dumps(batch))
    typed[typed.index("rightmost,exact")] = "own:batch.jsonl"
    with monkeypatch.context() as patched:
        interrupting(patched, 2, within=False)
        assert main(typed) == 130
    batch["loss_mask"] = [0, 0, 0, 0, 0, 0, 1]
    Path("batch.jsonl").write_text(json.dumps(batch))
    assert main(["train", "--resume", "first"]) == 2
    assert "changed since: the batch batch.jsonl." in capsys.readouterr().err


@pytest.mark.usefixtures("rewarded")
def test_a_run_of_an_earlier_version_goes_on_with_a_word_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It kept the digests of tokens alone."""
    path = Path("first/config.json")
    config = json.loads(path.read_text())
    kept = config.pop("signals")
    config["rollouts"] = {
        which: " ".join(one["tokens"] for one in kept[which]) for which in ("trained", "watched")
    }
    del config["plan"]["world"]
    path.write_text(json.dumps(config))
    edited(Path("worse.jsonl"), reward=0.5)
    capsys.readouterr()
    assert main(["train", "--resume", "first"]) == 0
    assert "have changed since cannot be told" in capsys.readouterr().err
    config["rollouts"]["trained"] = "other"
    path.write_text(json.dumps(config))
    assert main(["train", "--resume", "first"]) == 2
    assert "changed since: their tokens or calls" in capsys.readouterr().err


def test_where_every_arm_ends_early_what_there_is_is_told(
    typed: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mwviz.errors import ModelError
    from mwviz.training import loop

    whole = loop.update

    def failing(*given: object, **named: object) -> object:
        if named["step"] == 2:
            raise ModelError("out of memory")
        return whole(*given, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(loop, "update", failing)
        assert main(typed) == 1
        out = capsys.readouterr().out
        assert "before -> after" in out
        for arm in ("rightmost", "exact"):
            assert f"{arm} ended after 2 of 3 steps: out of memory" in out
        assert "kept in first; the same again: mwviz train run.jsonl" in out
        assert "it goes on with: mwviz train --resume first" in out
        assert main([*typed[:-1], "second", "--json"]) == 1
        summary = told(capsys)[-1]
    assert summary["event"] == "summary"
    assert summary["folder"] == "second"
    assert summary["resume"] == "mwviz train --resume second"
    arm = summary["arms"]["exact"]
    assert (arm["state"], arm["step"], arm["message"]) == ("failed", 2, "out of memory")
    assert arm["after"]["loss_true"] < arm["before"]["loss_true"]
    assert main(["train", "--resume", "first"]) == 0


def test_an_only_arm_that_fails_before_a_look_is_told_of(
    typed: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mwviz.errors import ModelError
    from mwviz.training import runs

    def failing(*_: object, **__: object) -> object:
        raise ModelError(f"step 0: {DIVERGED}")

    monkeypatch.setattr(runs, "watch", failing)
    typed[typed.index("rightmost,exact")] = "exact"
    assert main([*typed, "--json"]) == 1
    summary = told(capsys)[-1]
    assert summary["arms"] == {
        "exact": {"state": "failed", "step": 0, "message": f"step 0: {DIVERGED}"}
    }
    assert summary["resume"] is None
    assert main(["train", "--resume", "first"]) == 1
    out = capsys.readouterr().out
    assert "exact ended after 0 of 3 steps" in out
    assert "--resume" not in out


MEASURES = """
CALLS = []

def good(model):
    CALLS.append(model.name)
    return {"reward": 0.25, "copied": len(CALLS)}

def bad(model):
    return {"reward": 1 / 0}

def words(model):
    return {"reward": "high"}

def nothing(model):
    return {}

def taken(model):
    return {"loss_true": 1.0}

def event(model):
    return {"event": 1.0}

def leaving(model):
    raise SystemExit(0)

def loud(model):
    print("measuring")
    return {"reward": 0.5}
"""


def test_a_named_measure_stands_in_looks_table_and_resume(
    typed: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("of_mine.py").write_text(MEASURES)
    with monkeypatch.context() as patched:
        interrupting(patched, 2, within=False)
        assert main([*typed, "--world", "of_mine:good"]) == 130
    assert "reward 0.25  copied 1" in capsys.readouterr().out
    assert main(["train", "--resume", "first"]) == 0
    out = capsys.readouterr().out
    head, line = next(
        (head, line)
        for head, line in zip(out.splitlines(), out.splitlines()[1:], strict=False)
        if head.startswith("arm ")
    )
    assert head.split()[-2:] == ["reward", "copied"]
    assert line.endswith("1 -> 3")
    assert "--world of_mine:good" in out
    watched = table(Path("first"), "watch")
    assert watched["reward"].tolist() == [0.25] * 6
    assert watched["copied"].tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("of_mine", 2, "--world of_mine: expected MODULE:NAME"),
        ("of_yours:good", 2, "ModuleNotFoundError: No module named 'of_yours'"),
        ("of_mine:gone", 2, "of_mine has no gone that can be called"),
        ("of_mine:CALLS", 2, "of_mine has no CALLS that can be called"),
        ("broken:good", 2, "NameError: name 'missing' is not defined"),
        ("of_mine:bad", 1, "raised ZeroDivisionError: division by zero"),
        ("of_mine:words", 1, "gave reward = 'high'; expected a finite number"),
        ("of_mine:nothing", 1, "gave {}; expected numbers by name"),
        ("of_mine:taken", 1, "gave 'loss_true', which names a number of the look itself"),
        ("of_mine:event", 1, "gave 'event', which names a number of the look itself"),
        ("of_mine:leaving", 1, "raised SystemExit: 0"),
        ("gone_at_once:good", 2, "cannot be imported"),
    ],
)
def test_a_measure_that_gives_no_numbers_is_told_of_by_name(
    typed: list[str], capsys: pytest.CaptureFixture[str], name: str, status: int, said: str
) -> None:
    Path("of_mine.py").write_text(MEASURES)
    Path("broken.py").write_text("missing")
    Path("gone_at_once.py").write_text("raise SystemExit(0)")
    assert main([*typed, "--world", name]) == status
    assert said in capsys.readouterr().err
    assert Path("first").exists() == (status == 1)


def test_what_a_measure_prints_stands_beside_the_json_lines(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("of_mine.py").write_text(MEASURES)
    assert main([*typed, "--world", "of_mine:loud", "--json"]) == 0
    out, err = capsys.readouterr()
    assert all(json.loads(line) for line in out.splitlines())
    assert "measuring" in err


def test_rollouts_of_another_model_are_said_to_be_so(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    embedded, files = "SmolLM2-135M-Instruct", (Path("run.jsonl"), Path("more.jsonl"))
    shutil.copytree("tiny", f"models/{embedded}")
    typed[typed.index("tiny")] = f"models/{embedded}"
    agent = f"{embedded}+search-agent"
    by_agent = f"recorded the rollouts, by the trace {agent}; to train that one, choose {agent}"
    for fields, said in (
        ({}, "so another model recorded the rollouts; to train that one, choose it, with"),
        ({"model": agent}, by_agent),
        ({"model": embedded}, "so other weights of it recorded the rollouts"),
    ):
        for path in files:
            edited(path, **fields)
        assert main(typed) == 0
        err = capsys.readouterr().err
        assert f"nats a token from what {embedded} says in the same contexts (floor 0.0000" in err
        assert err.count("recorded log-probabilities are") == 1
        assert said in err
        shutil.rmtree("first")
    for path in files:
        _say_as_recorded(path, load_model(f"models/{embedded}"))
    capsys.readouterr()
    assert main(typed) == 0
    assert "recorded log-probabilities are" not in capsys.readouterr().err


def _say_as_recorded(path: Path, model: Model) -> None:
    """Puts the log-probabilities of the model in the place of those of the log."""
    [one] = load(path).analyses
    scores = one.score(model, "logit_tree").logprob.tolist()
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    for line in lines:
        line["logprobs"] = [scores.pop(0) for _ in line["completion_ids"]]
    path.write_text("\n".join(map(json.dumps, lines)))


def test_rollouts_that_sampled_nothing_are_said_to_be_passed_over(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    line = {"prompt_ids": [1, 2, 3], "completion_ids": []}
    Path("mute.jsonl").write_text(json.dumps(line))
    at = typed.index("run.jsonl")
    assert main([*typed[:at], "mute.jsonl", *typed[at:]]) == 0
    said = "1 of 2 rollouts sampled no token and is passed over: 'rollout'"
    assert said in capsys.readouterr().err


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:90])


def without_arm(path: Path) -> None:
    told = json.loads(path.read_text())
    del told["exact"]
    path.write_text(json.dumps(told))


def other_table(path: Path) -> None:
    pd.DataFrame({"x": [1]}).to_parquet(path)


def broken_recipe(path: Path) -> None:
    told = json.loads(path.read_text())
    told["plan"]["recipe"]["stepz"] = 3
    path.write_text(json.dumps(told))


def emptied(path: Path) -> None:
    path.write_text("{}")


def text(path: Path) -> None:
    path.write_text('{"rightmost": 3, "exact": [')


DAMAGE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "no-plan": ("config.json", emptied, "holds no plan that can be read (KeyError: 'plan')"),
    "recipe": ("config.json", broken_recipe, "unknown field 'stepz' of a recipe"),
    "config-half": ("config.json", truncate, "not the file of a training run"),
    "status-half": ("status.json", text, "not the file of a training run"),
    "status-arm": ("status.json", without_arm, "says nothing of arm 'exact'"),
    "steps-half": ("steps.parquet", truncate, "cannot be read"),
    "steps-gone": ("steps.parquet", Path.unlink, "is missing, so what the run has told would"),
    "watch-other": ("watch.parquet", other_table, "expected columns arm and step, found x"),
}
"""A file of a run, what happens to it, and what is said of it."""


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_folder_is_refused_by_the_name_of_the_file_before_any_work(
    typed: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    name, damage, said = DAMAGE[what]
    with monkeypatch.context() as patched:
        interrupting(patched, 2, within=False)
        assert main(typed) == 130
    damage(Path("first") / name)
    before = {path: path.read_bytes() for path in Path("first").iterdir() if path.is_file()}
    capsys.readouterr()
    assert main(["train", "--resume", "first"]) == 2
    found = capsys.readouterr()
    assert f"first/{name}" in found.err
    assert said in found.err
    assert found.out == ""
    assert {path: path.read_bytes() for path in Path("first").iterdir() if path.is_file()} == before


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_damaged_checkpoint_ends_its_arm_and_says_what_to_do(
    typed: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    content: str,
) -> None:
    with monkeypatch.context() as patched:
        interrupting(patched, 2, within=False)
        assert main(typed) == 130
    checkpoint = Path("first/arms/rightmost")
    (checkpoint / "training.json").write_text(content)
    assert main(["train", "--resume", "first"]) == 1
    said = capsys.readouterr().err
    assert "rightmost: first/arms/rightmost: the checkpoint is damaged" in said
    assert "remove this folder and resume: the arm then begins anew" in said
    assert json.loads(Path("first/status.json").read_text())["exact"]["state"] == "done"
    shutil.rmtree(checkpoint)
    assert main(["train", "--resume", "first"]) == 0
    assert len(losses("first")) == 6


def test_equal_rewards_are_refused_before_a_model_is_loaded(
    typed: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(typed[1])
    lines = [json.loads(text) | {"reward": 0.5} for text in path.read_text().splitlines()]
    path.write_text("\n".join(map(json.dumps, lines)))
    monkeypatch.setattr("mwviz.engine.model.load_model", None)
    assert main([*typed, "--objective", "policy"]) == 2
    assert "all rewards are equal" in capsys.readouterr().err


def test_a_policy_gradient_without_rewards_is_refused_before_anything_is_made(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*typed, "--objective", "policy"]) == 2
    assert "has no reward, which a policy gradient needs" in capsys.readouterr().err
    assert not Path("first").exists()


def test_the_printed_table_keeps_long_numbers_apart(capsys: pytest.CaptureFixture[str]) -> None:
    sides = {"before": 0.00082941, "after": -1.2345e-05}
    row = {f"{name} {side}": value for name in SHOWN for side, value in sides.items()}
    print_table(pd.DataFrame([{"arm": "replay", "steps": 2, **row}]), "held-out rollouts", SHOWN)
    _, head, line = capsys.readouterr().out.strip().splitlines()[-3:]
    assert line.split("  ")[0] == "replay"
    assert line.split() == ["replay", "2", *["0.0008294", "->", "-1.234e-05"] * len(SHOWN)]
    assert len(line) == len(head)
