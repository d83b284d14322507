from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import GPTNeoXConfig

import mwviz
from mwviz.engine import attention, hiding
from mwviz.engine import attention_mass as mass_module
from mwviz.engine.attention_mass import key_weights
from mwviz.engine.effect import Hidden, class_keys, effects, put_back, span_keys
from mwviz.engine.model import Model
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz.errors import ModelError, ViewError
from mwviz.junctions import find_junctions
from mwviz.pairs import count_pairs
from mwviz.rollout import Rollout
from mwviz.tokens import CallTokens, Encoding
from mwviz.tree import EvictionTree
from mwviz.undo import undo
from mwviz.views import build_view
from tests.engine import tiny

TREE = tiny.tree_of(tiny.RUNNING_EXAMPLE)
SUMMARY_TAIL: tiny.Calls = (
    ([0, 1], [2]),
    ([0, 1, 2, 3], [4]),
    ([0, 1, 2, 3, 4, 5, 6], [7]),
    ([0, 1, 7, 4, 5], [8]),
)
"""Theory, T3."""


def target_of(tree: EvictionTree, token: int) -> int:
    (found,) = np.flatnonzero(tree.ids[tree.token] == token)
    return int(found)


def plain_weights(model: Model, ids: list[int]) -> np.ndarray:
    """(L, T): weights at the last token, mean over heads."""
    model.module.set_attn_implementation("eager")
    with torch.no_grad():
        output = model.module(input_ids=torch.tensor([ids]), output_attentions=True)
    model.module.set_attn_implementation("sdpa")
    return np.stack([layer[0, :, -1].mean(dim=0).numpy() for layer in output.attentions])


@pytest.mark.parametrize(
    "config",
    [
        tiny.llama_config(),
        tiny.gpt2_config(),
        GPTNeoXConfig(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=128,
        ),
    ],
    ids=["llama", "gpt2", "gpt-neox"],
)
def test_weights_are_those_that_the_model_itself_gives(config: object) -> None:
    model = tiny.model_of(config)  # type: ignore[arg-type]  # one of three configurations
    view = build_view(TREE, "replay")
    for token in (4, 10, 13):
        found = key_weights(TREE, view, model, target=target_of(TREE, token))
        assert np.allclose(found, plain_weights(model, list(range(token))), atol=1e-6)
        assert np.allclose(found.sum(axis=1), 1, atol=1e-5)


def test_weights_in_a_packed_row_are_those_of_the_true_context() -> None:
    model, view = tiny.llama(), build_view(TREE, "packed_mask")
    target = target_of(TREE, 13)
    found = key_weights(TREE, view, model, target=target)
    true = [0, 1, 2, 3, 4, 6, 7, 9, 10, 12]
    seen = found[:, found.max(axis=0) > 0]
    assert np.allclose(seen, plain_weights(model, true), atol=1e-5)
    with pytest.raises(ViewError, match="rightmost does not cover target 4"):
        key_weights(TREE, build_view(TREE, "rightmost"), model, target=4)


@pytest.mark.parametrize("method", ["replay", "packed_mask"])
def test_tokens_behind_the_query_move_weights_by_rounding_only(method: str) -> None:
    model, view, target = tiny.llama(), build_view(TREE, method), target_of(TREE, 13)
    alone, longer = (
        key_weights(TREE, view, model, target=target, behind=behind) for behind in (0, 64)
    )
    assert np.abs(longer - alone).max() < 1e-5


def test_what_cannot_be_read_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, view = tiny.llama(), build_view(TREE, "replay")
    target = target_of(TREE, 13)
    monkeypatch.setattr(attention, "hidden_states", _runs)
    monkeypatch.setattr(mass_module, "MOST_WEIGHTS", 4 * 12**2)
    with pytest.raises(ModelError, match=r"row of 13 tokens has too many.*at most 12"):
        key_weights(TREE, view, model, target=target)
    monkeypatch.undo()
    monkeypatch.setattr(attention, "hidden_states", _runs)
    monkeypatch.setattr(mass_module, "_attentions", lambda _: [])
    with pytest.raises(ModelError, match=r"0 of its 2 layers show.*What causes this"):
        key_weights(TREE, view, model, target=target)
    monkeypatch.undo()
    short = replace(model, max_positions=5)
    with pytest.raises(ViewError, match="context exceeds the 5 tokens"):
        key_weights(TREE, view, short, target=target)


def _runs(*_: object) -> None:
    raise AssertionError("the model was run")


def without(model: Model, ids: list[int], gone: list[int], token: int) -> float:
    """Log-probability of a token after `ids`, with some keys hidden from all behind them."""
    size = len(ids)
    seen = np.tril(np.ones((size, size), dtype=bool))
    last = max(gone, default=0)
    for key in gone:
        seen[last + 1 :, key] = False
    mask = torch.full((1, 1, size, size), torch.finfo(torch.float32).min)
    mask[0, 0][torch.tensor(seen)] = 0.0
    with torch.no_grad():
        output = model.module(
            input_ids=torch.tensor([ids]),
            attention_mask=mask,
            position_ids=torch.arange(size)[None],
        )
    return float(output.logits[0, -1].log_softmax(-1)[token])


@pytest.mark.parametrize("batch", [4096, 1])
def test_effects_are_measured_by_hiding_keys_and_ranked(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hiding, "BATCH_TOKENS", batch)
    model, view, target = tiny.llama(), build_view(TREE, "replay"), target_of(TREE, 13)
    hidden = tuple(Hidden(str(key), np.array([key])) for key in (5, 8, 11))
    found = effects(TREE, view, model, target=target, hidden=hidden)
    ids = list(range(13))
    whole = without(model, ids, [], 13)
    for effect in found:
        expected = whole - without(model, ids, [int(effect.name)], 13)
        assert effect.change == pytest.approx(expected, abs=1e-4)
    sizes = [abs(effect.change) for effect in found]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 0.01


