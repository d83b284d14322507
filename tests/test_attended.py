"""Where a token looks, through the worker, against weights that the model itself gives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

import mwviz
from mwviz import jobs
from mwviz.analysis import Analysis
from mwviz.attended import PASSES, Attended, _by_rank, places, seen
from mwviz.engine import attention_mass
from mwviz.errors import ViewError
from mwviz.jobs import JOBS, Job
from mwviz.judging import CLASSES
from mwviz.worker import run_job
from tests.engine.tiny import llama_config, module_of

TAIL = (
    ([0, 1], [2]),
    ([0, 1, 2, 3], [4, 9]),
    ([0, 1, 2, 3, 4, 9, 5, 6], [7]),
    ([0, 1, 7, 4, 9, 5], [8]),
)
"""Theory, T3 with a longer second answer: 9 sees 7 from the future and misses 2 and 3."""
SEEN, TRUE = [0, 1, 7, 4], [0, 1, 2, 3, 4]
"""What 9 is predicted from under `rightmost`, and what it was sampled from."""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    module_of(llama_config()).save_pretrained(tmp_path / "model")
    jobs._LOADED.clear()
    return str(tmp_path / "model")


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "tail.jsonl"
    calls = [{"prompt_ids": prompt, "completion_ids": said} for prompt, said in TAIL]
    path.write_text("\n".join(map(json.dumps, calls)))
    return str(path)


def opened(trace: str) -> Analysis:
    (analysis,) = mwviz.load(trace).analyses
    return analysis


def target_of(analysis: Analysis, token: int) -> int:
    (found,) = np.flatnonzero(analysis.tree.ids[analysis.tree.token] == token)
    return int(found)


def job(trace: str, model: str, method: str, token: int) -> Job:
    analysis = opened(trace)
    at = target_of(analysis, token)
    return Job("a", "attention", trace, analysis.rollout.id, method, model, "cpu", at)


def asked(trace: str, model: str, method: str, token: int) -> Attended:
    *_, event = run_job(job(trace, model, method, token), JOBS, lambda _: False)
    assert event["event"] == "done", event
    return Attended.from_json(json.loads(json.dumps(event["result"])))


def plain(model: str, ids: list[int]) -> np.ndarray:
    """(L, T): what transformers itself gives at the last token, mean over heads."""
    module = AutoModelForCausalLM.from_pretrained(model, attn_implementation="eager")
    with torch.no_grad():
        output = module(input_ids=torch.tensor([ids]), output_attentions=True)
    return np.stack([layer[0, :, -1].mean(dim=0).numpy() for layer in output.attentions])


def test_shares_by_class_layer_and_text_are_sums_of_the_models_own_weights(
    model: str, trace: str
) -> None:
    found = asked(trace, model, "rightmost", 9)
    here, true = plain(model, SEEN), plain(model, TRUE)
    expected = {"agree": here[:, [0, 1, 3]].sum(1), "future": here[:, 2]}
    for name, told in zip(CLASSES, np.array(found.here).T, strict=True):
        assert told == pytest.approx(expected.get(name, np.zeros(2)), abs=1e-5), name
    expected = {"agree": true[:, [0, 1, 4]].sum(1), "erased": true[:, [2, 3]].sum(1)}
    for name, told in zip(CLASSES, np.array(found.true).T, strict=True):
        assert told == pytest.approx(expected.get(name, np.zeros(2)), abs=1e-5), name
    assert found.leaked == pytest.approx(here[:, 2].mean(), abs=1e-5)
    assert found.missed == pytest.approx(true[:, [2, 3]].sum(1).mean(), abs=1e-5)
    assert min(found.leaked, found.missed) > 0.01
    assert found.coverage == pytest.approx(1, abs=1e-5)
    assert 0 < found.floor < 1e-5
    analysis = opened(trace)
    spans = places(analysis, "rightmost", target_of(analysis, 9))
    means = {token: float(here.mean(0)[place]) for place, token in enumerate(SEEN)}
    truly = {token: float(true.mean(0)[place]) for place, token in enumerate(TRUE)}
    assert sum(span.tokens for span in spans) == len({*SEEN, *TRUE})
    ids = analysis.tree.ids
    for span, one_here, one_true in seen(spans, found):
        tokens = ids[span.first_node : span.first_node + span.tokens].tolist()
        for side, told in ((means, one_here), (truly, one_true)):
            if told is None:
                assert not set(tokens) & set(side)
            else:
                assert told == pytest.approx(sum(side[token] for token in tokens), abs=1e-5)


def test_both_copies_of_a_text_count_and_text_of_no_context_does_not() -> None:
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]], dtype=np.float32)
    found = _by_rank(weights, np.array([7, -1, 3, 7]), np.array([3, 5, 7]))
    assert found == pytest.approx(np.array([[0.3, 0, 0.5], [0.2, 0, 0.5]]))


def test_text_that_had_left_still_takes_its_share_under_replay(model: str, trace: str) -> None:
    found = asked(trace, model, "replay", 8)
    analysis = opened(trace)
    row = next(
        row for row in analysis.view("replay").rows if target_of(analysis, 8) in row.edges.target
    )
    query = int(row.edges.query[row.edges.target == target_of(analysis, 8)][0])
    ids = row.token_ids(analysis.tree)[: query + 1].tolist()
    weights = plain(model, ids)
    stale = [place for place, token in enumerate(ids) if token in (2, 3, 6)]
    assert found.share("stale") == pytest.approx(weights[:, stale].sum(1).mean(), abs=1e-5)
    assert found.coverage == pytest.approx(1, abs=1e-5)
    assert found.missed == 0


def test_an_exact_view_looks_where_the_true_context_does(model: str, trace: str) -> None:
    found = asked(trace, model, "packed_mask", 9)
    assert np.abs(np.array(found.here) - np.array(found.true)).max() < 1e-5
    assert (found.leaked, found.missed) == (0, 0)
    assert found.depths == "no layer looks at text that is in the wrong place"
    naive = asked(trace, model, "rightmost", 9)
    assert f"{naive.leaked:.1%} of its attention under the view" in naive.sentence
    assert "most on text that it misses: " in naive.depths


def test_the_job_ends_between_two_passes(model: str, trace: str) -> None:
    asking = job(trace, model, "rightmost", 9)
    events = list(run_job(asking, JOBS, lambda _: False))
    assert [event.get("done") for event in events] == [0, *range(PASSES + 1), None]
    asked_to_stop = iter((False, False, True))
    stopped = list(run_job(asking, JOBS, lambda _: next(asked_to_stop)))
    assert [event["event"] for event in stopped] == ["progress"] * 3 + ["cancelled"]


def test_refusals_are_told_in_words(
    model: str, trace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_mass, "MOST_WEIGHTS", 1)
    *_, event = run_job(job(trace, model, "rightmost", 9), JOBS, lambda _: False)
    assert event["event"] == "failed"
    assert "a row of 4 tokens has too many attention weights" in event["message"]
    assert "What causes this?" in event["message"]
    *_, event = run_job(job(trace, model, "rightmost", 2), JOBS, lambda _: False)
    assert "rightmost does not cover target 0" in event["message"]
    with pytest.raises(ViewError, match="does not cover"):
        places(opened(trace), "rightmost", 0)
