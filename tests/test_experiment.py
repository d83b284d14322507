"""The experiment's own step against the library's, its arms at a tiny size, and its report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from examples import reproduce
from examples.experiment import arms
from examples.experiment.arms import Job, Log
from examples.experiment.batched import Batch, read, step
from examples.experiment.report import _findings
from examples.experiment.results import read_results
from examples.experiment.teach import rollouts
from examples.search_world.chat import Chat
from examples.search_world.episode import Episode
from examples.search_world.harnesses import harness_named
from examples.search_world.sampling import ModelSampler
from examples.search_world.world import make_task
from mwviz.analysis import Analysis
from mwviz.engine.model import Model
from mwviz.training.learner import learner
from mwviz.training.loop import update
from mwviz.training.recipe import Recipe
from tests.engine.tiny import llama_config, model_of
from tests.test_search_world import CHAT, STOP

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tiny() -> Model:
    return model_of(llama_config(vocab_size=258, max_position_embeddings=8192))


@pytest.fixture(scope="module")
def batch(tiny: Model) -> Batch:
    made = [
        Episode(make_task(seed, hops=2), harness_named(name), CHAT, name=f"{name}{seed}")
        for seed, name in enumerate(("prune", "window"))
    ]
    played = rollouts(made, ModelSampler(tiny, stop=STOP))
    return Batch.of([Analysis(rollout) for rollout in played])


@pytest.mark.parametrize("gains", [None, [1.0, -0.5]], ids=["nll", "policy"])
@pytest.mark.parametrize("method", ["rightmost", "replay", "packed_mask", "sdcc", "sdcc_replay"])
def test_a_batched_step_is_the_librarys(
    tiny: Model, batch: Batch, method: str, gains: list[float] | None
) -> None:
    recipe = Recipe(
        learning_rate=1e-2,
        lora_rank=4,
        steps=10,
        rise=0.0,
        strength=1.0,
        objective="nll" if gains is None else "policy",
    )
    ours, theirs = learner(tiny, recipe), learner(tiny, recipe)
    for number in range(2):
        mine = step(ours, batch, method=method, number=number, advantages=gains)
        told = update(theirs, batch.analyses, method=method, step=number, advantages=gains)
        assert mine.targets == told.targets
        assert mine.nll == pytest.approx(told.nll, abs=1e-5)
        assert mine.grad_norm == pytest.approx(told.grad_norm, rel=1e-4)
        assert float(np.nanmean(np.abs(mine.gap))) == pytest.approx(told.gap, abs=1e-5)
        assert mine.kl == pytest.approx(told.kl or 0.0, abs=1e-5)
        assert mine.clipped == pytest.approx(told.clipped or 0.0, abs=1e-6)


def test_a_reading_is_the_facades_drift_and_keeps_the_bound(tiny: Model, batch: Batch) -> None:
    found = read(tiny, batch, "rightmost")
    drift = np.concatenate(
        [
            one.score(tiny, "rightmost").logprob - one.score(tiny, "logit_tree").logprob
            for one in batch.analyses
        ]
    )
    np.testing.assert_allclose(found.drift, drift, atol=1e-4)
    assert np.nanmax(found.kl) > 0.1
    assert np.nanmax(found.tv - np.sqrt(found.kl / 2)) < 1e-5
    assert np.nanmax(np.abs(read(tiny, batch, "logit_tree").drift)) < 1e-4


@pytest.mark.parametrize(
    ("part", "arm"), [("grpo-prune", "sdcc"), ("grpo-prune", "control"), ("sft", "replay")]
)
def test_an_arm_runs_from_start_to_end(
    tiny: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, arm: str
) -> None:
    monkeypatch.setattr(arms, "load_model", lambda **_: tiny)
    monkeypatch.setattr(Chat, "embedded", lambda: CHAT)
    for name, value in (("QUESTIONS", 1), ("SAMPLES", 2), ("HELD", 2), ("TAUGHT", 3)):
        monkeypatch.setattr(arms, name, value)
    job = Job(part, arm, 0, steps=2, held_out=1, batch_tokens=2000)
    path = tmp_path / "results.jsonl"
    arms.run(job, Log(path, job))
    (run,) = read_results(path)
    assert run.ended
    assert run.steps == 2
    assert run.of("reward")[-1]["questions"] == 1
    if part != "sft":
        gaps = [line["gap"] for line in run.of("step")]
        assert (max(gaps) < 1e-4) == (arm == "control")


def test_only_the_last_attempt_counts_and_a_broken_line_is_left_out(tmp_path: Path) -> None:
    head = {"part": "sft", "arm": "replay", "seed": 0}
    lines = [
        {**head, "kind": "start", "steps": 9},
        {**head, "kind": "step", "step": 0, "nll": 5.0},
        {**head, "kind": "end", "step": 1},
        {**head, "kind": "start", "steps": 9},
        {**head, "kind": "step", "step": 0, "nll": 4.0},
    ]
    path = tmp_path / "results.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + '\n{"part": "sft", "ar')
    (run,) = read_results(path)
    assert not run.ended
    assert [line["nll"] for line in run.of("step")] == [4.0]


def test_the_committed_report_is_that_of_the_committed_results() -> None:
    runs = read_results(ROOT / "bench" / "results" / "experiment.jsonl")
    page = (ROOT / "docs" / "experiment.md").read_text()
    findings = list(_findings(runs))
    assert findings
    for found in findings:
        assert f"| {found.claim} | **{found.verdict}** | {found.why} |" in page


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[reproduce.Arm]:
    """The arms that would have been started; each is a process that does nothing."""
    found: list[reproduce.Arm] = []

    def start(arm: reproduce.Arm, *_: object) -> subprocess.Popen[bytes]:
        found.append(arm)
        return subprocess.Popen([sys.executable, "-c", ""])

    monkeypatch.setattr(reproduce, "_start", start)
    return found


def test_a_part_goes_on_with_the_arms_that_have_not_ended(
    tmp_path: Path, started: list[reproduce.Arm]
) -> None:
    head = {"part": "sft", "arm": "replay", "seed": 0}
    lines = [{**head, "kind": "start"}, {**head, "kind": "end"}]
    path = tmp_path / "results.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    assert reproduce.main(["run", str(path), "--parts", "sft", "--seeds", "1"]) == 0
    assert [arm.arm for arm in started] == [a for a in arms.PARTS["sft"] if a != "replay"]


def test_grpo_arms_start_from_a_warm_up_that_is_made_once(
    tmp_path: Path, started: list[reproduce.Arm], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[list[str]] = []

    def taught(command: list[str], **_: object) -> None:
        made.append(command)
        (tmp_path / "warm").mkdir()
        (tmp_path / "warm" / "rewards.json").write_text("{}")

    monkeypatch.setattr("examples.reproduce.subprocess.run", taught)
    words = ["run", str(tmp_path / "results.jsonl"), "--parts", "grpo-prune", "--seeds", "1"]
    for _ in range(2):
        assert reproduce.main(words) == 0
    assert [command[2] for command in made] == ["examples.experiment.teach"]
    assert len(started) == 2 * len(arms.PARTS["grpo-prune"])


def test_the_plan_says_what_would_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce.main(["plan", "--parts", "sft", "--device", "cuda", "--gpus", "2"]) == 0
    told = capsys.readouterr().out
    assert "sft: 18 arms" in told
    assert "3 seeds) of 300 steps, 256 held-out questions: about" in told
