from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from mwviz.engine import vocabulary
from mwviz.engine.divergence import Divergence, diverge, top
from mwviz.engine.model import Model
from mwviz.engine.score import score
from mwviz.engine.scores import Scores
from mwviz.engine.steps import finish
from mwviz.errors import ModelError
from mwviz.views import build_view
from tests.engine import tiny

TREE = tiny.tree_of(tiny.RUNNING_EXAMPLE)


def scored(model: Model, method: str) -> Scores:
    return finish(score(TREE, build_view(TREE, method), model))


def distances(model: Model, view: str) -> Divergence:
    return finish(diverge(scored(model, "logit_tree"), scored(model, view), model))


def test_distances_are_those_of_the_full_distributions() -> None:
    model = tiny.llama()
    reference, view = scored(model, "logit_tree"), scored(model, "replay")
    found = finish(diverge(reference, view, model))
    assert reference.hidden is not None
    assert view.hidden is not None
    head = model.module.lm_head.weight.detach().double()
    for target in range(len(TREE.token)):
        p, q = (
            torch.softmax(head @ torch.tensor(hidden[target]).double(), 0).numpy()
            for hidden in (reference.hidden, view.hidden)
        )
        middle = (p + q) / 2
        js = ((p * np.log(p / middle)).sum() + (q * np.log(q / middle)).sum()) / 2
        assert found.kl[target] == pytest.approx((p * np.log(p / q)).sum(), abs=1e-4)
        assert found.kl_reverse[target] == pytest.approx((q * np.log(q / p)).sum(), abs=1e-4)
        assert found.tv[target] == pytest.approx(np.abs(p - q).sum() / 2, abs=1e-5)
        assert found.js[target] == pytest.approx(js, abs=1e-5)
        assert found.flip[target] == (p.argmax() != q.argmax())
    assert found.flip.any()
    assert not found.flip.all()


def test_exact_views_are_no_distance_apart() -> None:
    found = distances(tiny.llama(), "packed_mask")
    assert max(found.kl.max(), found.kl_reverse.max(), found.js.max()) < 1e-5
    assert found.tv.max() < 1e-4
    assert found.kl.min() >= 0
    assert not found.flip.any()


def test_total_variation_never_exceeds_its_bound() -> None:
    found = distances(tiny.llama(), "replay")
    bound = np.minimum(np.sqrt(found.kl / 2), np.sqrt(1 - np.exp(-found.kl)))
    assert (found.tv <= bound + 1e-4).all()
    assert found.tv.max() > 0.1


def test_uncovered_targets_have_no_distance() -> None:
    found = distances(tiny.llama(), "rightmost")
    missing = np.isin(TREE.ids[TREE.token], (5, 8, 11))
    for column in (found.kl, found.kl_reverse, found.tv, found.js):
        assert np.isnan(column).tolist() == missing.tolist()
    assert not found.flip[missing].any()


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.llama()
    whole = distances(model, "replay"), scored(model, "replay")
    monkeypatch.setattr(vocabulary, "CHUNK_NUMBERS", 3 * tiny.VOCABULARY)
    steps = list(diverge(scored(model, "logit_tree"), scored(model, "replay"), model))
    assert [step.done for step in steps] == [3, 6, 9, 12, 13]
    last = steps[-1].result
    assert last is not None
    assert np.allclose(last.kl, whole[0].kl, atol=1e-5)
    assert np.allclose(scored(model, "replay").logprob, whole[1].logprob, atol=1e-5)


def test_top_lists_the_most_likely_tokens_first() -> None:
    model = tiny.llama()
    scores = scored(model, "logit_tree")
    assert scores.hidden is not None
    for target in range(len(TREE.token)):
        best = top(model, scores.hidden[target], k=tiny.VOCABULARY + 1)
        rank = int(scores.rank[target])
        assert best.ids[rank] == TREE.ids[TREE.token[target]]
        assert best.logprobs[rank] == pytest.approx(scores.logprob[target], abs=1e-5)
        assert np.exp(best.logprobs).sum() == pytest.approx(1, abs=1e-5)
        assert (np.diff(best.logprobs) <= 0).all()
    assert len(top(model, scores.hidden[0], k=5).ids) == 5


def test_scores_of_another_model_are_refused() -> None:
    model = tiny.llama()
    scores = scored(model, "logit_tree")
    with pytest.raises(ModelError, match="scores of other@1 cannot be compared"):
        diverge(replace(scores, model="other@1"), scores, model)
    with pytest.raises(ModelError, match="without hidden states"):
        diverge(replace(scores, hidden=None), scores, model)
