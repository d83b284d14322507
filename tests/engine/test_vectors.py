"""The vectors of the theory that need a model: T4, T8 and T9. docs/proofs.md lists all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import mwviz
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz.judging import CLASSES
from mwviz.views import METHODS, build_view
from tests.engine import tiny
from tests.engine.test_exact import GRADIENT_ROUNDING, MODELS, gradient, relative_error
from tests.reference import Calls
from tests.strategies import encoded

ROUNDING = 1e-4
EXACT = [method.name for method in METHODS if method.exact]
RUNNING: Calls = [
    ("m", list(prompt), list(completion)) for prompt, completion in tiny.RUNNING_EXAMPLE
]


def test_t4_row_positions_are_wrong_from_the_second_token_behind_a_rewind() -> None:
    tree, model = tiny.tree_of(tiny.REWIND), tiny.llama()
    truth = finish(score(tree, build_view(tree, "packed_mask"), model)).logprob
    found = finish(score(tree, tiny.wrong_positions(tree), model)).logprob
    wrong = np.abs(found - truth) > ROUNDING
    assert tree.ids[tree.token[wrong]].tolist() == [21, 22]


@pytest.mark.parametrize("method", EXACT)
def test_t8_the_truth_in_another_layout_is_never_highlighted(
    method: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rollout = replace(encoded(RUNNING)[0], semantics="re_prefill")
    analysis = mwviz.analyse(rollout)
    found = analysis.comparison(method, "call_by_call", model=tiny.llama())
    assert not found.table["notable"].any()
    assert not found.table["diverging"].any()
    totals = analysis.pairs(method).totals
    assert [name for name in CLASSES if totals[name]] == ["agree"]
    assert not totals["shifted"] + totals["duplicate"] + totals["tainted"]
    naive = analysis.comparison("rightmost", "call_by_call", model=tiny.llama())
    assert naive.table["notable"].sum() == 5


@pytest.mark.parametrize("name", MODELS)
def test_t9_the_trunk_trained_once_a_branch_and_the_packed_row(name: str) -> None:
    tree = tiny.tree_of(tiny.RUNNING_EXAMPLE)
    expected = gradient(tree, build_view(tree, "logit_tree"), MODELS[name])
    packed = gradient(tree, build_view(tree, "packed_mask"), MODELS[name])
    trunk = gradient(tree, build_view(tree, "branch_all"), MODELS[name])
    assert relative_error(packed, expected) < GRADIENT_ROUNDING[name]
    assert relative_error(trunk, expected) > 0.5
