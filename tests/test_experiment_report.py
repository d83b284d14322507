"""The experiment's page: what it says follows from the results, and its charts show them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from examples.experiment import diagnosed
from examples.experiment.batched import EXACT
from examples.experiment.charts import BAND, by_arm, over_steps, with_floor
from examples.experiment.diagnosed import rise
from examples.experiment.findings import GRPO, Finding, findings_of, pulled_reward
from examples.experiment.gallery import gallery
from examples.experiment.job import PARTS
from examples.experiment.limits import limits, seeds_told
from examples.experiment.readings import (
    answered_after,
    per_step,
    reward_of,
    rounded_up,
    tv_share,
)
from examples.experiment.report import page_of
from examples.experiment.results import Run, read_best
from examples.experiment.short import in_short
from examples.experiment.teach import digest_of
from examples.experiment.verdicts import NO, OPEN, YES
from mwviz.figures.training import ARM_COLOURS, DASHES

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results" / "experiment.jsonl"


@pytest.fixture
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No diagnosis."""
    path = tmp_path / "diagnosis.jsonl"
    path.write_text("")
    monkeypatch.setattr(diagnosed, "DIAGNOSED", path)
    return path


def run_of(
    arm: str,
    seed: int,
    *,
    reward: float,
    part: str = "grpo-prune",
    seconds: float = 1.0,
    steps: Sequence[int] = (60, 24),
) -> Run:
    """One that ended.

    Args:
        arm: its layout.
        seed: of it.
        reward: on held-out questions.
        part: of the experiment.
        seconds: to train a step; sampling takes one more.
        steps: that were planned, and those after which it answered.
    """
    planned, taken = steps
    lines = [
        {
            "step": at, "gap": 0.0 if arm == EXACT else 0.5, "reward": 0.5, "nll": 0.1,
            "gap_signed": 0.0, "norm": 1.0, "seconds": seconds + 1, "sampling": 1.0,
            "coverage": 0.75, "by_evictions": {"1": (0.0, 40)},
        }
        for at in range(taken)
    ]  # fmt: skip
    answer = {"step": taken, "harness": "prune", "reward": reward, "questions": 256}
    start = {"steps": planned, "warm": "a", "machine": "a card", "rate": 5e-4}
    return Run(part, arm, seed, ended=True, start=start, lines={"step": lines, "reward": [answer]})


def arms(rewards: Mapping[str, float], *, seconds: float = 1.0) -> list[Run]:
    """Three seeds each, a hundredth apart."""
    return [
        run_of(arm, seed, reward=reward + (seed - 1) / 100, seconds=seconds)
        for arm, reward in rewards.items()
        for seed in range(3)
    ]


def short(runs: Sequence[Run]) -> str:
    return "\n".join(in_short(runs, list(findings_of(runs))))


def grown(part: str, arm: str, step: int, *by_seed: Mapping[str, tuple[float, int]]) -> list[Run]:
    """A run a seed that looked after a step, with KL and targets by evictions after a token."""
    made = []
    for seed, kl in enumerate(by_seed):
        made.append(run_of(arm, seed, reward=0.5, part=part))
        look = {"step": step, "tv": 0.1, "tv_bound": 0.4, "coverage": 1.0}
        made[-1].lines |= {"look": [look], "junctions": [{"step": step, "kl": kl}]}
    return made


def test_what_was_not_measured_is_said_so() -> None:
    """As of a run that was stopped while its first arms were at work."""
    for alone in (
        [run_of("rightmost", 0, reward=0.5)],
        grown("sft", "replay", 3, {"1": (1.0, 40)}),
    ):
        whys = [one.why for one in findings_of(alone)]
        assert any("nothing measured" in why for why in whys)
        assert "None" not in " ".join(whys)


def grows(runs: Sequence[Run]) -> Finding:
    (found,) = [one for one in findings_of(runs) if "grows with evictions" in one.claim]
    return found


