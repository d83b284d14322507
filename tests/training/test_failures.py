from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from mwviz.engine import attention
from mwviz.engine.layout import Layout
from mwviz.engine.model import MemoryShortageError
from mwviz.engine.row_loss import RowLoss
from mwviz.errors import ModelError, TraceError, ViewError
from mwviz.train_printed import print_event
from mwviz.training import checkpoint, loop
from mwviz.training.advantage import recorded_advantages
from mwviz.training.arms import arm_losses
from mwviz.training.learner import Learner, fitted, learner
from mwviz.training.loop import train, update
from mwviz.training.plan import Material, Plan, material
from mwviz.training.recipe import Recipe, arms
from mwviz.training.results import Results, statuses, table
from mwviz.training.runs import Event, run
from mwviz_app.curves import notes
from tests.engine import tiny
from tests.engine.test_row_loss import short_of_memory
from tests.training.rollouts import analysis, three

QUICK = Recipe(steps=4, learning_rate=1e-2, batch_tokens=25)


def weights(mine: Learner) -> list[torch.Tensor]:
    return [part.detach().clone() for part in mine.parameters]


def test_a_loss_that_is_not_a_number_leaves_the_weights_alone() -> None:
    mine = learner(tiny.llama(), QUICK)
    list(train(mine, three(), method="exact"))
    with torch.no_grad():
        mine.parameters[-1].view(-1)[3] = torch.nan
    before = weights(mine)
    with pytest.raises(ModelError, match=r"step 2: the loss is nan.*learning rate"):
        update(mine, three(), method="exact", step=2)
    for one, two in zip(before, weights(mine), strict=True):
        assert torch.equal(one.nan_to_num(), two.nan_to_num())


def test_weights_that_no_gradient_reaches_any_more_are_told_of() -> None:
    """As after one far too large step: the loss is stuck, and nothing would change it."""
    mine = learner(tiny.llama(), QUICK)
    with torch.no_grad():
        for part in mine.parameters:
            part.zero_()
    before = weights(mine)
    with pytest.raises(ModelError, match=r"step 2: the training diverged: no gradient is left at"):
        update(mine, three(), method="exact", step=2)
    assert all(torch.equal(one, two) for one, two in zip(before, weights(mine), strict=True))


def test_a_training_that_diverges_is_stopped_and_the_rest_goes_on(tmp_path: Path) -> None:
    wild = replace(QUICK, learning_rate=30.0, grad_clip=None)
    plan = Plan(files=("none",), methods=("rightmost", "exact"), recipe=wild, watch=0)
    held = Material(three(), three(), "")
    events = list(run(plan, tmp_path, held, model=tiny.llama()))
    assert [event.arm for event in events if event.failure] == ["rightmost", "exact"]
    states = statuses(tmp_path)
    assert {one.state for one in states.values()} == {"failed"}
    for arm, one in states.items():
        assert "lower the learning rate" in one.message
        mine = learner(tiny.llama(), wild)
        assert checkpoint.load(mine, tmp_path / "arms" / arm) == one.step > 0
    steps = {arm: one.step for arm, one in states.items()}
    assert table(tmp_path, "steps").groupby("arm")["step"].count().to_dict() == steps


def test_an_arm_that_had_diverged_says_so_again_when_the_run_is_resumed(tmp_path: Path) -> None:
    wild = replace(QUICK, learning_rate=30.0, grad_clip=None)
    plan = Plan(files=("none",), methods=("rightmost",), recipe=wild, watch=0)
    held = Material(three(), three(), "")
    assert "diverged" in list(run(plan, tmp_path, held, model=tiny.llama()))[-1].failure
    before = statuses(tmp_path)["rightmost"], table(tmp_path, "steps")
    resumed = run(plan, tmp_path, held, model=tiny.llama())
    event = next(resumed)
    assert event.failure == before[0].message
    assert (event.done, event.total) == (4, 4)
    assert next(resumed, None) is None
    assert statuses(tmp_path)["rightmost"] == before[0]
    pd.testing.assert_frame_equal(table(tmp_path, "steps"), before[1])


