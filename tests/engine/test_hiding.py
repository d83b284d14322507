"""Rows with keys hidden: what is shared between them must not show in what the model says."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from mwviz.engine import hiding
from mwviz.engine.effect import Hidden, effects
from mwviz.engine.layout import Layout
from mwviz.engine.model import Model
from mwviz.views import build_view
from tests.engine import tiny

SIZE = 30
TREE = tiny.tree_of(((list(range(20)), list(range(20, SIZE + 1))),))
LAST = SIZE - 1
"""The query of the last token, which always stays."""


def said(model: Model, gone: list[int]) -> float:
    """Log-probability of the last token under a plain mask that hides some keys."""
    seen = np.tril(np.ones((SIZE, SIZE), dtype=bool))
    borders = [at for at in range(SIZE + 1) if (at in gone) != (at - 1 in gone)]
    for low, high in list(pairwise(borders))[::2]:
        seen[high:, low:high] = False
    mask = torch.where(torch.tensor(seen), 0.0, torch.finfo(torch.float32).min)
    with torch.no_grad():
        output = model.module(
            input_ids=torch.arange(SIZE)[None],
            attention_mask=mask[None, None],
            position_ids=torch.arange(SIZE)[None],
        )
    return float(output.logits[0, -1].log_softmax(-1)[SIZE])


@pytest.mark.parametrize("batch", [4096, 70, 1])
@pytest.mark.parametrize("plan", ["_shared", "_whole"])
def test_whatever_is_hidden_is_as_in_a_plain_masked_run(
    plan: str, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hiding, "BATCH_TOKENS", batch)
    for other in ("_shared", "_whole"):
        monkeypatch.setattr(hiding, other, getattr(hiding, plan))
    random, model = np.random.default_rng(4), tiny.llama()
    sets = [sorted(random.choice(LAST, size=count, replace=False)) for count in (1, 3, 8, 20)]
    sets += [[0], [0, 1, 2, 9], list(range(LAST)), [LAST - 1], [3, 4, 5, 6]]
    hidden = [Hidden(str(index), np.array(keys)) for index, keys in enumerate(sets)]
    found = effects(TREE, build_view(TREE, "rightmost"), model, target=10, hidden=hidden)
    assert sorted(int(effect.name) for effect in found) == list(range(len(sets)))
    whole = said(model, [])
    for effect in found:
        expected = whole - said(model, sets[int(effect.name)])
        assert effect.change == pytest.approx(expected, abs=1e-4), effect.name
    assert max(abs(effect.change) for effect in found) > 0.01


def test_what_stands_in_front_of_the_hidden_keys_is_run_once() -> None:
    part = Layout(
        ids=np.arange(100, dtype=np.int32),
        positions=np.arange(100),
        visible_until=None,
        edges=build_view(TREE, "rightmost").rows[0].edges,
        cut=np.empty(0, dtype=np.int64),
    )
    sets = [np.array([key]) for key in (10, 50, 90, 98)]
    ((chosen, given, last),) = hiding.passes(part, np.full(100, 100), sets)
    assert [int(sets[index][0]) for index in chosen] == [98, 90, 50, 10]
    assert np.diff(last, prepend=-1).tolist() == [100, 1, 9, 49, 89]
    assert len(given.ids) == 248