@pytest.mark.parametrize(
    ("two", "three", "verdict"),
    [(3.0, 4.0, YES), (1.0, 1.5, NO), (1.0, 3.0, OPEN)],
    ids=["more", "less", "as much"],
)
def test_growth_goes_by_all_tokens_with_several_evictions_and_its_interval(
    two: float, three: float, verdict: str
) -> None:
    seeds = [
        {"0": (0.0, 90), "1": (2.0 + shift, 90), "2": (two, 60), "3": (three - shift, 60)}
        for shift in (-0.05, 0.0, 0.05)
    ]
    found = grows(grown("grpo-prune", "rightmost", 0, *seeds))
    assert found.verdict == verdict
    assert f"{(two + three) / 2:.3g} [" in found.why
    assert "on the first batch" in found.why


def test_growth_is_undecided_where_few_tokens_have_several_evictions() -> None:
    seeds = [{"1": (2.0, 90), "2": (3.0, 29)}] * 3
    assert grows(grown("grpo-prune", "rightmost", 0, *seeds)).verdict == OPEN


def test_growth_in_sft_is_that_of_all_seeds_of_the_row_after_training() -> None:
    """Before it all seeds are one and the same, and `sdcc` has the same row."""
    rows = [{"1": (2.0 + seed / 10, 90), "2": (1.0, 90)} for seed in range(3)]
    runs = grown("sft", "sdcc", 20, *[{"1": (1.0, 90), "2": (9.0, 90)}] * 3)
    found = grows(runs + grown("sft", "rightmost", 20, *rows))
    assert (found.verdict, "after 20 steps: 1 [1, 1] nats" in found.why) == (NO, True)


def test_tv_over_its_bound_is_that_of_the_look_it_stands_beside() -> None:
    (run,) = grown("sft", "rightmost", 20, {})
    run.lines["look"].insert(0, {"step": 0, "tv": 0.3, "tv_bound": 0.4})
    assert tv_share(20)(run) == pytest.approx(0.25)
    assert tv_share(10)(run) is None


@pytest.mark.usefixtures("quiet")
def test_the_page_names_the_model_and_how_its_agents_were_asked() -> None:
    runs = grown("sft", "rightmost", 20, {}, {}) + grown("sft", "control", 20, {}, {})
    for run in runs:
        run.start["model"] = "folder/of-random-weights"
        asked = run.lines["reward"][0]
        run.lines["reward"] = [
            asked | {"harness": name, "reward": share}
            for name, share in (
                (("none", 1.0),) if run.arm == "control" else (("prune", 0.75), ("summary", 0.25))
            )
        ]
    page = "\n".join(page_of(runs, [], ""))
    assert "at a small scale: of-random-weights with an adapter" in page
    assert "| reward | reward, prune | reward, summary |" in page
    assert "| 0.5 [0.5, 0.5] | 0.75 [0.75, 0.75] | 0.25 [0.25, 0.25] |" in page
    assert "| 1 [1, 1] | - | - |" in page
    assert "`control` is looked at as `rightmost` is" in page
    assert "`control` is looked at" not in "\n".join(page_of(runs[:2], [], ""))


def test_the_committed_page_is_that_of_the_committed_results() -> None:
    runs = read_best(RESULTS)
    drawings = gallery(runs)
    page = (ROOT / "docs" / "experiment.md").read_text()
    assert page == "\n".join(page_of(runs, drawings, "experiment")) + "\n"
    drawn = {path.stem for path in (ROOT / "docs" / "experiment").glob("*.png")}
    assert drawn == {one.name for one in drawings}


@pytest.mark.usefixtures("quiet")
def test_the_page_opens_with_the_layout_that_earns_most() -> None:
    told = short(arms({EXACT: 0.9, "rightmost": 0.5, "replay": 0.6, "sdcc": 0.2}))
    assert "**Use an exact layout** (`packed_mask` here)" in told
    assert "90% in grpo-prune (next `replay`, 60%)." in told
    assert "Of 3 comparisons with another layout the seeds decide 3 for it." in told


@pytest.mark.usefixtures("quiet")
def test_it_does_not_recommend_what_does_not_earn_most() -> None:
    told = short(arms({EXACT: 0.6, "rightmost": 0.9, "replay": 0.59, "sdcc": 0.2}))
    assert "Use an exact layout" not in told
    assert "**No layout has the highest share of right answers everywhere**" in told
    assert "60% in grpo-prune (next `rightmost`, 90%)" in told
    assert "decide 1 for it, 1 against it; undecided against `replay` in grpo-prune." in told


