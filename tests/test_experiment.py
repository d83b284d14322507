"""The experiment's own step against the library's, its arms at a tiny size, and its report."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from examples import reproduce
from examples.experiment import arms, batched, budget, diagnosed, diagnosis, held_out
from examples.experiment.batch import Batch
from examples.experiment.batched import read, step, tokens_at_once
from examples.experiment.diagnosed import unrecorded, whose
from examples.experiment.findings import findings_of
from examples.experiment.job import PARTS, Job
from examples.experiment.log import Log, Name
from examples.experiment.results import Run, read_best, read_results
from examples.experiment.scales import SCALES
from examples.experiment.teach import CONFIG, WEIGHTS, digest_of, rollouts
from examples.experiment.why import explained, lost_at, surprise
from examples.search_world import episode, sampling
from examples.search_world.chat import Chat
from examples.search_world.episode import Episode
from examples.search_world.expert import Expert
from examples.search_world.harnesses import harness_named
from examples.search_world.room import Room
from examples.search_world.sampling import ModelSampler
from examples.search_world.world import HELD_OUT, make_task
from mwviz.analysis import Analysis
from mwviz.engine.layout import Layout
from mwviz.engine.model import Model
from mwviz.errors import ModelError
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
    monkeypatch.setattr(arms, "load_model", lambda *_, **__: tiny)
    monkeypatch.setattr(Chat, "embedded", lambda: CHAT)
    for name, value in (("QUESTIONS", 1), ("SAMPLES", 2), ("HELD", 2), ("TAUGHT", 3)):
        monkeypatch.setattr(arms, name, value)
    job = Job(part, arm, 0, steps=2, held_out=1, batch_tokens=2000)
    path = tmp_path / "results.jsonl"
    arms.run(job, Log(path, job.name))
    (run,) = read_results(path)
    assert run.ended
    assert run.steps == 2
    assert run.of("reward")[-1]["questions"] == 1
    if part != "sft":
        gaps = [line["gap"] for line in run.of("step")]
        assert (max(gaps) < 1e-4) == (arm == "control")
        assert all(line["calls"] >= 1 and 0 <= line["answered"] <= 1 for line in run.of("step"))


def test_a_rollout_that_came_to_an_answer_is_told_from_one_that_did_not() -> None:
    asked = [Episode(make_task(0, hops=2), harness_named("prune"), CHAT, name="0")]
    (made,) = rollouts(asked, Expert(CHAT))
    assert arms._answered(made)
    assert not arms._answered(replace(made, calls=made.calls[:-1]))


def short_of_memory(monkeypatch: pytest.MonkeyPatch, most: int) -> list[int]:
    """A device that cannot hold more padded tokens than that; the sizes that were tried."""
    whole, tried = batched.hidden_states, []

    def hidden(model: Model, group: Sequence[Layout]) -> torch.Tensor:
        size = len(group) * max(len(part.ids) for part in group)
        tried.append(size)
        if len(group) > 1 and size > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return whole(model, group)

    monkeypatch.setattr(batched, "hidden_states", hidden)
    return tried


@pytest.mark.parametrize("method", ["replay", "sdcc"])
def test_a_step_that_runs_out_of_memory_is_made_in_smaller_parts(
    tiny: Model, batch: Batch, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = Recipe(learning_rate=1e-2, lora_rank=4, rise=0.0, strength=1.0)
    easy, hard = learner(tiny, recipe), learner(tiny, recipe)
    room = tokens_at_once()
    before = step(easy, batch, method=method, number=0)
    tried = short_of_memory(monkeypatch, most=500)
    after = step(hard, batch, method=method, number=0, room=room)
    assert max(tried) > 500
    assert room.size < batched.TOKENS
    assert after.nll == pytest.approx(before.nll, abs=1e-5)
    assert after.grad_norm == pytest.approx(before.grad_norm, rel=1e-4)
    for one, two in zip(easy.parameters, hard.parameters, strict=True):
        torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-3)
    learnt = room.size
    step(hard, batch, method=method, number=1, room=room)
    assert room.size == learnt


def test_what_does_not_fit_at_all_ends_with_a_reason(
    tiny: Model, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(batched, "hidden_states", never)
    with pytest.raises(ModelError, match=r"padded tokens do not fit in memory.*2\.00 GiB"):
        read(tiny, batch, "rightmost")


def test_sampling_that_runs_out_of_memory_goes_on_with_fewer_prompts(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = [np.arange(2, 2 + size, dtype=np.int32) for size in (30, 31, 32, 33)]
    whole, sizes = sampling._Stepper.prefill, []

    def prefill(self: Any, given: Any) -> torch.Tensor:
        sizes.append(given.size)
        if given.size > 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return whole(self, given)

    sampler = ModelSampler(tiny, stop=STOP)
    few = 4 * (33 + 10) * sampler._token_bytes
    monkeypatch.setattr(sampling, "HELD", few)
    monkeypatch.setattr(sampler, "_room", Room(few, least=1, what="bytes of cache"))
    monkeypatch.setattr(sampling._Stepper, "prefill", prefill)
    found = sampler.complete(prompts, [10] * 4)
    assert sizes[0] == 4
    assert set(sizes[1:]) <= {1, 2}
    assert all(0 < len(one.ids) <= 10 for one in found)
    again = sampler.complete(prompts, [10] * 4)
    assert [len(one.ids) > 0 for one in again] == [True] * 4
    assert 4 not in sizes[1:]


def test_batches_of_all_sizes_share_one_cache(tiny: Model) -> None:
    sampler = ModelSampler(tiny, stop=STOP)
    prompts = [np.arange(2, 2 + size, dtype=np.int32) for size in (40, 20)]
    sampler.complete(prompts, [8, 8])
    held = {key: part.data_ptr() for key, part in sampler._store._flat.items()}
    sampler.complete(prompts[1:], [8])
    assert {key: part.data_ptr() for key, part in sampler._store._flat.items()} == held
    assert len(sampler._steppers) == 2
    sampler.complete(prompts * 2, [8] * 4)
    assert len(sampler._steppers) == 1


def test_an_interval_is_wilsons() -> None:
    assert held_out.interval(16, 16) == pytest.approx((0.8064, 1.0), abs=1e-4)
    assert held_out.interval(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)


def test_held_out_questions_are_answered_once_and_told_with_their_interval(
    tiny: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mwviz.engine.model.load_model", lambda *_, **__: tiny)
    monkeypatch.setattr(Chat, "embedded", lambda: CHAT)
    path = tmp_path / "answers.jsonl"
    words = [str(path), "--harness", "none", "prune", "--device", "cpu", "--count"]
    held_out.main([*words, "1"])
    path.write_text(path.read_text() + '{"model": "torn')
    with path.open("a") as file:
        file.write("\n")
    held_out.main([*words, "2"])
    found = held_out.read_answers(path)
    assert [(one.harness, one.seed - HELD_OUT) for one in found] == [
        ("none", 0), ("prune", 0), ("none", 1), ("prune", 1)
    ]  # fmt: skip
    capsys.readouterr()
    held_out.main([*words, "2"])
    assert "| all | 4 | 0% | 0% to 49% |" in capsys.readouterr().out


def test_the_documented_answers_are_those_that_were_given() -> None:
    answers = held_out.read_answers(ROOT / "bench" / "results" / "held_out.jsonl")
    assert held_out.table(answers) in (ROOT / "docs" / "search-world.md").read_text()


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


def test_an_attempt_that_broke_off_takes_nothing_from_an_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    steps = {"replay": (3, 1), "sdcc": (1, 3), "control": (3, 1, 2)}
    for arm, taken in steps.items():
        for attempt, count in enumerate(taken):
            log = Log(path, Name("sft", arm, 0))
            log.write("start", attempt=attempt)
            for at in range(count):
                log.write("step", step=at)
            if (arm, attempt) == ("control", 1):
                log.write("end")
    assert {run.arm: run.start["attempt"] for run in read_best(path)} == {
        "replay": 0, "sdcc": 1, "control": 1,
    }  # fmt: skip


def test_a_run_that_never_came_to_look_leaves_the_others_comparable(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    for arm, kl in (("sdcc", 0.1), ("rightmost", 1.0)):
        for seed in range(3):
            log = Log(path, Name("grpo-prune", arm, seed))
            log.write("start")
            if (arm, seed) == ("sdcc", 2):
                log.write("failed", why="exit -9")
                continue
            for at in (0, 5):
                log.write("look", step=at, kl_diverging=kl + seed / 1000, drift=0.1)
    found = {one.claim: one for one in findings_of(read_results(path))}
    closing = found["grpo-prune: `sdcc` closes most of the gap of `rightmost`"]
    assert closing.verdict == "reproduced"
    assert "90 % closed" in closing.why


STEP = {"step": 0, "reward": 0.5, "nll": 0.1, "gap_signed": 0.0, "norm": 0.5}
"""The line of one."""


def of_grpo(path: Path, arm: str, seed: int, rewards: Sequence[float], nll: float) -> None:
    """An arm whose layout is exact and which answered after its last step."""
    log = Log(path, Name("grpo-prune", arm, seed))
    log.write("start", steps=len(rewards))
    for at, reward in enumerate(rewards):
        log.write(
            "step",
            step=at,
            reward=reward,
            nll=nll if 3 * at >= 2 * len(rewards) else 9.0,
            gap_signed=0.0,
            norm=0.0 if reward in (0.0, 1.0) else 0.5,
            by_evictions={"1": (0.0, 40), "2": (0.0, 7 * at)},
        )
    log.write("reward", step=len(rewards), harness="prune", reward=0.5, questions=4)
    log.write("end", step=len(rewards))


def test_a_reward_that_is_lost_is_told_with_its_step(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    rewards = {
        "replay": [0.5, 0.5, 0.2, 0.0, 0.05, 0.0, 0.0],
        "rightmost": [0.5, 0.0, 0.0, 0.0, 0.0, 0.5],
        "control": [0.0] * 7,
        "packed_mask": [0.5] * 7,
    }
    for arm, some in rewards.items():
        of_grpo(path, arm, 0, some, 0.1)
    runs = read_best(path)
    assert {run.arm: lost_at(run) for run in runs} == {
        "replay": 3, "rightmost": None, "control": None, "packed_mask": None,
    }  # fmt: skip
    told = "\n".join(explained(runs))
    assert "| grpo-prune `replay` seed 0 | 0.40 | 3 | 7 | 3 | 7 to 35 |\n" in told
    assert "What SDCC" not in told
    assert "grpo-prune `replay`: in every such seed it comes to sample more tokens behind" in told
    assert "whether its rollouts came to an answer is not recorded" in told
    assert "its mean gap" not in told


def test_of_a_lost_reward_only_what_its_lines_bear_out_is_told(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    log = Log(path, Name("grpo-prune", "rightmost", 0))
    log.write("start", steps=9)
    for at in range(9):
        share = 1.0 if at < 5 else 0.0
        log.write(
            "step", step=at, reward=0.5 * share, norm=0.5, gap=at / 10, answered=share,
            by_evictions={"1": (0.0, 40), "2": (0.0, 7 * at)},
        )  # fmt: skip
    told = "\n".join(explained(read_best(path)))
    assert "| grpo-prune `rightmost` seed 0 | 0.50 | 5 | 9 | 0 | - |\n" in told
    assert (
        "grpo-prune `rightmost`: its mean gap is 0.1 (1 seed) nats in the first 3 steps and 0.3 "
        "(1 seed) in the 3 before its reward is lost; 100% of its rollouts came to an answer in "
        "the first 3 steps, 0% in the last 3."
    ) in told
    for word in ("summary", "more tokens behind", "not recorded"):
        assert word not in told.split("Where a reward is lost")[1], word


def test_what_was_diagnosed_is_told_from_what_the_arms_start_from() -> None:
    def of(*warm: object) -> list[Run]:
        return [Run("grpo-prune", "sdcc", seed, start={"warm": w}) for seed, w in enumerate(warm)]

    whole = "the agent that the GRPO arms of all seeds start from (adapter `a`)"
    assert whose({"warm": "a"}, of("a", "a")) == whole
    assert "arms of seeds 1 and 2 start from (adapter `a`)" in whose({"warm": "a"}, of(True, *"aa"))
    assert "from which none of these GRPO arms starts" in whose({"warm": "a"}, of("b"))
    assert whose({"warm": "a"}, of("b", True)) == "an agent after a warm-up (adapter `a`)"
    assert "whose adapter is not recorded" in whose({}, of("a"))


def test_arms_that_do_not_say_where_they_started_are_named_once() -> None:
    def of(*warm: object) -> list[Run]:
        return [
            Run(part, "sdcc", seed, start={"warm": w})
            for part in ("grpo-prune", "sft")
            for seed, w in enumerate(warm)
        ]

    assert unrecorded(of("a", "a")) is None
    told = unrecorded(of(True, True, "a", "a"))
    assert told is not None
    assert told.startswith(
        "GRPO arms of seeds 0 and 1 do not record from which adapter they started; those of seeds "
        "2 and 3 started from `a`."
    )
    assert (unrecorded(of(True)) or "").startswith("GRPO arms of seed 0 do not record")


def test_a_diagnosis_of_equal_rewards_is_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing, pull = torch.zeros(2), torch.tensor([0.0, 2.0])
    found = {"exact": nothing, "task": nothing, "pull": pull, "likelihood": pull}
    line = diagnosis.compared(found)
    assert (line["task_exact"], line["pull_exact"], line["pull_likelihood"]) == (None, None, 1)
    head = {"kind": "gradients", "harness": "prune", "device": "cpu", "rollouts": 8, "targets": 9}
    path = tmp_path / "diagnosis.jsonl"
    path.write_text(json.dumps(head | line, allow_nan=False))
    monkeypatch.setattr(diagnosed, "DIAGNOSED", path)
    results = tmp_path / "results.jsonl"
    for arm in ("rightmost", "sdcc"):
        of_grpo(results, arm, 0, [0.5] * 6, 0.1)
    told = "\n".join(explained(read_best(results)))
    assert "the row's is 0: all rollouts of a question earned the same | 1.000 | not defi" in told
    assert "Measured on an agent after a warm-up whose adapter is not recorded, on a CPU" in told


def test_steps_of_the_pull_alone_are_told_with_whose_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = {"kind": "pull", "harness": "prune", "teacher": "own", "rate": 5e-4, "warm": "abc"}
    looks = [
        {
            **head,
            "step": at,
            "kl": kl,
            "nll_true": loss,
            "nll_evidence": 2 * loss,
            "reward": reward,
            "questions": 4,
        }
        for at, kl, loss, reward in ((0, 1.5, 0.1, 0.5), (20, 0.5, 0.7, 0.25))
    ]
    path = tmp_path / "diagnosis.jsonl"
    path.write_text("\n".join(map(json.dumps, looks)))
    monkeypatch.setattr(diagnosed, "DIAGNOSED", path)
    runs = [
        Run("grpo-prune", arm, 0, start={"warm": "abc"}, lines={"step": [STEP]})
        for arm in ("rightmost", "sdcc")
    ]
    told = "\n".join(explained(runs))
    agent = "the agent that the GRPO arms of all seeds start from (adapter `abc`)"
    assert f"Measured on {agent}, on a GPU whose name is not recorded (" in told
    assert (
        "| `prune` | current weights | 20, 0.0005 | 1.5 → 0.5 | 0.1 → 0.7 | 0.2 → 1.4 | 50% → 25% "
        "| 4 |"
    ) in told
    assert "What is not known yet" not in told


@pytest.mark.parametrize(
    ("evidence", "told"),
    [
        (
            (1.1, 1.2),
            "In `prune` tokens whose evidence has left lose more than the mean of all, as ",
        ),
        ((1.1, 0.2), "lose more than the mean of all with only some of the teachers."),
        (
            (0.2, 0.2),
            "does not explain why right answers go from 50% to 25%.",
        ),
    ],
)
def test_the_mechanism_is_told_where_evidence_tokens_lose_most(
    evidence: tuple[float, float], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = [
        {
            "kind": "pull", "harness": "prune", "teacher": teacher, "rate": 5e-4, "step": at,
            "kl": 1.0, "nll_true": loss, "nll_evidence": lost, "reward": reward, "questions": 4,
        }
        for teacher, end in zip(("own", "frozen"), evidence, strict=True)
        for at, loss, lost, reward in ((0, 0.1, 0.1, 0.5), (20, 0.7, end, 0.25))
    ]  # fmt: skip
    path = tmp_path / "diagnosis.jsonl"
    path.write_text("\n".join(map(json.dumps, looks)))
    monkeypatch.setattr(diagnosed, "DIAGNOSED", path)
    assert told in "\n".join(diagnosed.measured([]))


def test_what_is_left_to_chance_is_read_from_the_last_third(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    for seed in range(2):
        for arm, nll in (("rightmost", 0.1), ("sdcc", 0.3)):
            of_grpo(path, arm, seed, [0.5] * 6, nll + seed / 1e6)
    runs = read_best(path)
    assert surprise(runs[0]) == pytest.approx(0.1)
    told = "\n".join(explained(runs))
    assert "`sdcc` over `rightmost`: grpo-prune x 3 [" in told
    assert "Where a reward is lost" not in told
    assert "beside `rightmost`, what these seeds leave undecided in grpo-prune." in told


def test_a_diagnosis_parts_the_gradient_and_pulls_alone(
    tiny: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "load_model", lambda *_, **__: tiny)
    monkeypatch.setattr(Chat, "embedded", lambda: CHAT)
    monkeypatch.setattr(diagnosis, "SAMPLES", 2)
    monkeypatch.setattr(arms, "SAMPLES", 2)
    monkeypatch.setattr(diagnosis, "HELD", 1)
    monkeypatch.setattr(diagnosis, "TAUGHT", 2)
    monkeypatch.setattr(arms, "advantages_of", lambda _: [1.0, -0.5])
    monkeypatch.setattr(diagnosis, "advantages_of", lambda _: [1.0, -0.5])
    monkeypatch.setitem(episode.LIMITS, "act", 3)
    out, warm = tmp_path / "diagnosis.jsonl", tmp_path / "warm"
    warm.mkdir()
    (warm / CONFIG).write_text("{}")
    (warm / WEIGHTS).write_text("weights")
    words = [str(out), str(warm), "--harness", "prune", "--teachers", "own", "frozen"]
    words += ["--questions", "1", "--steps", "2", "--look", "1", "--held-out", "1"]
    diagnosis.main([*words, "--batch-tokens", "100", "--rate", "1e-2"])
    lines = [json.loads(text) for text in out.read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["gradients", *["pull"] * 6]
    assert {line["warm"] for line in lines} == {digest_of(warm)}
    for teacher in ("own", "frozen"):
        first, *_, last = [line for line in lines[1:] if line["teacher"] == teacher]
        assert last["kl"] < first["kl"]
        assert {"reward", "questions", "nll_true"} <= set(last)
    assert lines[3]["kl"] != lines[6]["kl"], "the teacher is another"


def test_the_parts_of_a_gradient_add_up_to_the_step_that_is_taken(
    tiny: Model, batch: Batch
) -> None:
    recipe = Recipe(lora_rank=4, steps=10, objective="policy", grad_clip=None)
    found = diagnosis.gradients(learner(tiny, recipe), batch, [1.0, -0.5])
    mine = learner(tiny, recipe)
    gain = np.array([1.0, -0.5])[batch.owner]
    batched.gradient(mine, batch, "sdcc", 9, gain, 3072)
    parts = [one.grad for one in mine.parameters if one.grad is not None]
    whole = torch.cat([part.double().flatten() for part in parts])
    assert torch.allclose(found["task"] + 0.1 * found["pull"], whole, atol=1e-6)
    assert diagnosis.compared(found)["norm_sdcc"] == pytest.approx(float(whole.norm()), rel=1e-4)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Name]:
    """The arms that would have been started; each is a process that does nothing."""
    found: list[Name] = []

    def start(arm: Name, *_: object) -> subprocess.Popen[bytes]:
        found.append(arm)
        return subprocess.Popen([sys.executable, "-c", ""])

    monkeypatch.setattr(reproduce, "_start", start)
    return found


def test_a_part_goes_on_with_the_arms_that_have_not_ended(
    tmp_path: Path, started: list[Name]
) -> None:
    head = {"part": "sft", "arm": "replay", "seed": 0}
    lines = [{**head, "kind": "start"}, {**head, "kind": "end"}]
    path = tmp_path / "results.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    assert reproduce.main(["run", str(path), "--parts", "sft", "--seeds", "1"]) == 0
    assert [arm.arm for arm in started] == [a for a in PARTS["sft"] if a != "replay"]


def test_grpo_arms_start_from_a_warm_up_that_is_made_once(
    tmp_path: Path, started: list[Name], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[list[str]] = []

    def taught(command: list[str], **_: object) -> None:
        made.append(command)
        (tmp_path / "warm").mkdir()
        (tmp_path / "warm" / "adapter_config.json").write_text("{}")

    monkeypatch.setattr("examples.reproduce.subprocess.run", taught)
    words = ["run", str(tmp_path / "results.jsonl"), "--parts", "grpo-prune", "--seeds", "1"]
    for _ in range(2):
        assert reproduce.main(words) == 0
    assert [command[2] for command in made] == ["examples.experiment.teach"]
    assert len(started) == 2 * len(PARTS["grpo-prune"])


def test_arms_are_stopped_when_the_time_is_up_and_the_rest_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun: list[Name] = []

    def start(arm: Name, *_: object) -> subprocess.Popen[bytes]:
        begun.append(arm)
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])

    monkeypatch.setattr(reproduce, "_start", start)
    monkeypatch.setattr(reproduce, "GRACE", 0.0)
    words = ["run", str(tmp_path / "a" / "r.jsonl"), "--parts", "sft", "--seeds", "1"]
    assert reproduce.main([*words, "--workers", "2", "--minutes", "0.02"]) == 6
    assert [arm.arm for arm in begun] == ["rightmost", "replay"]
    told = capsys.readouterr().out
    assert "sft rightmost 0: exit -15" in told
    assert "out of time: 4 arms did not start; run this again" in told


def test_a_card_never_gets_more_arms_than_its_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards: list[int] = []

    def start(*given: object) -> subprocess.Popen[bytes]:
        cards.append(int(str(given[3])))
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1)"])

    monkeypatch.setattr(reproduce, "_start", start)
    words = ["run", str(tmp_path / "r.jsonl"), "--parts", "sft", "--seeds", "1", "--gpus", "2"]
    assert reproduce.main([*words, "--device", "cuda", "--workers", "4"]) == 0
    assert sorted(cards[:4]) == [0, 0, 1, 1]
    assert len(cards) == 6


def test_a_line_behind_one_that_was_cut_off_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"part": "sft", "ar')
    Log(path, Name("sft", "replay", 1)).write("start", steps=3)
    (run,) = read_results(path)
    assert (run.arm, run.start["steps"]) == ("replay", 3)


def test_the_plan_says_what_would_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce.main(["plan", "--parts", "sft", "--device", "cuda", "--gpus", "2"]) == 0
    told = capsys.readouterr().out
    assert "sft: 18 arms" in told
    assert "3 seeds) of 300 steps: about" in told
    assert "256 held-out questions" in told
    assert "in all about" in told
    assert "memory: 9 arms a card" in told


def test_a_plan_for_too_few_minutes_says_how_many_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["plan", str(tmp_path / "none.jsonl"), "--gpus", "2", "--minutes"]
    assert reproduce.main([*words, "9"]) == 0
    assert "9 minutes are too few for this: all steps take about" in capsys.readouterr().out
    assert reproduce.main([*words, "9", "--parts", "sft"]) == 0
    assert "too few" not in capsys.readouterr().out


def test_parts_that_run_at_once_share_the_cards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever has ended before takes no share."""
    path, shares = tmp_path / "r.jsonl", set()
    for arm in PARTS["sft"]:
        log = Log(path, Name("sft", arm, 0))
        log.write("start", steps=300)
        log.write("end")

    def start(*given: Any) -> subprocess.Popen[bytes]:
        shares.add(given[4]["sharing"])
        return subprocess.Popen([sys.executable, "-c", ""])

    monkeypatch.setattr(reproduce, "_start", start)
    monkeypatch.setattr(reproduce, "_is_warm", lambda _: True)
    words = ["run", str(path), "--device", "cuda", "--gpus", "2", "--seeds", "1"]
    assert reproduce.main(words) == 0
    assert shares == {5}
    assert "memory: 5 arms a card" in capsys.readouterr().out


