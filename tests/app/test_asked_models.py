"""Models that the app is asked to run: checkpoints that are damaged, gone or changed since."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from mwviz import serve
from mwviz.errors import ModelError
from mwviz.training.plan import Plan, material
from mwviz.training.recipe import Recipe
from mwviz.training.runs import run
from mwviz_app import asked, cards, checkpoints, runs, state, studies, waiting, whatif
from mwviz_app.scored import Setup, name_of
from mwviz_app.state import Opened
from tests.app.conftest import PATIENCE, press, waited

RUN = "20260101-000000-aaaaaa"
ARMS = ("rightmost", "packed_mask")


@pytest.fixture(autouse=True)
def trained(tiny_app: Path) -> Path:
    """The folder of a finished run of two arms on the one trace that the app has."""
    train(tiny_app, steps=2)
    return checkpoints.folder() / RUN


def train(tmp_path: Path, *, steps: int) -> None:
    plan = Plan(
        files=(str(tmp_path / "run.jsonl"),),
        methods=ARMS,
        recipe=Recipe(steps=steps, lora_rank=2, learning_rate=0.05),
        model=str(tmp_path / "tiny"),
        watch=0,
        device="cpu",
    )
    list(run(plan, checkpoints.folder() / RUN, material(plan)))


def rollout() -> Opened:
    opened = state.opened()
    assert opened is not None
    return opened


def scored_by(checkpoint: Path) -> tuple[AppTest, Setup]:
    """The Debug page once a checkpoint has scored the rollout, a sampled token selected."""
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()
    runs.start(rollout(), ("rightmost",), str(checkpoint))
    waited(page.run())
    [setup] = state.scored(rollout())
    page.session_state["selection"] = cards.of_target(state.analysis(rollout()), 2)
    return page.run(), setup


def said(page: AppTest) -> str:
    return "\n".join(one.value for one in (*page.text, *page.warning))


def damage(folder: Path) -> None:
    (folder / "training.json").write_text("{")


def other(folder: Path) -> None:
    about = json.loads((folder / "training.json").read_text())
    about["model"] = "another"
    (folder / "training.json").write_text(json.dumps(about))


@pytest.mark.parametrize(
    ("happens", "words"),
    [
        (damage, "the checkpoint is damaged. Train it again"),
        (shutil.rmtree, "the checkpoint is gone, expected training.json in it. Train it again"),
        (other, f"is a checkpoint of another+{RUN}/rightmost now, expected tiny+"),
    ],
    ids=["damaged", "gone", "other"],
)
def test_nothing_is_asked_of_another_model_where_the_scored_one_cannot_be_run(
    trained: Path, happens: Callable[[Path], None], words: str
) -> None:
    checkpoint = trained / "arms" / "rightmost"
    page, setup = scored_by(checkpoint)
    assert studies.model_of(rollout(), setup) == str(checkpoint)
    assert studies.refusal(rollout(), setup) == ""
    before = len(state.worker().states())
    happens(checkpoint)
    page.session_state["looks"] = True
    press(page, "What causes this?")
    assert [toast.value for toast in page.toast] == [waiting.REFUSED]
    assert "The model of these scores cannot be asked." in said(page)
    assert words in said(page)
    assert str(checkpoint) in said(page)
    assert "Read its attention" not in [button.label for button in page.button]
    assert not [b for b in page.button if b.label == "Undo this eviction"]
    page.session_state["deck"] = "Drift in charts"
    page.run()
    assert not page.exception
    assert "Measure the distances" not in [button.label for button in page.button]
    assert len(state.worker().states()) == before


def test_a_model_that_this_start_does_not_offer_is_named() -> None:
    AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()
    setup = Setup("elsewhere@1", "float32", "cpu")
    refused = studies.refusal(rollout(), setup)
    assert refused.startswith("elsewhere: this start of the app does not offer it. Start it with")
    assert studies.model_of(rollout(), setup) == "elsewhere", "never the first model"
    assert studies.refusal(rollout(), None) == ""


def test_a_checkpoint_is_found_though_too_many_later_ones_are_offered_first(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "MOST", 0)
    path = str(trained / "arms" / "packed_mask")
    name = checkpoints.scored_as(path)
    assert path not in state.models()
    assert checkpoints.named(name, state.models()) == path
    with pytest.raises(ModelError, match="the checkpoint is gone"):
        checkpoints.named(name.replace("packed_mask", "replay"), state.models())


def test_a_checkpoint_that_has_changed_since_it_scored_is_not_asked(
    trained: Path, tmp_path: Path
) -> None:
    """As after Resume: the folder is the same, the weights are not."""
    page, setup = scored_by(trained / "arms" / "rightmost")
    shutil.rmtree(trained)
    train(tmp_path, steps=4)
    press(page, "What causes this?")
    waited(page)
    assert page.error[0].value == "The job failed."
    assert f"{name_of(setup.model)} has changed since it scored this rollout" in said(page)
    assert studies.causes(rollout(), "rightmost", setup, 2) is None
    runs.start(rollout(), ("rightmost",), str(trained / "arms" / "rightmost"))
    waited(page.run())
    old, new = sorted(state.scored(rollout()), key=lambda one: one.model != setup.model)
    assert (old.model, name_of(new.model)) == (setup.model, name_of(setup.model))
    studies.start(
        rollout(), "causes", "rightmost", studies.model_of(rollout(), new), 2, scored=new.model
    )
    waited(page)
    assert studies.causes(rollout(), "rightmost", new, 2) is not None
    assert studies.causes(rollout(), "rightmost", old, 2) is None
    model, analysis = studies.model_of(rollout(), new), state.analysis(rollout())
    studies.start(rollout(), "undo", studies.NO_METHOD, model, 0, scored=new.model)
    waited(page)
    assert whatif.answer(rollout(), analysis, new, 2) is not None
    assert whatif.answer(rollout(), analysis, old, 2) is None


def test_two_arms_of_a_run_are_sent_to_debug_and_subtracted() -> None:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()
    page.switch_page("train_page.py").run()
    a, b = (next(one for one in page.selectbox if one.label == side) for side in "AB")
    assert a.options == [
        "rightmost (after 2 steps)",
        "packed_mask (after 2 steps)",
        "the model before training",
    ]
    assert (a.value, b.value) == (a.options[0], a.options[1])
    b.set_value(a.options[2]).run()
    press(page, "Compare in Debug")
    assert any("Both models still read the rollout." in info.value for info in page.info)
    waited(page.switch_page("debug_page.py"))
    chosen = page.session_state[asked.COMPARED][1]
    assert name_of(chosen.a.setup.model) == f"tiny+{RUN}/rightmost"
    assert name_of(chosen.b.setup.model) == "tiny"
    assert (chosen.a.view, chosen.b.view, chosen.quantity) == ("packed_mask",) * 2 + ("log p",)
    pickers = [one for one in page.selectbox if one.label in ("A: model", "B: model")]
    assert [one.value for one in pickers] == [chosen.a.setup, chosen.b.setup]
    assert asked.AWAITED not in page.session_state
    assert "First divergence: " in said(page)
    assert page.session_state["view"] == "packed_mask"
    assert page.session_state[asked.SHOWN].kind == "beside"
    assert f"log p of B (packed_mask, tiny) minus that of A (packed_mask, {RUN} · rightmost)" in (
        said(page)
    )


def test_a_checkpoint_trained_on_since_is_compared_by_its_new_scores(
    trained: Path, tmp_path: Path
) -> None:
    def compared() -> Setup:
        page.switch_page("train_page.py").run()
        b = next(one for one in page.selectbox if one.label == "B")
        b.set_value(b.options[2]).run()
        press(page, "Compare in Debug")
        waited(page.switch_page("debug_page.py"))
        setup: Setup = page.session_state[asked.COMPARED][1].a.setup
        return setup

    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()
    before = compared()
    page.switch_page("train_page.py").run()  # else the pickers are read by words of before
    shutil.rmtree(trained)
    train(tmp_path, steps=4)
    after = compared()
    assert name_of(after.model) == name_of(before.model)
    assert after != before


def test_scores_from_before_a_checkpoint_was_trained_on_do_not_stand_in_for_a_run_that_fails(
    trained: Path, tmp_path: Path
) -> None:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()
    runs.start(rollout(), ("packed_mask",), str(trained / "arms" / "rightmost"))
    waited(page.run())
    [old] = state.scored(rollout())
    shutil.rmtree(trained)
    train(tmp_path, steps=4)
    (trained / "arms" / "rightmost" / "adapter_model.safetensors").write_bytes(b"no")
    page.switch_page("train_page.py").run()
    press(page, "Compare in Debug")
    waited(page.switch_page("debug_page.py"))
    assert old in state.scored(rollout()), "they are still there"
    assert any("One of the two models has no scores" in info.value for info in page.info)
    assert asked.COMPARED not in page.session_state


def test_a_comparison_whose_model_fails_says_so(trained: Path) -> None:
    (trained / "arms" / "rightmost" / "adapter_model.safetensors").write_bytes(b"no")
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()
    page.switch_page("train_page.py").run()
    press(page, "Compare in Debug")
    waited(page.switch_page("debug_page.py"))
    assert page.error[0].value == "The job failed."
    assert any("One of the two models has no scores" in info.value for info in page.info)
    press(page, "Compare something else")
    assert not any("One of the two models" in info.value for info in page.info)
    assert [one for one in page.selectbox if one.label == "A: model"]


def test_a_run_that_cannot_be_read_is_named_in_the_lab(trained: Path) -> None:
    (trained / "status.json").write_text("{}")
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()
    page.switch_page("train_page.py").run()
    assert not page.exception
    assert page.error[0].value == "A run cannot be read, so it is not offered below."
    assert f"{RUN}: {trained / 'status.json'}: says nothing of arm 'rightmost'" in said(page)


def test_a_run_with_a_damaged_table_says_which(trained: Path) -> None:
    (trained / "steps.parquet").write_bytes(b"PAR1")
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()
    page.switch_page("train_page.py").run()
    assert not page.exception
    assert f"{trained / 'steps.parquet'}: cannot be read" in said(page)