@pytest.mark.usefixtures("quiet")
def test_what_the_seeds_speak_against_is_named_with_its_number() -> None:
    told = short(arms({EXACT: 0.9, "rightmost": 0.5, "replay": 0.6, "sdcc": 0.2}))
    assert (
        "**Not reproduced**: grpo-prune: `sdcc` earns more reward on held-out questions than "
        "`rightmost` (-30 points of right answers)"
    ) in told
    assert "**Not reproduced**" not in short(arms({EXACT: 0.9, "rightmost": 0.5, "sdcc": 0.7}))


@pytest.mark.usefixtures("quiet")
def test_what_exact_training_costs_is_told_without_sampling_and_looks() -> None:
    runs = [*arms({EXACT: 0.9}, seconds=3.0), *arms({"rightmost": 0.5})]
    for run in runs:
        run.lines["look"] = [{"step": at, "coverage": 0.75} for at in (0, 5)]
        run.lines["step"][5]["seconds"] += 20.0
    assert (
        "over that of `rightmost`: x 3 in grpo-prune, where `rightmost` trains 75% of the tokens."
    ) in short(runs)


@pytest.mark.parametrize(
    ("number", "told"),
    [(2.39e-7, "2.4e-07"), (2.31e-7, "2.4e-07"), (4.07e-5, "4.1e-05"), (4e-5, "4e-05"), (0, "0")],
)
def test_what_is_at_most_a_number_is_never_above_what_is_told(number: float, told: str) -> None:
    assert rounded_up(number) == told
    assert float(told) >= number


@pytest.mark.usefixtures("quiet")
def test_a_maximum_on_the_page_is_rounded_up() -> None:
    runs = arms({EXACT: 0.9, "rightmost": 0.5})
    for run in runs:
        run.lines["look"] = [{"step": 5, "coverage": 0.75, "tv_over_bound": 4.07e-5}]
        for line in run.lines["step"]:
            line["gap"] = 2.31e-7
    assert "at most 2.4e-07 nats a token in any arm's mean" in short(runs)
    assert "by more than 4.1e-05 (rounding)" in "\n".join(limits(runs))


@pytest.mark.usefixtures("quiet")
def test_arms_that_answered_fewer_questions_are_named_with_their_number() -> None:
    runs = arms({EXACT: 0.9, "replay": 0.6, "sdcc": 0.2})
    assert "; 256 fixed held-out questions;" in "\n".join(page_of(runs, [], ""))
    assert "of 256 held-out" not in "\n".join(limits(runs))
    for run in runs:
        if run.arm != EXACT and run.seed < 2:
            run.lines["reward"][0]["questions"] = {"replay": 128, "sdcc": 192}[run.arm]
    assert "; 128 to 256 fixed held-out questions;" in "\n".join(page_of(runs, [], ""))
    assert (
        "- grpo-prune: of 256 held-out questions `replay` seeds 0 and 1 answered the first 128 and "
        "`sdcc` seeds 0 and 1 answered the first 192."
    ) in "\n".join(limits(runs))


@pytest.mark.usefixtures("quiet")
def test_a_control_that_repeats_another_is_said_so() -> None:
    runs = [run_of("control", seed, reward=0.9, part=part) for part in GRPO for seed in (0, 1)]
    assert "seed (0 and 1) the same training reward" in short(runs)
    assert "Of 4 arms 2 are distinct." in short(runs)
    runs[-1].lines["reward"][0]["step"] = 20
    assert "Of 4 arms 2 are distinct; answers of the repeated ones differ by the step" in short(
        runs
    )
    runs[-1].lines["step"][3]["reward"] = 0.25
    assert "seed (0) the same training reward" in short(runs)
    assert "Of 4 arms 3 are distinct" in short(runs)
    assert "repeats" not in short(runs[:2])