def test_an_arm_that_runs_out_of_memory_leaves_the_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = attention.hidden_states

    def short(model: object, part: Layout, *rest: object, **named: object) -> object:
        if part.visible_until is not None and torch.is_grad_enabled():
            raise MemoryShortageError(
                "a row of 19 tokens does not fit; logit_tree has shorter rows"
            )
        return full(model, part, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(attention, "hidden_states", short)
    plan = Plan(files=("none",), methods=("branch_packed", "rightmost"), recipe=QUICK, watch=0)
    held = Material(three(), three(), "")
    events = list(run(plan, tmp_path, held, model=tiny.llama()))
    assert [event.arm for event in events if event.failure] == ["branch_packed"]
    states = statuses(tmp_path)
    assert (states["branch_packed"].state, states["rightmost"].state) == ("failed", "done")
    assert "does not fit" in states["branch_packed"].message
    assert set(table(tmp_path, "steps")["arm"]) == {"rightmost"}


def test_a_step_tells_its_first_notes_and_counts_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = count(1)

    def noted(*given: Any, **named: Any) -> Iterator[RowLoss]:
        for part in arm_losses(*given, **named):
            part.add(["rows ran one by one", f"a row of {next(numbers)} tokens did not fit"])
            yield part

    monkeypatch.setattr(loop, "arm_losses", noted)
    recipe = replace(QUICK, steps=1, batch_tokens=1000)
    (report,) = train(learner(tiny.llama(), recipe), three(), method="logit_tree")
    first, *rows, more = report.note.split("; ")
    assert first == "rows ran one by one"
    assert rows == [f"a row of {number} tokens did not fit" for number in (1, 2)]
    made = next(numbers) - 1
    assert made > 2
    assert more == f"and {made - 2} more"


def test_a_shortage_on_the_way_back_is_told_and_changes_no_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The step goes on in smaller pieces; its report and the folder of the run say so."""
    quick = replace(QUICK, steps=1)
    told = []
    endings: tuple[dict[int, int], ...] = ({}, {0: 3})
    for ends in endings:
        mine = learner(tiny.llama(), quick)
        with short_of_memory(mine.model, ends.get):
            (report,) = train(mine, three(), method="packed_mask")
        told.append((report, weights(mine)))
    (plain, expected), (report, found) = told
    assert plain.note == ""
    assert re.fullmatch(
        r"a row of \d+ tokens did not fit in the memory of cpu: its layers ran twice", report.note
    )
    assert report.grad_norm == pytest.approx(plain.grad_norm, rel=1e-5)
    assert all(
        torch.allclose(one, two, atol=1e-3) for one, two in zip(found, expected, strict=True)
    )
    results = Results(tmp_path, Plan(files=("none",), methods=("packed_mask",), recipe=quick))
    results.add_step("packed_mask", report)
    results.write()
    steps = table(tmp_path, "steps")
    assert steps["note"].tolist() == [report.note]
    later = pd.concat([steps, steps.assign(step=1, note=""), steps.assign(step=2, note="other")])
    line = f"packed_mask, first in step 0 and in 2 steps in all: {report.note}"
    assert notes(later) == [line]
    assert notes(steps.drop(columns="note")) == []
    print_event(Event("packed_mask", 1, 1, 0.0, step=report), as_json=False)
    assert f"mwviz: packed_mask: step 0: {report.note}" in capsys.readouterr().err


def test_rollouts_without_targets_are_refused_or_passed_over() -> None:
    nothing = analysis("nothing", (([1, 2, 3], []),))
    mine = learner(tiny.llama(), QUICK)
    with pytest.raises(ViewError, match="rightmost trains no token"):
        list(train(mine, (nothing,), method="rightmost"))
    reports = list(train(mine, (nothing, *three()), method="rightmost"))
    assert len(reports) == QUICK.steps
    alone = update(mine, (nothing,), method="rightmost", step=0)
    assert (alone.loss, alone.targets, alone.grad_norm) == (None, 0, 0.0)


def test_a_rollout_that_an_arm_cannot_lay_out_is_named() -> None:
    mine = learner(tiny.llama(), QUICK)
    with pytest.raises(ViewError, match="rollout 'fold': union_mask cannot express this rollout"):
        list(train(mine, three(), method="union_mask"))


def test_rollouts_of_one_token_train() -> None:
    single = analysis("single", (([1, 2], [3]),))
    orphan = analysis("orphan", (([], [3]),))
    for method in arms("all"):
        mine = learner(tiny.llama(), QUICK)
        report = update(mine, (single, orphan), method=method, step=3)
        assert report.targets == 1, method
        assert report.loss is not None


def test_a_policy_gradient_says_what_is_missing() -> None:
    policy = replace(QUICK, objective="policy")
    mine = learner(tiny.llama(), policy)
    mute = analysis("mute", tiny.REWIND, reward=1.0, logprobs=False)
    with pytest.raises(TraceError, match="'mute' has no recorded log-probabilities"):
        list(train(mine, (mute, *three()), method="exact"))
    unpaid = analysis("unpaid", tiny.REWIND)
    with pytest.raises(TraceError, match="'unpaid' has no reward"):
        list(train(mine, (unpaid, *three()), method="exact"))
    equal = [analysis(name, tiny.REWIND, reward=0.5) for name in ("a", "b")]
    with pytest.raises(TraceError, match=r"all rewards are equal \(0.5\)"):
        list(train(mine, equal, method="exact"))
    with pytest.raises(ViewError, match="needs advantages"):
        update(mine, three(), method="exact", step=0)
    with pytest.raises(ViewError, match="nll takes none"):
        update(learner(tiny.llama(), QUICK), three(), method="exact", step=0, advantages=(1, 1, 1))


def test_advantages_compare_rollouts_of_the_same_task_first() -> None:
    same = [analysis(f"same{n}", tiny.REWIND, reward=float(n)) for n in range(3)]
    other = analysis("other", tiny.RUNNING_EXAMPLE, reward=5.0)
    found = recorded_advantages((*same, other))
    spread = np.std([0.0, 1.0, 2.0])
    assert found[:3] == pytest.approx([-1 / spread, 0.0, 1 / spread])
    rewards = np.array([0.0, 1.0, 2.0, 5.0])
    assert found[3] == pytest.approx((5 - rewards.mean()) / rewards.std())


def test_ids_of_a_larger_vocabulary_are_refused() -> None:
    strange = analysis("strange", (([1, 2], [tiny.VOCABULARY]),))
    with pytest.raises(ModelError, match=f"token id {tiny.VOCABULARY} of rollout 'strange'"):
        fitted((strange,), tiny.llama())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps is 0; expected a whole number from 1 on"),
        ({"seed": -1}, "seed is -1"),
        ({"steps": 1.5}, "steps is 1.5"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0; expected a number above 0"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"rise": 1.5}, "rise is 1.5; expected a number from 0 on, at most 1"),
        ({"objective": "ppo"}, "unknown objective 'ppo'; expected nll or policy"),
        ({"clip": (1.1, 1.2)}, "clip is"),
        ({"lora_rank": 0}, "lora_rank is 0"),
        ({"grad_clip": -1.0}, "grad_clip is -1.0"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ViewError) as caught:
        Recipe(**changes)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_recipes_and_plans_survive_json() -> None:
    recipe = Recipe(steps=7, clip=(0.5, 2.0), lora_rank=4, objective="policy", grad_clip=None)
    plan = Plan(files=("a b.jsonl",), methods=("sdcc",), recipe=recipe, held_out=("h",), watch=3)
    assert Plan.from_json(plan.to_json()) == plan
    with pytest.raises(ViewError, match="unknown field 'stepz'"):
        Recipe.from_json({"stepz": 3})


def test_arms_are_methods_exact_and_own_batches() -> None:
    assert arms("rightmost, exact,own:x/batch.npz") == ("rightmost", "exact", "own:x/batch.npz")
    with pytest.raises(ViewError, match=r"unknown method 'leftmost'.*, exact, own:BATCH$"):
        arms("leftmost")


def test_arms_that_recompute_what_a_cache_kept_are_named(tmp_path: Path) -> None:
    calls = [([0, 1, 2], [3, 4]), ([0, 2, 3, 4], [5])]
    lines = [
        json.dumps({"lineage": "m", "prompt_ids": p, "completion_ids": c, "semantics": "kv_orig"})
        for p, c in calls
    ]
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(lines))
    plan = Plan((str(path),), ("rightmost", "logit_tree", "union_mask", "packed_mask", "exact"))
    note = material(plan).note
    assert "1 of 1 rollout kept entries" in note
    assert "logit_tree, packed_mask encode each context anew" in note
    assert "kept" not in material(replace(plan, methods=("rightmost", "exact"))).note
    path.write_text("\n".join(lines).replace("kv_orig", "re_prefill"))
    assert "kept" not in material(plan).note


def test_what_a_plan_names_must_be_there(tmp_path: Path) -> None:
    line = '{"prompt_ids": [1, 2], "completion_ids": [3]}\n'
    path = tmp_path / "run.jsonl"
    path.write_text(line)
    plan = Plan(files=(str(path),), methods=("exact",))
    held = material(plan)
    assert len(held.trained) == 1
    assert held.held_out is held.trained
    assert "nothing is held out" in held.note
    with pytest.raises(TraceError, match="no rollout 'gone'"):
        material(replace(plan, rollouts=("gone",)))
    with pytest.raises(TraceError, match="nothing is left to hold out; hold out another file"):
        material(replace(plan, held_out=(str(path),)))
    with pytest.raises(ViewError, match="at least one file"):
        Plan(files=(), methods=("exact",))
