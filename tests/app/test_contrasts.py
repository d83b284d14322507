"""B - A on the Debug page, and the numbers that travel apart from the payload."""

from __future__ import annotations

import base64
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from mwviz import serve
from mwviz.compare import Comparison
from mwviz.contrast import contrast
from mwviz.demos import DEMOS
from mwviz.distances import Distances
from mwviz.jobs import Job
from mwviz.quantise import Quantised, restore
from mwviz.store import Key
from mwviz_app import asked, checkpoints, contrasts, numbers, state, studies
from mwviz_app.jobs import JobState
from mwviz_app.numbers import Told
from mwviz_app.scored import Chosen, Setup, Side
from mwviz_app.state import Opened
from tests.app.conftest import PATIENCE, press

OPENED = Opened(DEMOS[0].name, 0)
pytestmark = pytest.mark.usefixtures("fresh_caches")


def page_of_b_minus_a(opened: Opened) -> AppTest:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE)
    page.session_state["opened"] = opened
    page.session_state["deck"] = "B - A"
    page.run()
    page.run()
    assert not page.exception
    return page


def nats(told: Told) -> np.ndarray:
    codes = np.frombuffer(base64.b64decode(told["codes"]), dtype=np.uint8)
    return restore(Quantised(codes, told["floor"], told["scale"]))


def test_two_views_are_subtracted_and_everything_is_named() -> None:
    page = page_of_b_minus_a(OPENED)
    setup = next(iter(state.scored(OPENED)))
    found = state.comparisons(OPENED, setup, "logit_tree")
    told = contrast(found["rightmost"], found["replay"])
    [said] = [text.value for text in page.text if text.value.startswith("log p of B (replay")]
    assert f"over the {int(told.both.sum())} sampled tokens that both train" in said
    assert "A covers 100 %, B 100 %. Floors: A" in said
    tables = {frame.value.columns[0]: frame.value for frame in page.dataframe}
    assert tables["tokens of"]["B - A"][0] == pytest.approx(np.nanmean(told.change), rel=1e-4)
    junctions = state.analysis(OPENED).junction_list
    assert list(tables["before call"]["before call"]) == [j.call for j in junctions]
    assert told.first is not None
    tree = state.analysis(OPENED).tree
    place = f"call {tree.call[told.first]}, token {tree.offset[told.first]}"
    assert any(text.value.startswith(f"First divergence: {place}") for text in page.text)
    press(page, "Go to it")
    assert page.session_state["selection"].target == told.first


def test_pickers_are_drawn_from_what_is_compared_also_where_a_page_runs_twice_at_once() -> None:
    page = page_of_b_minus_a(OPENED)
    for name in ("replay", "packed_mask"):
        [view] = [box for box in page.selectbox if box.label == "B: view"]
        assert view.value == view.options[view.proto.default] == name
        view.select("packed_mask").run()


def test_a_row_picked_for_one_choice_picks_nothing_for_another() -> None:
    """Streamlit keeps a picked row by the key of the table, however few rows that has by then."""
    page = page_of_b_minus_a(OPENED)

    def calls() -> str:
        [found] = [one for one in page.dataframe if one.value.columns[0] == "call"]
        return str(found.proto.id)

    before = calls()
    [view] = [box for box in page.selectbox if box.label == "B: view"]
    view.select("last_call").run()
    assert calls() != before
    view.select("replay").run()
    assert calls() == before


def test_the_colour_of_b_minus_a_is_asked_for_and_follows_the_choice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = page_of_b_minus_a(OPENED)
    press(page, "Colour text and strip by B - A")
    first = page.session_state[asked.SHOWN]
    press(page, "Colour text and strip by B - A")
    assert page.session_state[asked.SHOWN] == asked.Shown("beside", first.serial + 1)
    opened, chosen = page.session_state[asked.COMPARED]
    assert (opened, chosen.a.view, chosen.b.view) == (OPENED, "rightmost", "replay")
    sent: list[str] = []
    told = numbers.beside

    def listened(opened: Opened, against: str) -> list[Told]:
        found = told(opened, against)
        sent.append(str(found))
        return found

    monkeypatch.setattr(numbers, "beside", listened)
    [view] = [box for box in page.selectbox if box.label == "B: view"]
    view.select("packed_mask").run()
    assert "log p of B (packed_mask" in sent[-1], "a new choice reaches the workbench at once"


def test_what_was_chosen_for_another_rollout_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = next(iter(state.scored(OPENED)))
    chosen = Chosen(Side(setup, "rightmost"), Side(setup, "replay"), "log p")
    kept = {asked.COMPARED: (OPENED, chosen)}
    monkeypatch.setattr("streamlit.session_state", kept)
    [told] = numbers.beside(OPENED, "logit_tree")
    found = state.comparisons(OPENED, setup, "logit_tree")
    wanted = found["replay"].view.logprob - found["rightmost"].view.logprob
    np.testing.assert_allclose(nats(told), wanted, rtol=0.1, atol=1.1 * told["floor"])
    assert "log p of B (replay" in told["about"]
    assert numbers.beside(Opened("tidy", 0), "logit_tree") == []
    gone = Chosen(Side(setup, "rightmost"), Side(setup, "no such view"), "log p")
    kept[asked.COMPARED] = (OPENED, gone)
    assert numbers.beside(OPENED, "logit_tree") == []