def test_a_plan_takes_as_many_steps_as_fit_the_same_for_all_arms() -> None:
    scales, arms = {"grpo-prune": SCALES["grpo-prune"]}, {"grpo-prune": 10}
    settings = {"gpus": 1, "workers": 10, "slow": 1.0}
    (whole,) = budget.budgets(scales, arms, minutes=math.inf, **settings)  # type: ignore[arg-type]
    (short,) = budget.budgets(scales, arms, minutes=5, **settings)  # type: ignore[arg-type]
    settings["gpus"] = 2
    (two,) = budget.budgets(scales, arms, minutes=5, **settings)  # type: ignore[arg-type]
    assert whole.scale.steps == 30
    assert whole.told.startswith("grpo-prune: 10 arms (rightmost, ")
    assert whole._replace(arms=3).told.startswith("grpo-prune: 3 of 10 arms (rightmost, ")
    assert 1 < short.scale.steps < two.scale.steps <= 30
    assert short.seconds <= 5 * 60
    assert two.seconds <= 5 * 60
    fixed = {"grpo-prune": SCALES["grpo-prune"]._replace(last=22)}
    (as_before,) = budget.budgets(fixed, arms, minutes=1, **settings)  # type: ignore[arg-type]
    assert (as_before.scale.steps, as_before.scale.last) == (30, 22)
    standing = 2 * budget.START
    assert as_before.seconds == pytest.approx(standing + (whole.seconds - standing) * 22 / 60)


def test_a_step_of_a_part_is_the_mean_of_its_arms_with_their_looks() -> None:
    """However many steps each took: those that took most are the fastest."""
    runs = []
    for arm, seconds, steps in (("replay", 4.0, 3), ("sdcc", 1.0, 9)):
        lines = [{"step": at, "seconds": seconds, "at": 10 + seconds * at} for at in range(steps)]
        looks = [{"step": 0, "at": 9.0}, {"step": 2, "at": 10 + 2 * seconds - 0.5}]
        runs.append(Run("sft", arm, 0, start={"sharing": 2}))
        runs[-1].lines = {"step": lines, "look": looks}
    looked = (4 - 0.5) / 2, (1 - 0.5) / 8
    assert budget.step_seconds("sft", runs) == (4 + looked[0] + 1 + looked[1]) / 2 / 2


def test_the_arms_that_run_at_once_fit_a_card_with_a_margin() -> None:
    assert budget.most_at_once() * budget.need().most < 0.95 * budget.CARD
    assert budget.step_seconds("grpo-prune") > budget.step_seconds("sft") > 0
