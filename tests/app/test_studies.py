"""Jobs that look into one thing: started from the page, shown when they are done."""

from __future__ import annotations

import base64
import json
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mwviz import serve
from mwviz.attended import LONGEST, PASSES, Attended
from mwviz.engine.attention_mass import MOST_WEIGHTS
from mwviz.quantise import Quantised, restore
from mwviz.restored import Cost
from mwviz.undo import undo
from mwviz_app import cards, looks, memory, numbers, runs, state, studies, whatif
from mwviz_app.state import Opened
from tests.app.conftest import PATIENCE, press, waited
from tests.saved_model import save_tiny_model

CALLS = (
    ([1, 2], [3]),
    ([1, 2, 3, 4], [5, 10]),
    ([1, 2, 3, 4, 5, 10, 6, 7], [8]),
    ([1, 2, 8, 5, 10, 6], [9]),
)
"""A summary, 8, in front of a kept tail."""
WHAT_IF = "What if nothing had been evicted?"


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A tiny model offered by the app beside one trace."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(memory, "_path", lambda: tmp_path / "cache" / "app.json")
    model, trace = tmp_path / "tiny", tmp_path / "run.jsonl"
    save_tiny_model(model)
    trace.write_text(
        "\n".join(json.dumps({"prompt_ids": p, "completion_ids": c}) for p, c in CALLS)
    )
    launch = serve.Launch((str(trace),), (str(model),), "cpu")
    monkeypatch.setattr(sys, "argv", ["main.py", launch.to_argument()])
    monkeypatch.setattr(studies, "model_of", lambda *_: str(model))
    st.cache_resource.clear()
    yield str(model)
    state.worker().close()
    st.cache_resource.clear()


def finished(page: AppTest) -> AppTest:
    waited(page)
    assert [job.status for job in state.worker().states()] == ["done"] * len(
        state.worker().states()
    ), [job.message for job in state.worker().states()]
    return page


def test_what_if_nothing_had_been_evicted_is_asked_of_the_selected_token(tiny: str) -> None:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()
    opened = state.opened() or Opened("", 0)
    analysis = state.analysis(opened)
    last = len(analysis.tree.token) - 1
    press(page, WHAT_IF)
    assert not state.worker().states(), "nothing is selected yet"
    page.session_state["selection"] = cards.of_target(analysis, 0)
    press(page, WHAT_IF)
    assert not state.worker().states(), "nothing left before this token"
    page.session_state["selection"] = cards.of_target(analysis, last)
    press(page, WHAT_IF)
    press(page, WHAT_IF)
    assert len(state.worker().states()) == 1, "the same study runs once"
    finished(page)
    done = studies.last(opened, "undo", studies.NO_METHOD, tiny, 0)
    assert done is not None
    assert done.result is not None
    cost = Cost.from_json(done.result)
    answer = whatif.answer(opened, analysis, None, last)
    assert answer is not None
    assert (answer.call, answer.tokens) == (analysis.junction_list[0].call, cost.tokens)
    [exact] = [one.change for one in cost.most if one.target == last]
    assert answer.change == pytest.approx(exact, rel=0.05, abs=cost.floor)
    chosen = cards.of_target(analysis, last)
    told = cards.card(analysis, "rightmost", chosen, None, None, answer)
    assert told["whatif"] == [answer.call, cost.tokens, round(answer.change, 4), cost.floor]
    assert whatif.answer(opened, analysis, None, 0) is None


def test_what_if_is_refused_where_the_context_was_restored_since(tiny: str, tmp_path: Path) -> None:
    calls = (([1, 2], [3]), ([1, 2, 3, 4], [5]), ([1, 4], [6]), ([1, 2, 3, 4, 6, 7], [11]))
    lines = [json.dumps({"prompt_ids": p, "completion_ids": c}) for p, c in calls]
    (tmp_path / "run.jsonl").write_text("\n".join(lines))
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()
    analysis = state.analysis(state.opened() or Opened("", 0))
    for target, said in ((0, whatif.NOTHING), (3, whatif.ELSEWHERE)):
        assert whatif.eviction_before(analysis, target) is None
        page.session_state["selection"] = cards.of_target(analysis, target)
        press(page, WHAT_IF)
        assert [toast.value for toast in page.toast] == [said]
    assert not state.worker().states(), f"{tiny} is asked nothing"
    (dropped, restored) = analysis.junction_list
    assert (len(dropped.evicted), len(restored.evicted)) == (3, 0)
    assert whatif.eviction_before(analysis, 2) == 0
    assert undo(analysis.tree, dropped).calls == (2,)


def words(page: AppTest) -> str:
    return "\n".join(text.value for text in page.text)


def mean_kl(opened: Opened) -> float:
    """Mean of what the page may colour by once the distances of rightmost are measured."""
    setup = next(iter(state.scored(opened)))
    [kl] = numbers.distances(opened, setup, state.comparisons(opened, setup, "logit_tree"))
    codes = np.frombuffer(base64.b64decode(kl["codes"]), dtype=np.uint8)
    targets = len(state.analysis(opened).tree.token)
    assert (kl["kind"], kl["view"], len(codes)) == ("kl", "rightmost", targets)
    return float(np.nanmean(restore(Quantised(codes, kl["floor"], kl["scale"]))))