def test_what_the_pull_alone_does_to_answers_is_told_from_its_lines(quiet: Path) -> None:
    runs = arms({EXACT: 0.9, "rightmost": 0.5, "sdcc": 0.2})
    assert "pull alone" not in short(runs)
    lines = [
        {
            "kind": "pull", "harness": "prune", "teacher": teacher, "step": step, "kl": 1.0,
            "nll_true": 0.1, "nll_evidence": 0.1, "reward": reward, "questions": 8, "warm": "a",
        }
        for teacher, end in (("own", 0.25), ("frozen", 0.125))
        for step, reward in ((0, 0.5), (9, end))
    ]  # fmt: skip
    quiet.write_text("\n".join(map(json.dumps, lines)))
    assert "9 steps of it without any reward, took the share of right answers" in short(runs)
    assert "from 50% to 12% or 25% in `prune`;" in short(runs)
    quiet.write_text("\n".join(json.dumps(line | {"warm": "b"}) for line in lines))
    assert "pull alone" not in short(runs)


@pytest.mark.usefixtures("quiet")
def test_without_answers_the_page_opens_with_what_there_is() -> None:
    runs = arms({EXACT: 0.9, "rightmost": 0.5})
    for run in runs:
        del run.lines["reward"]
    told = short(runs)
    assert "exact layout" not in told
    assert "Its train-rollout gap is rounding" in told
    assert "| trained on |" not in told
    assert "## In short" not in short([])


def test_the_number_of_seeds_is_counted() -> None:
    runs = arms({EXACT: 0.9, "rightmost": 0.5})
    assert seeds_told(runs) == "three seeds"
    runs.append(run_of("rightmost", 3, reward=0.5))
    assert seeds_told(runs) == "three or four seeds"
    assert seeds_told(runs[:1]) == "one seed"
    assert "one invented world, three or four seeds: ranges" in "\n".join(limits(runs))


def test_arms_that_are_compared_before_their_last_step_are_said_so() -> None:
    told = "\n".join(limits([run_of("sdcc", 0, reward=0.5)]))
    assert (
        "grpo-prune: time on the card was short, so rewards are compared after step 24 of 60"
        in told
    )
    assert "SDCC's strength goes by 60 and is whole after 12." in told
    assert "curves of single arms" not in told
    longer = run_of("sdcc", 1, reward=0.5, steps=(60, 30))
    longer.lines["reward"][0]["step"] = 24
    told = "\n".join(limits([run_of("sdcc", 0, reward=0.5), longer]))
    assert "curves of single arms go on to step 30" in told
    assert "compared" not in "\n".join(limits([run_of("sdcc", 0, reward=0.5, steps=(24, 24))]))


def test_a_curve_has_a_band_of_its_seeds_and_its_arms_colour() -> None:
    runs = arms({EXACT: 0.9, "rightmost": 0.5})
    for run in runs:
        for line in run.lines["step"]:
            line["gap"] = 0.1 + run.seed
    figure = over_steps(runs, "grpo-prune", per_step("gap"), title="gap", axis="nats", log=True)
    band, line = figure.data[:2]
    assert (line.name, line.line.color, line.line.dash) == (
        "rightmost", ARM_COLOURS["rightmost"], DASHES["rightmost"],
    )  # fmt: skip
    assert (band.fillcolor, band.opacity) == (ARM_COLOURS["rightmost"], BAND)
    assert (min(band.y), max(band.y)) == pytest.approx((0.1, 2.1))
    assert list(line.y) == pytest.approx([1.1] * 24)
    assert "mean of 3 seeds" in figure.layout.title.text


def test_a_floor_is_drawn_and_named_where_it_is_known() -> None:
    runs = arms({EXACT: 0.9})
    figure = over_steps(runs, "grpo-prune", per_step("gap"), title="", axis="", log=True)
    before = len(figure.data)
    assert len(with_floor(figure, None, "x").data) == before
    floor = with_floor(figure, 2e-7, "float32").data[-1]
    assert floor.name == "floor 2·10⁻⁷:<br>float32"
    assert list(floor.x) == [0, 23]


def test_every_seed_of_the_held_out_rewards_is_a_dot() -> None:
    runs = arms({EXACT: 0.9, "rightmost": 0.5})
    figure = by_arm(runs, {"grpo-prune": "prune"}, reward_of, title="t", axis="share")
    dots = {line.x[0]: list(line.y) for line in figure.data if len(line.x) > 1}
    assert dots == {
        EXACT: pytest.approx([0.89, 0.9, 0.91]), "rightmost": pytest.approx([0.49, 0.5, 0.51]),
    }  # fmt: skip
    assert set(dots) <= set(PARTS["grpo-prune"])


