"""The demos: rollouts of a trained agent, and what losing its evidence does to them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from mwviz import load
from mwviz.decoder import Decoder
from mwviz.demos import DEMOS, FOLDER, STRESS, Demo, kept_keys, open_demo, write_stress
from mwviz.engine import embedded
from mwviz.engine.model import load_model
from mwviz.pieces import demo_pieces
from mwviz.rollout import Call, Rollout
from mwviz.stress import WORDS, stress_log
from mwviz.tokenizer import embedded_tokenizer
from mwviz.tokens import encode

EVICTIONS = {
    "busy": ("placeholder", 11),
    "tidy": ("placeholder", 1),
    "control": ("", 0),
    "summary": ("summary_tail", 3),
    "fold": ("fold", 3),
    "window": ("drop", 5),
}


@pytest.mark.parametrize("demo", DEMOS, ids=lambda demo: demo.name)
def test_a_demo_answers_everything_with_the_evictions_it_names(demo: Demo) -> None:
    (analysis,) = open_demo(demo).analyses
    kind, count = EVICTIONS[demo.name]
    found = [junction.kind for junction in analysis.junction_list if junction.is_eviction]
    assert found == [kind] * count
    assert analysis.rollout.reward == 1
    assert {call.model for call in analysis.rollout.calls} == {embedded.AGENT}


@pytest.mark.parametrize("demo", DEMOS, ids=lambda demo: demo.name)
def test_exact_scores_are_what_was_recorded(demo: Demo) -> None:
    (analysis,) = open_demo(demo).analyses
    for method in ("logit_tree", "packed_mask"):
        scores = analysis.scores[method]
        assert scores.model.startswith(f"{embedded.AGENT}@")
        np.testing.assert_allclose(scores.logprob, analysis.tree.logprob, atol=1e-4)


@pytest.mark.parametrize("name", ["busy", "tidy", "summary"])
def test_names_whose_evidence_left_fall_by_many_nats(name: str) -> None:
    (demo,) = (one for one in DEMOS if one.name == name)
    (analysis,) = open_demo(demo).analyses
    table = analysis.compared(analysis.scores["rightmost"], analysis.scores["logit_tree"]).table
    drift = table["drift"].to_numpy(dtype=np.float64)
    worst = int(np.nanargmin(drift))
    assert drift[worst] < -15
    text = analysis.decoder.text(analysis.tree.ids[analysis.tree.token[[worst]]])
    assert text[:1] == " "
    assert text[1:2].isupper()


def test_a_demo_reads_as_text_without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "path", lambda: None)
    for demo in DEMOS:
        (analysis,) = load(demo.path).analyses
        first = analysis.decoder.text(analysis.tree.ids[analysis.tree.context(0)])
        assert first.startswith("<|im_start|>system\nYou are a search agent."), demo.name
        assert "\u2039" not in analysis.decoder.text(analysis.tree.ids), "no token is a number"
        assert analysis.decoder.tokenizer is None


def test_another_rollout_of_that_tokenizer_is_not_half_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embedded, "path", lambda: None)
    calls = (Call(id="a", prompt_ids=np.array([1, 49151], dtype=np.int32)),)
    encoding = encode(Rollout("r", calls, tokenizer=embedded.EMBEDDED))
    assert Decoder(encoding).decode([1, 49151]) == ["\u20391\u203a", "\u203949151\u203a"]


@pytest.mark.embedded
def test_the_texts_that_ship_are_those_of_the_tokenizer() -> None:
    tokenizer = embedded_tokenizer()
    if tokenizer is None:
        pytest.skip("the embedded model is not installed (mwviz doctor --install-model)")
    told = demo_pieces()
    ids = np.unique(np.concatenate([load(demo.path).analyses[0].tree.ids for demo in DEMOS]))
    assert [told.piece(token) for token in ids] == [tokenizer.piece(token) for token in ids]
    assert [told.special(token) for token in ids] == [tokenizer.special(token) for token in ids]


def test_the_agent_takes_little_room() -> None:
    sizes = [file.stat().st_size for file in FOLDER.rglob("*") if file.is_file()]
    adapter = (embedded.AGENT_ADAPTER / "adapter_model.safetensors").stat().st_size
    assert adapter <= 5_000_000
    assert sum(sizes) - adapter < 3_000_000
    config = json.loads((embedded.AGENT_ADAPTER / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == embedded.EMBEDDED


@pytest.mark.embedded
def test_the_agent_is_the_embedded_model_with_the_adapter_that_ships() -> None:
    if embedded.path() is None:
        pytest.skip("the embedded model is not installed (mwviz doctor --install-model)")
    agent = load_model(embedded.AGENT)
    assert agent.label == load_model(adapter=embedded.AGENT_ADAPTER).label
    assert {key.model for demo in DEMOS for key in kept_keys(demo)} == {agent.label}


def test_the_words_of_the_stress_demo_are_plain_ones() -> None:
    words = json.loads(WORDS.read_text())
    assert len(words) == len(set(words.values())) >= 700
    assert all(re.fullmatch(r"[a-z]{3,14}", word) for word in words)


def test_the_stress_demo_is_the_same_each_time_and_as_large_as_it_says(tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    write_stress(first)
    write_stress(second)
    assert first.read_bytes() == second.read_bytes()
    (analysis,) = load(first).analyses
    assert len(analysis.rollout.calls) == 200
    assert len(analysis.junction_list) == 98
    assert 145_000 < analysis.tree.size < 155_000
    assert analysis.decoder.known
    words = json.loads(WORDS.read_text())
    ids = np.unique(analysis.tree.ids)
    told = analysis.decoder.decode(ids)
    assert told == [f" {word}" for word in sorted(words, key=words.__getitem__)]
    plain = list(stress_log("150k"))
    calls = analysis.rollout.calls
    for name in ("prompt_ids", "completion_ids"):
        assert [len(getattr(call, name)) for call in calls] == [len(line[name]) for line in plain]
    assert "no agent and no scores" in STRESS.summary
    assert not analysis.scores
