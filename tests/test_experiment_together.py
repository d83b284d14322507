"""Arms of the experiment that run side by side: they end in time, after the same step."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from examples import reproduce
from examples.experiment import arms, teach, together
from examples.experiment.findings import findings_of
from examples.experiment.held_out import Answer
from examples.experiment.job import PARTS, Job
from examples.experiment.log import Log, Name
from examples.experiment.progress import Progress, where
from examples.experiment.readings import asked_of, reward_of
from examples.experiment.results import read_results
from examples.experiment.scales import SCALES, Scale
from examples.experiment.together import Clock, Kept, Pace, common_step
from examples.search_world import episode
from examples.search_world.chat import Chat
from examples.search_world.sampling import ModelSampler, _Stepper
from mwviz.engine.model import Model
from mwviz.errors import ModelError
from tests.engine.tiny import llama_config, model_of
from tests.test_search_world import CHAT, STOP

ROOT = Path(__file__).parents[1]
PART = "grpo-prune"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Model:
    """A random model in place of every other, and questions that fit it."""
    model = model_of(llama_config(vocab_size=258, max_position_embeddings=8192))
    for module in (arms, teach):
        monkeypatch.setattr(module, "load_model", lambda *_, **__: model)
    monkeypatch.setattr(Chat, "embedded", lambda: CHAT)
    for name, value in (("QUESTIONS", 1), ("SAMPLES", 2), ("HELD", 2), ("TAUGHT", 3)):
        monkeypatch.setattr(arms, name, value)
    monkeypatch.setitem(episode.LIMITS, "act", 3)
    return model


def arm(path: Path, name: str, seed: int, *, trained: int | None, call: str = "now") -> Log:
    """The lines of an arm so far."""
    log = Log(path, Name(PART, name, seed))
    log.write("start", steps=9, call=call)
    if trained is not None:
        log.write("trained", step=trained)
    return log


def beside(others: int) -> Job:
    """Of an arm among so many."""
    return Job(PART, "replay", 0, together=others, call="now")


def test_arms_are_compared_after_the_step_that_all_have_reached(path: Path) -> None:
    log = arm(path, "replay", 0, trained=7)
    arm(path, "replay", 1, trained=5)
    arm(path, "sdcc", 0, trained=0)
    arm(path, "sdcc", 1, trained=None).write("failed", why="no memory")
    arm(path, "control", 0, trained=2, call="another").write("agreed", call="another", step=2)
    assert common_step(log, beside(4), end=math.inf) == 5


def test_an_arm_waits_for_the_others_but_not_for_ever(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = arm(path, "replay", 0, trained=7)
    arm(path, "replay", 1, trained=None)
    assert common_step(log, beside(2), end=0.0) == 7
    log = arm(path, "replay", 0, trained=7, call="later")
    monkeypatch.setattr(
        "examples.experiment.together.time.sleep",
        lambda _: arm(path, "replay", 1, trained=6, call="later"),
    )
    assert common_step(log, replace(beside(2), call="later"), end=math.inf) == 6


def test_an_arm_that_comes_late_is_told_what_the_others_agreed_on(path: Path) -> None:
    log = arm(path, "replay", 0, trained=7)
    late = arm(path, "replay", 1, trained=None)
    assert common_step(log, beside(2), end=0.0) == 7
    late.write("trained", step=4)
    assert common_step(late, beside(2), end=math.inf) == 7


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("common", "kept", "why"),
    [
        (9, 64, "the arms are compared after step 9, it has step 2 at best"),
        (1, 1, "the arms are compared after step 1, it has step 2 at best"),
    ],
    ids=["late", "too far ahead"],
)
def test_an_arm_that_cannot_be_compared_fails_instead_of_answering(
    path: Path, monkeypatch: pytest.MonkeyPatch, common: int, kept: int, why: str
) -> None:
    monkeypatch.setattr(together, "KEPT", kept)
    arm(path, "sdcc", 1, trained=common).write("agreed", call="now", step=common)
    job = Job(PART, "control", 0, steps=2, held_out=1, together=2, call="now")
    with pytest.raises(SystemExit, match=why):
        arms.run(job, Log(path, job.name))
    run = next(one for one in read_results(path) if one.arm == "control")
    assert (run.ended, run.steps, run.of("reward")) == (False, 2, [])


def test_an_arm_that_cannot_load_is_not_waited_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    for name in ("load_model", "Chat.embedded"):
        monkeypatch.setattr(f"examples.experiment.arms.{name}", full)
    words = ["arms", PART, "control", "0", str(path), "--together", "2", "--call", "now"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(torch.OutOfMemoryError):
        arms.main()
    (run,) = read_results(path)
    assert [line["why"] for line in run.of("failed")] == ["OutOfMemoryError: CUDA out of memory."]
    monkeypatch.setattr("examples.experiment.together.time.sleep", lambda _: pytest.fail("waits"))
    log = arm(path, "replay", 0, trained=3)
    assert common_step(log, beside(2), end=math.inf) == 3


def test_a_clock_leaves_room_for_a_step_like_the_last_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("examples.experiment.together.time.time", lambda: now[0])
    clock = Clock(195.0)
    told = []
    for seconds in (0, 40, 10, 10, 10, 10, 10, 10):
        now[0] += seconds
        told.append(clock.allows())
    # The first step's 40 s count for three steps; then one of 10 s begins up to 185.
    assert told == [True, True, True, False, True, True, False, False]


def test_a_pause_is_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("examples.experiment.together.time.time", lambda: now[0])
    clock = Clock(195.0)
    now[0] += 60
    clock.pause()
    now[0] += 10
    assert clock.allows()


def test_an_arm_waits_for_the_slowest_that_it_is_compared_with(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = arm(path, "replay", 0, trained=None)
    slow = arm(path, "sdcc", 0, trained=None)
    arm(path, "sdcc", 1, trained=None).write("failed", why="no memory")
    steps = iter(range(100))
    monkeypatch.setattr(
        "examples.experiment.together.time.sleep",
        lambda _: slow.write("step", step=next(steps), seconds=1.0),
    )
    ahead = together.LEAD + 2
    for step in range(ahead):
        log.write("step", step=step, seconds=1.0)
    assert not Pace(log, beside(1), end=math.inf).waits(ahead)
    assert not Pace(log, beside(3), end=0.0).waits(ahead)
    assert not Pace(log, beside(3), end=math.inf).waits(together.LEAD - 1)
    assert Pace(log, beside(3), end=math.inf).waits(ahead)
    assert next(steps) == 3, "until the slowest had taken three"
    assert not Pace(log, beside(3), end=math.inf).waits(ahead)


def test_an_arm_waits_for_those_that_have_not_begun(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = arm(path, "replay", 0, trained=None)
    arm(path, "sdcc", 0, trained=60)

    def begin(_: float) -> None:
        late = arm(path, "sdcc", 1, trained=None)
        for step in range(together.LEAD):
            late.write("step", step=step, seconds=1.0)

    monkeypatch.setattr("examples.experiment.together.time.sleep", begin)
    for one in ("replay", "sdcc"):
        begun = Log(path, Name(PART, one, 0))
        for step in range(60):
            begun.write("step", step=step, seconds=1.0)
    assert Pace(log, beside(3), end=math.inf).waits(together.LEAD)


def test_arms_stay_so_near_that_each_can_go_back_to_the_slowest() -> None:
    assert together.LEAD + together.EVERY < together.KEPT


def test_weights_go_back_to_a_step_in_place() -> None:
    part = torch.zeros(3)
    kept = Kept([part])
    for step in range(1, 5):
        part.fill_(step)
        kept.add()
    address = part.data_ptr()
    kept.go_back(2)
    assert (kept.step, part.tolist(), part.data_ptr()) == (2, [2.0] * 3, address)


def test_weights_go_back_no_further_than_they_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "KEPT", 2)
    part = torch.zeros(1)
    kept = Kept([part])
    for step in range(1, 5):
        part.fill_(step)
        kept.add()
    kept.go_back(1)
    assert (kept.step, part.item()) == (3, 3.0)


@pytest.mark.usefixtures("tiny")
def test_an_arm_answers_with_the_weights_of_the_common_step(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm(path, "sdcc", 1, trained=1)
    seen: list[torch.Tensor] = []

    def answered(sampler: Any, *_: Any) -> list[Answer]:
        parts = [part for part in sampler._model.module.parameters() if part.requires_grad]
        seen.append(torch.cat([part.detach().flatten() for part in parts]))
        return [Answer("", "prune", 0, reward=1.0, calls=1)]

    monkeypatch.setattr(arms, "answer", answered)
    monkeypatch.setattr(arms, "advantages_of", lambda rewards: [1.0] * len(rewards))
    for steps, many in ((0, 1), (1, 1), (3, 1), (3, 2)):
        job = Job(PART, "replay", 0, steps=steps or 1, held_out=1, together=many, call="now")
        job = replace(job, rate=1e-2 if steps else 1e-9)
        arms.run(job, Log(path, job.name))
    start, after_one, after_three, gone_back = seen
    assert not torch.allclose(start, after_one, atol=1e-4)
    assert not torch.allclose(after_one, after_three, atol=1e-4)
    assert torch.equal(gone_back, after_one)


@pytest.mark.usefixtures("tiny")
def test_arms_stop_after_the_same_step_and_write_what_they_answer_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arms, "AT_ONCE", 2)
    arm(path, "sdcc", 1, trained=1)
    job = Job(PART, "replay", 0, steps=2, held_out=3, together=2, call="now")
    arms.run(job, Log(path, job.name))
    run = next(one for one in read_results(path) if one.arm == "replay")
    assert (run.ended, run.steps, run.of("trained")[0]["step"]) == (True, 2, 2)
    assert [(line["step"], line["questions"]) for line in run.of("reward")] == [(1, 2), (1, 1)]
    assert (run.of("end")[0]["step"], asked_of(run)) == (1, 3)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("allowed", [0, 1], ids=["to train", "to answer"])
@pytest.mark.parametrize("part", ["sft", PART])
def test_an_arm_without_time_fails_so_that_it_is_run_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, allowed: int, part: str
) -> None:
    looks = iter([True, False, False] if allowed else [False, True, True, True])
    monkeypatch.setattr(Clock, "allows", lambda _: next(looks))
    words = ["arms", part, "control", "0", str(path), "--steps", "1", "--held-out", "1"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit, match="out of time"):
        arms.main()
    (run,) = read_results(path)
    assert (run.ended, run.steps, run.of("reward")) == (False, allowed, [])
    assert [line["why"] for line in run.of("failed")] == ["out of time"]


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(("looks", "ended"), [((1, 1, 0), False), ((1, 1, 1, 0), True)])
def test_an_arm_has_answered_once_it_has_in_each_of_its_harnesses(
    path: Path, monkeypatch: pytest.MonkeyPatch, looks: tuple[int, ...], ended: bool
) -> None:
    given = map(bool, looks)
    monkeypatch.setattr(Clock, "allows", lambda _: next(given))
    monkeypatch.setattr(arms, "AT_ONCE", 1)
    job = Job("sft", "replay", 0, steps=1, held_out=2, batch_tokens=2000)
    try:
        arms.run(job, Log(path, job.name))
    except SystemExit:
        assert not ended
    (run,) = read_results(path)
    assert (run.ended, len(run.of("reward"))) == (ended, 1 + ended)


@pytest.mark.parametrize("what", ["no such model", "stopped"])
def test_an_arm_that_breaks_off_says_why(
    path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def run(*_: object) -> None:
        arm(path, "control", 0, trained=None)
        if what == "stopped":
            signal.raise_signal(signal.SIGTERM)
        raise ModelError("no such model\nor so")

    monkeypatch.setattr(arms, "run", run)
    monkeypatch.setattr(sys, "argv", ["arms", PART, "control", "0", str(path)])
    with pytest.raises((ModelError, SystemExit)):
        arms.main()
    (found,) = read_results(path)
    expected = {"stopped": "stopped before its end", "no such model": "ModelError: no such model"}
    assert [line["why"] for line in found.of("failed")] == [expected[what]]


def test_rewards_weigh_by_questions(path: Path) -> None:
    log = arm(path, "replay", 0, trained=1)
    for reward, questions in ((1.0, 3), (0.0, 1)):
        log.write("reward", step=1, harness="prune", reward=reward, questions=questions)
    (run,) = read_results(path)
    assert reward_of(run) == 0.75
    assert asked_of(run) == 4
    assert where(run) == "replay 0: 4 questions answered, after step 1"


def test_rewards_are_compared_after_the_step_of_the_answers(path: Path) -> None:
    """Arms that took more steps went back, so their own number of steps says nothing."""
    for seed in range(2):
        for number, name in enumerate(("packed_mask", "rightmost", "replay")):
            log = arm(path, name, seed, trained=3 + number)
            for at in range(3 + number):
                log.write("step", step=at, gap=1e-7)
            reward = 0.9 if name == "packed_mask" else 0.1 + seed / 100
            log.write("reward", step=3, harness="prune", reward=reward, questions=256)
            log.write("end", step=3)
    claims = {one.claim: one for one in findings_of(read_results(path))}
    found = claims[f"{PART}: exact training earns more reward on held-out questions than `replay`"]
    assert "after 3 steps" in found.why
    assert found.verdict == "reproduced"
    missing = claims[f"{PART}: `sdcc` earns more reward on held-out questions than `rightmost`"]
    assert missing.why.startswith("none ended against 0.1")
    assert missing.verdict == "undecided"


def test_progress_is_told_every_now_and_then(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = arm(path, "sdcc", 0, trained=None)
    log.write("step", step=0, seconds=9.4, reward=np.float64(0.5))
    arm(path, "replay", 0, trained=None)
    told = Progress(path)
    running = {Name(PART, "sdcc", 0)}
    told.tell(running)
    assert capsys.readouterr().out == ""
    monkeypatch.setattr("examples.experiment.progress.SECONDS", -1.0)
    told.tell(running)
    assert capsys.readouterr().out == "0 s: sdcc 0: step 1, 9 s, reward 0.50\n"


def test_no_arm_starts_when_little_time_is_left(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reproduce, "_start", lambda *_: pytest.fail("an arm was started"))
    left = list(reproduce.arms_of("sft", 1))
    options = Namespace(results=path, workers=6, gpus=1)
    times = (time.time() + 1000, 2000.0)
    assert reproduce._all(left, {"sft": SCALES["sft"]}, options, times) == len(PARTS["sft"])
    assert "out of time: 6 arms did not start" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "stop", "late"),
    [
        ("--minutes 0", 5000.0, 0.0),
        ("--minutes 1", 5060.0, 15.0),
        ("--minutes 9", 5540.0, 60.0),
        ("", 5000.0 + 600 * 60, 60.0),
    ],
)
def test_the_minutes_say_when_all_ends_and_when_nothing_starts_any_more(
    path: Path, monkeypatch: pytest.MonkeyPatch, words: str, stop: float, late: float
) -> None:
    given: list[tuple[float, float]] = []
    monkeypatch.setattr(reproduce, "_all", lambda *told: given.append(told[-1]))
    monkeypatch.setattr("examples.reproduce.time.time", lambda: 5000.0)
    reproduce.main(["run", str(path), "--parts", "sft", *words.split()])
    assert given == [(stop, late)]


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ([], ["exit -9"]),
        (["start"], ["exit -9"]),
        (["start", "failed"], ["its own"]),
        (["start", "trained", "end"], []),
    ],
)
def test_an_arm_that_dies_without_a_word_is_noted_as_failed(
    path: Path, monkeypatch: pytest.MonkeyPatch, own: list[str], expected: list[str]
) -> None:
    """So that the others do not wait for it: what it wrote in an earlier call says nothing."""
    Log(path, Name("sft", "control", 0)).write("start", call="earlier")
    dies = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"

    def start(name: Name, *given: Any) -> subprocess.Popen[bytes]:
        for kind in own:
            Log(path, name).write(kind, call=given[-1]["call"], why="its own", step=1)
        return subprocess.Popen([sys.executable, "-c", dies])

    monkeypatch.setattr(reproduce, "_start", start)
    options = Namespace(results=path, workers=1, gpus=1, device="cpu")
    left = [Name("sft", "control", 0)]
    times = (time.time() + 1000, 0.0)
    assert reproduce._all(left, {"sft": SCALES["sft"]}, options, times) == 1
    (run,) = read_results(path)
    assert [line["why"] for line in run.of("failed")] == expected
    assert run.start["call"] != "earlier"
    assert {"steps", "rate", "machine"} <= set(run.start) or own
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sum(line["kind"] == "start" for line in lines) == 2


@pytest.mark.parametrize("stubborn", [False, True])
def test_no_arm_outlives_what_started_it(
    path: Path, monkeypatch: pytest.MonkeyPatch, stubborn: bool
) -> None:
    begun: list[subprocess.Popen[bytes]] = []
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN);" if stubborn else ""
    code = f"import signal, time; {deaf} print('ready', flush=True); time.sleep(600)"

    def start(*_: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        begun.append(process)
        return process

    monkeypatch.setattr(reproduce, "_start", start)
    monkeypatch.setattr(reproduce, "STUBBORN", 0.2 if stubborn else 60.0)
    monkeypatch.setattr(Progress, "tell", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    words = ["run", str(path), "--parts", "sft", "--seeds", "1", "--workers", "2"]

    def untold(*_: object) -> None:
        raise RuntimeError("SIGTERM did not end the run")

    before = signal.signal(signal.SIGTERM, untold)
    try:
        with pytest.raises(SystemExit, match="stopped before its end"):
            reproduce.main(words)
        assert signal.getsignal(signal.SIGTERM) is untold
        expected = -signal.SIGKILL if stubborn else -signal.SIGTERM
        assert [process.poll() for process in begun] == [expected] * 2
    finally:
        signal.signal(signal.SIGTERM, before)
        for process in begun:
            process.kill()
            process.communicate()
    told = [line["why"] for run in read_results(path) for line in run.of("failed")]
    assert told == ["stopped before its end"] * 2


@pytest.mark.parametrize(
    ("code", "minutes", "told"),
    [
        ("import sys; sys.exit(3)", "9", r"the warm-up broke off \(exit 3\)"),
        ("import time; time.sleep(600)", "0.005", r"the warm-up did not end in the 0.0 minutes"),
    ],
)
def test_a_warm_up_that_does_not_come_to_its_end_says_so(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: str, minutes: str, told: str
) -> None:
    whole = subprocess.run
    monkeypatch.setattr(
        "examples.reproduce.subprocess.run",
        lambda _, **given: whole([sys.executable, "-c", code], **given),
    )
    monkeypatch.setattr(reproduce, "_start", lambda *_: pytest.fail("an arm was started"))
    with pytest.raises(SystemExit, match=told):
        reproduce.main(["run", str(path), "--parts", PART, "--minutes", minutes])


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_named_adapter_that_is_missing_is_not_trained_into(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    for name in ("_warm_up", "_start"):
        monkeypatch.setattr(reproduce, name, lambda *_: pytest.fail("something was started"))
    folder = path.parent / "mine"
    with pytest.raises(SystemExit) as error:
        reproduce.main([command, str(path), "--parts", PART, "--warm", str(folder)])
    assert error.value.code == 2
    told = capsys.readouterr().err
    assert f"--warm {folder}: no adapter there (a folder with adapter_config.json" in told
    assert not folder.exists()


@pytest.mark.parametrize(("workers", "expected"), [(5, 5), (2, 1)])
def test_arms_wait_for_each_other_only_if_all_run_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, expected: int
) -> None:
    shared: list[dict[str, Any]] = []

    def start(*given: Any) -> subprocess.Popen[bytes]:
        shared.append(dict(given[-1]))
        return subprocess.Popen([sys.executable, "-c", ""])

    monkeypatch.setattr(reproduce, "_start", start)
    monkeypatch.setattr(reproduce, "_warm_up", lambda *_: None)
    words = ["run", str(path), "--parts", PART, "--seeds", "1", "--workers", str(workers)]
    assert reproduce.main(words) == 0
    assert [one["together"] for one in shared] == [expected] * 5
    assert len({(one["call"], one["until"]) for one in shared}) == 1


def ended(path: Path, seeds: int, *, warm: object = None) -> None:
    """All arms of the first seeds have answered after step 7 of 9."""
    for name in reproduce.arms_of(PART, seeds):
        log = Log(path, name)
        log.write("start", steps=9, warm=warm, call="earlier")
        log.write("reward", step=7, harness="prune", reward=0.5, questions=4)
        log.write("end", step=7)


def adapter(path: Path, text: str = "weights") -> Path:
    """The folder of one."""
    folder = path.parent / "warm"
    folder.mkdir()
    (folder / teach.CONFIG).write_text("{}")
    (folder / teach.WEIGHTS).write_text(text)
    return folder


def test_more_seeds_stop_where_the_earlier_ones_did(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun: list[tuple[Name, Scale]] = []

    def start(name: Name, scale: Scale, *_: object) -> subprocess.Popen[bytes]:
        begun.append((name, scale))
        return subprocess.Popen([sys.executable, "-c", ""])

    ended(path, 2, warm=teach.digest_of(adapter(path)))
    monkeypatch.setattr(reproduce, "_start", start)
    assert reproduce.main(["run", str(path), "--parts", PART, "--seeds", "4"]) == 0
    assert [(name.seed, scale.steps, scale.last) for name, scale in begun] == [
        (seed, 9, 7) for seed in (2, 3) for _ in PARTS[PART]
    ]
    assert "10 of 20 arms" in (told := capsys.readouterr().out)
    assert "4 seeds) of 9 steps, as far as step 7" in told


def test_an_arm_is_told_where_to_stop(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(
        "examples.reproduce.subprocess.Popen", lambda told, **_: commands.append(told)
    )
    options = Namespace(
        results=path, device="cpu", held_out=1, model="m", workers=1, gpus=1, parts=[PART],
        seeds=1, steps=None, warm=None,
    )  # fmt: skip
    for scale in (SCALES[PART], SCALES[PART]._replace(last=7)):
        reproduce._start(Name(PART, "sdcc", 0), scale, options, 0, {})
    assert "--last" not in commands[0]
    assert commands[1][commands[1].index("--last") + 1] == "7"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--steps", "7"], "10 arms of grpo-prune have ended after step 7 of 9, and others"),
        ([], "10 arms of grpo-prune have started from the adapter another"),
    ],
)
def test_arms_that_would_not_compare_with_the_earlier_ones_are_not_started(
    path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], why: str
) -> None:
    adapter(path)
    ended(path, 2, warm="another")
    monkeypatch.setattr(reproduce, "_start", lambda *_: pytest.fail("an arm was started"))
    with pytest.raises(SystemExit, match=why):
        reproduce.main(["run", str(path), "--parts", PART, "--seeds", "4", *words])


@pytest.mark.parametrize(
    ("warm", "named"), [("abc123", "the adapter abc123"), (True, "an adapter")]
)
@pytest.mark.parametrize("command", ["plan", "run"])
def test_no_other_adapter_is_made_for_arms_that_compare_with_earlier_ones(
    path: Path, monkeypatch: pytest.MonkeyPatch, command: str, warm: object, named: str
) -> None:
    ended(path, 2, warm=warm)
    for name in ("_warm_up", "_start"):
        monkeypatch.setattr(reproduce, name, lambda *_: pytest.fail("something was started"))
    why = f"10 arms of {PART} have started from {named}, and none is in {path.parent / 'warm'};"
    with pytest.raises(SystemExit, match=why):
        reproduce.main([command, str(path), "--parts", PART, "--seeds", "4"])


def test_a_part_whose_arms_have_all_ended_needs_no_adapter(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended(path, 2, warm="abc123")
    assert reproduce.main(["plan", str(path), "--parts", PART, "--seeds", "2"]) == 0
    told = capsys.readouterr().out
    assert f"{PART}: all 10 arms of 2 seeds have ended" in told
    assert "nothing is left to run; --seeds with a larger number adds arms" in told
    assert "memory" not in told


def test_a_plan_says_where_it_cannot_check_the_adapter(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = adapter(path)
    words = ["plan", str(path), "--parts", PART, "--seeds", "4"]
    ended(path, 2, warm=True)
    reproduce.main(words)
    why = (
        f"10 ended arms do not say which adapter they started from; whether it is that of {folder}"
    )
    assert why in capsys.readouterr().out
    ended(path, 2, warm=teach.digest_of(folder))
    reproduce.main(words)
    assert "which adapter" not in capsys.readouterr().out


def test_arms_that_ended_after_different_steps_let_no_other_join_them(path: Path) -> None:
    ended(path, 1)
    log = Log(path, Name(PART, "sdcc", 0))
    log.write("start", steps=9, call="later")
    log.write("reward", step=5, harness="prune", reward=0.5, questions=4)
    log.write("end", step=5)
    with pytest.raises(SystemExit, match="5 arms of grpo-prune have ended after steps 5, 7 of 9,"):
        reproduce.main(["plan", str(path), "--parts", PART, "--seeds", "2"])


@pytest.mark.usefixtures("tiny")
def test_an_arm_stops_where_the_earlier_ones_did_and_says_what_it_started_from(
    path: Path,
) -> None:
    job = Job(PART, "replay", 0, steps=9, last=1, held_out=1, warm=str(adapter(path)))
    arms.run(job, Log(path, job.name))
    (run,) = read_results(path)
    assert (run.ended, run.steps, run.start["steps"]) == (True, 1, 9)
    assert run.start["warm"] == teach.digest_of(path.parent / "warm")


@pytest.mark.usefixtures("tiny")
def test_a_warm_up_stops_when_the_agent_is_right_often_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shares = iter([0.2, 0.5])
    monkeypatch.setattr(teach, "LOOK", 1)
    monkeypatch.setattr(teach, "rewards", lambda *_, **__: {"prune": next(shares)})
    words = [str(tmp_path / "warm"), "--steps", "9", "--right", "0.4", "--held-out", "0"]
    teach.main([*words, "--rollouts", "4", "--batch-tokens", "100", "--rank", "2"])
    told = capsys.readouterr().out
    assert told.count("nll") == 2
    assert (tmp_path / "warm" / teach.CONFIG).is_file()


@pytest.mark.usefixtures("tiny")
def test_only_the_steps_that_were_saved_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teach, "LOOK", 2)
    monkeypatch.setattr(teach, "rewards", lambda *_, **__: {"prune": 1.0})
    words = [str(tmp_path), "--steps", "9", "--right", "0.4", "--held-out", "1"]
    words += ["--rollouts", "4", "--batch-tokens", "100", "--rank", "2"]
    teach.main([*words, "--keep", "1", "5"])
    asked = sorted(str(one.relative_to(tmp_path)) for one in tmp_path.rglob("rewards.json"))
    assert asked == ["rewards.json", "step1/rewards.json"]


def test_a_replayed_step_samples_as_one_that_is_run(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a captured graph does, on a device without: the same step in the same places again."""

    def capture(self: _Stepper) -> Any:
        self._hidden = self._one().clone()

        def replay() -> None:
            assert self._hidden is not None
            self._hidden.copy_(self._one())

        return replay

    monkeypatch.setattr(_Stepper, "_capture", capture)
    prompts = [np.arange(2, 2 + size, dtype=np.int32) for size in (40, 20, 25)]
    plain = ModelSampler(tiny, stop=STOP, graphs=False)
    replayed = ModelSampler(tiny, stop=STOP, graphs=True)
    for some in (prompts[:1], prompts, prompts[1:], prompts):
        one = plain.complete(some, [12] * len(some))
        two = replayed.complete(some, [12] * len(some))
        assert [a.ids.tolist() for a in one] == [b.ids.tolist() for b in two]


def test_running_the_experiment_needs_nothing_that_draws() -> None:
    """A card's machine has neither Plotly nor a browser."""
    code = (
        "import sys; sys.modules |= dict.fromkeys(('plotly', 'playwright', 'streamlit'));"
        "import examples.experiment.arms; from examples import reproduce;"
        "sys.exit(reproduce.main(['plan', '--parts', 'sft']))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.PIPE)