def test_a_view_is_not_compared_with_itself_and_an_unscored_rollout_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = page_of_b_minus_a(OPENED)
    [view] = [box for box in page.selectbox if box.label == "B: view"]
    view.select("rightmost").run()
    assert "A and B are the same." in "\n".join(info.value for info in page.info)
    path = tmp_path / "run.jsonl"
    path.write_text(json.dumps({"prompt_ids": [1], "completion_ids": [2]}))
    monkeypatch.setattr(sys, "argv", ["main.py", serve.Launch((str(path),)).to_argument()])
    [named] = [key for key, source in state.traces().items() if source.origin == "start"]
    page = page_of_b_minus_a(Opened(named, 0))
    assert "No view of this rollout is scored" in "\n".join(info.value for info in page.info)


def test_advantages_come_from_the_rewards_of_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(*rewards: float | None) -> Told:
        path = tmp_path / f"{len(rewards)}-{rewards[0]}-{rewards[-1]}.jsonl"
        lines = []
        for rollout, reward in enumerate(rewards):
            call = {"rollout": str(rollout), "prompt_ids": [1, 2], "completion_ids": [3, 4]}
            lines.append(json.dumps(call if reward is None else {**call, "reward": reward}))
        path.write_text("\n".join(lines))
        monkeypatch.setattr(sys, "argv", ["main.py", serve.Launch((str(path),)).to_argument()])
        [named] = [key for key, source in state.traces().items() if source.origin == "start"]
        opened = Opened(named, 0)
        return numbers.advantage(opened)

    assert "the file holds one rollout" in told(1.0)["why"]
    assert "all rewards are equal" in told(0.5, 0.5)["why"]
    assert "has no reward" in told(1.0, None)["why"]
    np.testing.assert_allclose(nats(told(0.0, 1.0)), [-1.0])


def test_two_checkpoints_are_compared_under_the_same_view(monkeypatch: pytest.MonkeyPatch) -> None:
    real, compared = state.scored(OPENED), state.comparisons
    [setup] = real
    other = setup._replace(model="trained@1")

    def shifted(opened: Opened, chosen: Setup | None, against: str) -> dict[str, Comparison]:
        found = compared(opened, setup, against)
        if chosen != other:
            return found
        return {
            name: replace(one, view=replace(one.view, logprob=one.view.logprob - 0.5))
            for name, one in found.items()
        }

    monkeypatch.setattr(state, "scored", lambda _: {setup: real[setup], other: real[setup]})
    monkeypatch.setattr(state, "comparisons", shifted)
    page = page_of_b_minus_a(OPENED)
    said = [text.value for text in page.text if text.value.startswith("log p of B")]
    assert said[0].startswith("log p of B (rightmost, trained) minus that of A (rightmost, SmolLM2")
    [table] = [frame.value for frame in page.dataframe if frame.value.columns[0] == "tokens of"]
    assert table["B - A"][0] == pytest.approx(-0.5, abs=1e-5)
    assert table["above floor"][0] == table["tokens"][0]


def test_what_a_run_scored_is_told_from_the_same_model_on_another_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran = Setup("trained@1", "float32", "cpu")
    others = [ran._replace(device="cuda:0"), ran._replace(dtype="bfloat16")]
    job = Job("a", "score", "log", "r", "rightmost", "path")
    key = Key(state.digest(OPENED), ran.model, "rightmost", ran.dtype, "reference", ran.device)
    done = JobState(job, "done", result={"key": key._asdict()})
    monkeypatch.setattr(state, "jobs_of", lambda _: [done])
    monkeypatch.setattr(checkpoints, "named", lambda *_: "path")
    monkeypatch.setattr(state, "scored", lambda _: dict.fromkeys([*others, ran]))
    assert contrasts._as_run_last(OPENED, "trained", "rightmost") == Side(ran, "rightmost")
    monkeypatch.setattr(state, "scored", lambda _: dict.fromkeys(others))
    assert contrasts._as_run_last(OPENED, "trained", "rightmost") is None


def test_sides_of_a_link_are_sought_among_kept_scores_of_every_rollout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sought: list[Opened] = []
    monkeypatch.setattr(state, "recall", lambda opened, _: sought.append(opened))
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE)
    for trace in ("busy", "tidy"):
        page.query_params["t"] = trace
        page.query_params["ba"] = "replay-01234567-rightmost-01234567-p"
        page.run().run()
        assert not page.exception
    assert sought == [Opened("busy", 0), Opened("tidy", 0)]


def test_kl_measured_with_a_checkpoint_of_before_colours_no_scores_of_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = Job("a", "distances", "log", "r", "rightmost", "folder", at=0)
    told = replace(job, tokens=state.digest(OPENED), scored="trained@1")
    done = JobState(told, "done", result={"tokens": None})
    monkeypatch.setattr(studies, "started", lambda _: [done])
    monkeypatch.setattr(studies, "model_of", lambda *_: "folder")
    read: list[object] = []

    def unread(told: object) -> Unread:
        read.append(told)
        return Unread()

    monkeypatch.setattr(Distances, "from_json", unread)
    [real] = state.scored(OPENED)
    compared = state.comparisons(OPENED, real, "logit_tree")
    after = real._replace(model="trained@2")
    assert numbers.distances(OPENED, after, compared) == []
    assert not read
    numbers.distances(OPENED, after._replace(model="trained@1"), compared)
    assert read == [done.result]


class Unread:
    """Distances that hold nothing a token."""

    tokens = None