def test_the_plan_counts_the_comparisons_of_rewards_that_are_undecided() -> None:
    plan = " ".join((ROOT / "docs" / "experiment-plan.md").read_text().split())
    found = [one for one in findings_of(read_best(RESULTS)) if "earns more reward" in one.claim]
    still = [one.claim for one in found if one.verdict == OPEN]
    exact = [claim for claim in still if "exact training" in claim]
    assert (len(still), len(exact)) == (5, 3)
    assert "Five comparisons of rewards are undecided. Three are of the exact layout" in plan
    assert {claim.partition(":")[0] for claim in still if claim not in exact} == {
        "grpo-summary", "sft",
    }  # fmt: skip
    assert "Two are of `sdcc` against `rightmost` (`grpo-summary`, `sft`)." in plan


def test_the_plan_tells_what_the_committed_results_took() -> None:
    plan = (ROOT / "docs" / "experiment-plan.md").read_text()
    runs = read_best(RESULTS)
    told = " ".join(plan.split())
    assert f"{len(runs)} arms, `sft` on two H200 and the others on one, all of which ran to" in told
    assert all(run.ended for run in runs)
    prune, summary = GRPO
    rows = {"sft": [(0, 2)], prune: [(0, 1), (2, 3)], summary: [(0, 1), (2, 2)]}
    for part, seeds in ((part, some) for part, found in rows.items() for some in found):
        mine = [run for run in runs if run.part == part and seeds[0] <= run.seed <= seeds[1]]
        (sharing,) = {run.start["sharing"] for run in mine}
        ((planned, compared),) = {(run.start["steps"], answered_after(run)) for run in mine}
        took = round(max(run.of("end")[-1]["at"] for run in mine))
        between = " to " if part == "sft" else " and "
        named = between.join(map(str, dict.fromkeys(seeds)))
        row = rf"\| `{part}` \| {named} \| {sharing}\b[^|]*\| "
        row += rf"{compared} of {planned} \| {took // 60} min {took % 60} s \|"
        assert re.search(row, plan), row


def test_the_adapter_that_all_grpo_arms_started_from_lies_beside_their_results() -> None:
    kept = digest_of(RESULTS.parent / "warm")
    assert {run.start["warm"] for run in read_best(RESULTS) if run.part in GRPO} == {kept}
    assert {line["warm"] for line in diagnosed.diagnosed()} == {kept}


def test_what_training_says_of_sdcc_is_what_was_measured() -> None:
    text = " ".join((ROOT / "docs" / "training.md").read_text().split())
    runs, lines = read_best(RESULTS), diagnosed.diagnosed()
    found = {line["harness"]: line for line in lines if line["kind"] == "gradients"}
    along, across = (
        " and ".join(f"{found[harness][name]:.{digits}f}" for harness in ("prune", "summary"))
        for name, digits in (("pull_likelihood", 3), ("pull_exact", 2))
    )
    assert f"(cosine {along})" in text
    assert f"policy gradient ({across})" in text
    verdicts = {part: pulled_reward(runs, part) for part in PARTS}
    assert [one.verdict for one in verdicts.values()] == [OPEN, NO, OPEN]
    less = verdicts["grpo-prune"].brief.partition(" ")[0].removeprefix("-")
    assert f"{less} points less in `grpo-prune`, in `grpo-summary` and `sft` undecided" in text
    ends = {one.rewards for one in diagnosed.pulled_alone(lines)}
    assert sorted(f"{one[0]:.0%}" for one in ends if one) == ["52%", "71%"]
    assert {one[1] for one in ends if one} == {0.0}
    lost = {
        (one.harness, rise(one, "nll_evidence") > rise(one, "nll_true"))
        for one in diagnosed.pulled_alone(lines)
    }
    assert lost == {("prune", True), ("summary", False)}
    assert "lose more than the mean of all tokens in `prune` but less in `summary`" in text
