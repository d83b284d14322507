"""Arms of the experiment that run side by side: they end in time, after the same step."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
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
from examples.experiment.together import Clock, Kept, common_step
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


def test_arms_are_compared_after_the_step_that_all_have_reached(path: Path) -> None:
    arm(path, "replay", 0, trained=7)
    arm(path, "replay", 1, trained=5)
    arm(path, "sdcc", 0, trained=0)
    arm(path, "sdcc", 1, trained=None).write("failed", why="no memory")
    arm(path, "control", 0, trained=2, call="another")
    assert common_step(path, PART, "now", arms=4, end=math.inf) == 5


def test_an_arm_waits_for_the_others_but_not_for_ever(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm(path, "replay", 0, trained=7)
    arm(path, "replay", 1, trained=None)
    assert common_step(path, PART, "now", arms=2, end=0.0) == 7
    monkeypatch.setattr(
        "examples.experiment.together.time.sleep", lambda _: arm(path, "replay", 1, trained=6)
    )
    assert common_step(path, PART, "now", arms=2, end=math.inf) == 6


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
    monkeypatch.setattr(arms, "_advantages", lambda rewards: [1.0] * len(rewards))
    for steps, beside in ((0, 1), (1, 1), (3, 1), (3, 2)):
        job = Job(PART, "replay", 0, steps=steps or 1, held_out=1, together=beside, call="now")
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
def test_an_arm_without_time_left_ends_with_what_it_has(path: Path) -> None:
    job = Job(PART, "control", 0, steps=2, held_out=3, until=0.0)
    arms.run(job, Log(path, job.name))
    (run,) = read_results(path)
    assert (run.ended, run.steps, run.of("reward")) == (True, 0, [])


@pytest.mark.parametrize("what", ["no such model", "stopped"])
def test_an_arm_that_breaks_off_says_why(
    path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def run(*_: object) -> None:
        arm(path, "control", 0, trained=None)
        if what == "stopped":
            signal.raise_signal(signal.SIGTERM)
        raise ModelError("no such model\nor so")

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(arms, "run", run)
    monkeypatch.setattr(sys, "argv", ["arms", PART, "control", "0", str(path)])
    try:
        with pytest.raises((ModelError, SystemExit)):
            arms.main()
    finally:
        signal.signal(signal.SIGTERM, before)
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
    found = next(one for one in findings_of(read_results(path)) if "more reward" in one.claim)
    assert "after 3 steps" in found.why
    assert found.verdict == "reproduced"


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
    monkeypatch.setattr(reproduce, "LATE", 1e6)
    monkeypatch.setattr(reproduce, "_start", lambda *_: pytest.fail("an arm was started"))
    words = ["run", str(path), "--parts", "sft", "--seeds", "1", "--minutes", "0"]
    monkeypatch.setattr(reproduce, "FOREVER", 0.0)
    assert reproduce.main(words) == len(PARTS["sft"])
    assert "out of time: 6 arms did not start" in capsys.readouterr().out


@pytest.mark.parametrize(("workers", "expected"), [(5, 5), (2, 1)])
def test_arms_wait_for_each_other_only_if_all_run_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, expected: int
) -> None:
    shared: list[dict[str, Any]] = []

    def start(*given: Any) -> subprocess.Popen[bytes]:
        shared.append(dict(given[-1]))
        return subprocess.Popen([sys.executable, "-c", ""])

    monkeypatch.setattr(reproduce, "_start", start)
    monkeypatch.setattr(reproduce, "_warm_up", lambda _: None)
    words = ["run", str(path), "--parts", PART, "--seeds", "1", "--workers", str(workers)]
    assert reproduce.main(words) == 0
    assert [one["together"] for one in shared] == [expected] * 5
    assert len({(one["call"], one["until"]) for one in shared}) == 1


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
