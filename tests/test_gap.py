from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from mwviz.gap import GapSplit, Scored, Weights, retokenised_targets, split_gap
from mwviz.junctions import find_junctions
from mwviz.pairs import count_pairs
from mwviz.tree import build_tree
from mwviz.views import build_view
from tests.engine import tiny
from tests.reference import Calls
from tests.strategies import encoded

COUNT = 200
DIVERGING = np.arange(COUNT) % 4 == 0
RETOKENISED = np.arange(COUNT) % 8 == 0
NOISE, DRIFT, STALE = 0.01, -0.8, 0.05
"""Planted causes in nats: noise of each engine, drift of diverging tokens, age of the weights."""


def planted(weights: Weights | None) -> GapSplit:
    """A trainer's record made of known parts, and its split."""
    random = np.random.default_rng(3)
    sampled = -random.exponential(1.0, COUNT)
    noise = random.normal(0, NOISE, (2, COUNT))
    true = sampled + noise[0]
    view = true + np.where(DIVERGING, DRIFT, 0.0)
    stale = 0.0 if weights == "same" else STALE
    trained = view + stale + noise[1]
    if weights == "trainer":
        true, view = true + stale, view + stale
    calls = [([0], [1] * COUNT)]
    tree = tiny.tree_of(calls, [sampled.tolist()])
    told = None
    if weights is not None:
        told = Scored(true.astype(np.float32), view.astype(np.float32), weights)
    return split_gap(
        tree,
        trained.astype(np.float32),
        diverging=DIVERGING,
        retokenised=RETOKENISED,
        scored=told,
    )


def means(split: GapSplit) -> dict[str, float]:
    return {part.name: part.mean for part in split.parts}


@pytest.mark.parametrize("weights", [None, *get_args(Weights)])
def test_parts_add_up_to_the_gap(weights: Weights | None) -> None:
    split = planted(weights)
    assert split.targets == COUNT
    assert sum(means(split).values()) == pytest.approx(split.gap, abs=1e-6)


@pytest.mark.parametrize("weights", [None, *get_args(Weights)])
def test_planted_drift_is_found_as_conditioning_and_retokenisation(
    weights: Weights | None,
) -> None:
    found = means(planted(weights))
    for name in ("conditioning", "retokenisation"):
        assert found[name] == pytest.approx(DRIFT / 8, abs=0.01)


def test_floor_and_staleness_come_apart_where_it_is_known_whose_weights_scored() -> None:
    for weights in ("sampler", "trainer"):
        split = planted(weights)
        found = {part.name: part for part in split.parts}
        assert found["staleness"].mean == pytest.approx(STALE, abs=0.005)
        assert found["floor"].mean_abs == pytest.approx(NOISE * np.sqrt(2 / np.pi), rel=0.2)
        assert "counts as staleness" in split.notes[-1]
    same = means(planted("same"))
    assert "staleness" not in same
    assert abs(same["floor"]) < 0.005


def test_what_cannot_be_separated_stays_together_and_is_said() -> None:
    unknown, alone = planted("unknown"), planted(None)
    for split in (unknown, alone):
        assert set(means(split)) == {"conditioning", "retokenisation", "floor and staleness"}
        assert means(split)["floor and staleness"] == pytest.approx(STALE, abs=0.005)
    assert "cannot be separated" in unknown.notes[-1]
    assert "no model was run" in alone.notes[-1]
    tree = tiny.tree_of([([0], [1, 2])], [[-1.0, -2.0]])
    everything = np.ones(2, dtype=bool)
    split = split_gap(
        tree,
        np.array([-3.0, -3.0], dtype=np.float32),
        diverging=everything,
        retokenised=~everything,
        scored=None,
    )
    assert means(split)["conditioning"] == 0.0
    assert means(split)["floor and staleness"] == -1.5
    assert "nothing can be separated" in split.notes[-1]


def test_targets_without_both_logprobs_are_left_out() -> None:
    tree = tiny.tree_of([([0], [1, 2, 3])], [[-1.0, np.nan, -1.0]])
    trained = np.array([-1.5, -1.5, np.nan], dtype=np.float32)
    none = np.zeros(3, dtype=bool)
    split = split_gap(tree, trained, diverging=none, retokenised=none, scored=None)
    assert (split.targets, split.gap) == (1, -0.5)
    nothing = split_gap(
        tree, np.full(3, np.nan, dtype=np.float32), diverging=none, retokenised=none, scored=None
    )
    assert nothing.targets == 0
    assert "no target has" in nothing.notes[0]


def kinds(calls: Calls, method: str, text: dict[int, str]) -> tuple[list[str], list[int]]:
    """Junction kinds, and the ids of the targets that count as re-tokenised."""
    rollout, encoding = encoded(calls)
    tree = build_tree(encoding, rollout)

    def decode(ids: np.ndarray) -> str:
        return "".join(text.get(int(i), f"<{i}>") for i in ids)

    junctions = find_junctions(tree, encoding, rollout, decode)
    found = retokenised_targets(tree, junctions, count_pairs(tree, build_view(tree, method)))
    return [junction.kind for junction in junctions], tree.ids[tree.token[found]].tolist()


def test_only_other_ids_for_the_same_text_count_as_retokenisation() -> None:
    """Theory, T7: `ab` comes back as one id; then an eviction makes it conditioning."""
    text = {1: "a", 2: "b", 3: "ab"}
    again: Calls = [("m", [0], [1, 2, 4]), ("m", [0, 3, 4, 5], [6])]
    assert kinds(again, "rightmost", text) == (["retokenise"], [4])
    assert kinds(again, "replay", text) == (["retokenise"], [6])
    evicted: Calls = [*again, ("m", [0, 4, 5, 6], [7])]
    assert kinds(evicted, "rightmost", text) == (["retokenise", "drop"], [])
    dropped: Calls = [("m", [0], [1, 2, 4]), ("m", [0, 4, 5], [6])]
    assert kinds(dropped, "rightmost", text) == (["drop"], [])