def test_causes_cost_and_distances_are_asked_for_and_shown(tiny: str) -> None:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE).run()
    press(page, "What causes this?")
    assert not state.worker().states(), "nothing is selected yet"
    opened = state.opened() or Opened("", 0)
    analysis = state.analysis(opened)
    target = next(int(t) for t in range(5) if analysis.tree.ids[analysis.tree.token[t]] == 10)
    page.session_state["selection"] = cards.of_target(analysis, target)
    press(page, "What causes this?")
    press(page, "What causes this?")
    assert len(state.worker().states()) == 1, "the same study runs once"
    press(page, "Undo this eviction")
    page.session_state["deck"] = "Drift in charts"
    finished(page)
    found = studies.causes(opened, "rightmost", None, target)
    assert found is not None
    told = cards.card(analysis, "rightmost", cards.of_target(analysis, target), None, found)
    assert [len(side) for side in told["likely"]] == [5, 5]
    changes = [abs(span[4]) for span in told["spans"]]
    assert changes == sorted(changes, reverse=True)
    assert len(json.dumps(told, ensure_ascii=False).encode()) < 1_150
    page.session_state["deck"] = "Where the context changed"
    page.run()
    text = "\n".join(one.value for one in page.text)
    undone = studies.last(opened, "undo", studies.NO_METHOD, tiny, 0)
    assert undone is not None
    assert undone.result is not None
    cost = Cost.from_json(undone.result)
    assert f"With {cost.tokens} tokens put back, log p " in text
    assert "nats on average over 1 later sampled token; information lost" in text
    runs.start(opened, ("rightmost",), tiny)
    page.session_state["deck"] = "Drift in charts"
    finished(page)
    press(page, "Measure the distances")
    finished(page)
    facts = page.table[0].value.set_index("what")["value"]
    assert facts["tokens above their bound"].startswith("0 ")
    assert "no bound" in page.caption[-1].value
    shown = float(facts["mean KL(true || view)"].split()[0])
    assert mean_kl(opened) == pytest.approx(shown, rel=0.1)


@pytest.mark.usefixtures("tiny")
def test_where_a_token_looks_is_asked_for_and_shown() -> None:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE)
    page.session_state["looks"] = True
    page.run()
    assert "Select a sampled token that rightmost trains." in words(page)
    opened = state.opened() or Opened("", 0)
    analysis = state.analysis(opened)
    target = next(int(t) for t in range(5) if analysis.tree.ids[analysis.tree.token[t]] == 10)
    page.session_state["selection"] = cards.of_target(analysis, target)
    page.run()
    assert looks.DEFINITION in [caption.value for caption in page.caption]
    press(page, "Read its attention")
    finished(page)
    [job] = state.worker().states()
    assert (job.job.kind, job.job.at, job.total) == ("attention", target, PASSES)
    assert job.result is not None
    told = Attended.from_json(job.result)
    assert told.sentence in words(page)
    assert f"By depth: {told.depths}." in words(page)
    assert "Read its attention" not in [button.label for button in page.button]
    classes, texts = (table.value for table in page.dataframe if "class" in table.value.columns)
    shares = dict(zip(classes["class"], classes["share of attention"], strict=True))
    assert list(classes) == ["class", "tokens", "share of attention", "measured in"]
    assert shares == {name: f"{told.share(name):.1%}" for name in ("agree", "future", "erased")}
    assert texts["view"].sum() == pytest.approx(told.coverage)
    assert texts["true context"].sum() == pytest.approx(1, abs=1e-5)
    [missing] = {*texts["class"][texts["view"].isna()]}
    assert missing == "erased"
    assert looks.NOT_CAUSES in [caption.value for caption in page.caption]
    assert told.terms in "\n".join(caption.value for caption in page.caption)
    page.session_state["view"] = "packed_mask"
    page.run()
    assert "Read its attention" in [button.label for button in page.button], "another question"


@pytest.mark.usefixtures("tiny")
def test_a_row_too_long_for_any_model_is_refused_before_a_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE)
    page.session_state["looks"] = True
    page.run()
    opened = state.opened() or Opened("", 0)
    analysis = state.analysis(opened)
    monkeypatch.setattr(looks, "LONGEST", 3)
    page.session_state["selection"] = cards.of_target(analysis, 2)
    page.run()
    assert "up to this token has 4 tokens: too many for attention weights" in words(page)
    assert "Read its attention" not in [button.label for button in page.button]
    assert not state.worker().states()
    assert math.isqrt(MOST_WEIGHTS) == LONGEST, "the page and the engine refuse alike"


def test_a_study_of_another_tokenizer_is_refused_in_words(tiny: str) -> None:
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE)
    opened = Opened("control", 0)
    page.session_state["opened"] = opened
    page.run()
    studies.start(opened, "causes", "rightmost", tiny, 0)
    deadline = time.monotonic() + PATIENCE
    while any(job.live for job in state.worker().states()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    page.run()
    assert not page.exception
    assert page.error[0].value == "The job failed."
    assert "tokenizer" in "\n".join(text.value for text in page.text)