def test_keys_are_grouped_by_class_and_by_stretch() -> None:
    tree = tiny.tree_of(SUMMARY_TAIL)
    view = build_view(tree, "rightmost")
    target = target_of(tree, 4)
    assert {h.name: h.keys.tolist() for h in class_keys(tree, view, target)} == {
        "agree": [0, 1],
        "future": [2],
    }
    assert [h.name for h in span_keys(tree, view, target)] == ["agree 0-1", "future 2-2"]
    model = tiny.llama()
    (agree, future) = sorted(
        effects(tree, view, model, target=target, hidden=class_keys(tree, view, target)),
        key=lambda effect: effect.name,
    )
    whole = without(model, [0, 1, 7], [], 4)
    # The query of the target is the future token itself, and stays.
    assert future.tokens == 1
    assert future.change == pytest.approx(0, abs=1e-5)
    assert agree.change == pytest.approx(whole - without(model, [0, 1, 7], [0, 1], 4), abs=1e-4)
    totals = count_pairs(tree, view)
    assert int(totals.of("future")[target]) == 1


def test_a_target_that_is_not_covered_has_no_effect() -> None:
    with pytest.raises(ViewError, match="rightmost does not cover target 4"):
        class_keys(TREE, build_view(TREE, "rightmost"), target_of(TREE, 5))


def junction_of(calls: tiny.Calls, call: int) -> tuple[EvictionTree, mwviz.junctions.Junction]:
    tree = tiny.tree_of(calls)
    tokens = tuple(
        CallTokens((np.array(p, dtype=np.int32),), np.array(o, dtype=np.int32), ())
        for p, o in calls
    )
    found = find_junctions(tree, Encoding(tokens, "unknown", "recorded"), _rollout(calls))
    (junction,) = [junction for junction in found if junction.call == call]
    return tree, junction


def _rollout(calls: tiny.Calls) -> Rollout:
    return Rollout("test", tuple(mwviz.Call(str(i)) for i in range(len(calls))))


@pytest.mark.parametrize(
    ("calls", "call", "prompts"),
    [
        (
            tiny.RUNNING_EXAMPLE,
            1,
            {
                1: [0, 1, 2, 3, 4, 5, 6, 7],
                2: [0, 1, 2, 3, 4, 5, 6, 7, 9, 10],
                3: [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 12],
            },
        ),
        (
            tiny.RUNNING_EXAMPLE,
            3,
            {3: [0, 1, 2, 3, 4, 6, 7, 9, 10, 11, 12]},
        ),
        (
            (([0], [1, 2, 3]), ([0, 1, 3], [4]), ([0, 1, 3, 4, 5], [6])),
            1,
            {1: [0, 1, 2, 3], 2: [0, 1, 2, 3, 4, 5]},
        ),
        (SUMMARY_TAIL, 3, {3: [0, 1, 2, 3, 7, 4, 5, 6]}),
    ],
    ids=["first drop", "last drop", "later calls", "summary"],
)
def test_evicted_tokens_are_put_back_behind_what_they_stood_behind(
    calls: tiny.Calls, call: int, prompts: dict[int, list[int]]
) -> None:
    tree, junction = junction_of(calls, call)
    undone = undo(tree, junction)
    assert undone.calls == tuple(prompts)
    for index, (prompt, completion) in enumerate(calls):
        context = undone.tree.ids[undone.tree.context(index)].tolist()
        assert context == prompts.get(index, list(prompt)) + list(completion)
    assert undone.tokens == len(junction.evicted)
    assert (undone.tree.call == tree.call).all()
    assert (undone.tree.ids[undone.tree.token] == tree.ids[tree.token]).all()


SINCE = {8: [], 9: [8], 10: [8, 9], 11: [9, 10], 12: [9, 10, 11], 13: [9, 10, 12]}
"""What each later token of T1 saw behind 7."""


def test_an_undone_eviction_is_scored_in_the_uncompressed_context() -> None:
    tree, junction = junction_of(tiny.RUNNING_EXAMPLE, 1)
    model = tiny.llama()
    restored = put_back(tree, junction, model)
    truth = finish(score(tree, build_view(tree, "logit_tree"), model)).logprob
    for target in restored.undone.targets:
        token = int(tree.ids[tree.token[target]])
        with_span = without(model, [*range(8), *SINCE[token]], [], token)
        assert restored.change[target] == pytest.approx(with_span - truth[target], abs=1e-4)
    others = np.setdiff1d(np.arange(len(truth)), restored.undone.targets)
    assert np.isnan(restored.change[others]).all()
    assert tree.ids[tree.token[restored.undone.targets]].tolist() == list(SINCE)
    assert np.isnan(restored.lost.kl[others]).all()
    p, q = (
        torch.log_softmax(
            model.module(input_ids=torch.tensor([ids])).logits[0, -1].detach().double(), -1
        )
        for ids in (list(range(8)), [0, 1, 2, 3, 4, 6, 7])
    )
    lost = float((p.exp() * (p - q)).sum())
    assert restored.lost.kl[target_of(tree, 8)] == pytest.approx(lost, abs=1e-4)
    assert lost > 0.01


def test_where_nothing_recorded_was_evicted_nothing_is_put_back() -> None:
    calls: tiny.Calls = (([0, 1], [2]), ([0, 1], [3]))
    tree, junction = junction_of(calls, 1)
    assert undo(tree, junction).tokens == 1
    with pytest.raises(ViewError, match="nothing can be put back"):
        undo(tree, replace(junction, depth=None))
