"""Every number that text and strip are coloured by, as the page decodes it, is the analysis's."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mwviz.analysis import Analysis
from mwviz.compare import Comparison
from mwviz.demos import DEMOS, open_demo
from mwviz.distances import LEAST, kl_floor
from mwviz.numberpacking import CERTAIN, numbers_of, send
from mwviz.pairs import count_pairs
from mwviz.payload import pack
from mwviz.quantise import sent
from mwviz.views import View
from mwviz.views.view import Edges

SCRIPT = Path(__file__).parent / "frontend" / "numbers.mjs"
STEP = 0.1
"""Relative error of a number told as one byte."""
LOGPROBS = ("view", "true", "agent")
VIEWS = ("rightmost", "replay", "branch_all", "packed_mask")
Doubles = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    (found,) = open_demo(next(demo for demo in DEMOS if demo.name == "summary")).analyses
    return found


def compared(analysis: Analysis, view: str) -> Comparison:
    return analysis.compared(analysis.scores[view], analysis.scores["logit_tree"])


def decoded(
    analysis: Analysis, view: str, kinds: Sequence[str], numbers: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    told = {view: compared(analysis, view)}
    payload = base64.b64encode(pack(analysis, VIEWS, told)).decode()
    known = numbers_of(analysis.tree, told)
    scored = {name: number._asdict() for name, number in send(known, known).items()}
    asked = {"payload": payload, "numbers": numbers, "scored": scored, "view": view, "kinds": kinds}
    answer = subprocess.check_output(["node", str(SCRIPT)], input=json.dumps(asked), text=True)
    found: dict[str, Any] = json.loads(answer)
    return found


def expected(analysis: Analysis, view: str) -> dict[str, Doubles]:
    """Each number from the scores and the pairs alone, by its definition."""
    told, laid, tree = compared(analysis, view), analysis.view(view), analysis.tree
    mine, truth = told.view, told.reference
    pairs = count_pairs(tree, shown(laid))
    wrong = sum(pairs.of(name) for name in ("future", "erased", "stale", "foreign", "lost"))
    terms = np.zeros(laid.targets)
    for row in laid.rows:
        np.add.at(terms, row.edges.target, 1)
    trained = np.where(terms > 0, 1.0, np.nan)
    return {
        "drift": mine.logprob - truth.logprob,
        "size": np.abs(mine.logprob - truth.logprob),
        "view": mine.logprob,
        "true": truth.logprob,
        "agent": tree.logprob,
        "gap": mine.logprob - tree.logprob,
        "entropy": truth.entropy,
        "change": mine.entropy - truth.entropy,
        "leaks": trained * wrong,
        "terms": trained * terms,
        "weight": trained * terms * laid.targets / np.count_nonzero(terms),
    }


def shown(view: View) -> View:
    """The view with one loss term a target: of several the last one, as the page shows it."""
    taken: set[int] = set()
    rows = []
    for row in reversed(view.rows):
        edges = row.edges
        mine = np.array([target not in taken for target in edges.target.tolist()], dtype=bool)
        taken |= set(edges.target.tolist())
        one = Edges(edges.query[mine], edges.target[mine], edges.weight[mine])
        rows.append(replace(row, edges=one))
    return replace(view, rows=tuple(reversed(rows)))


@pytest.mark.parametrize("view", VIEWS)
def test_every_number_is_that_of_the_analysis(analysis: Analysis, view: str) -> None:
    wanted = expected(analysis, view)
    found = decoded(analysis, view, list(wanted))
    for kind, numbers in wanted.items():
        values = np.array(found[kind]["values"], dtype=np.float64)
        floor = found[kind]["floor"] + (CERTAIN if kind in LOGPROBS else 0)
        np.testing.assert_array_equal(np.isnan(values), np.isnan(numbers), err_msg=kind)
        np.testing.assert_allclose(values, numbers, rtol=STEP, atol=1.1 * floor, err_msg=kind)
        exact = kind in ("leaks", "terms", "weight")
        np.testing.assert_allclose(values, numbers, rtol=1e-9 if exact else STEP, atol=1.1 * floor)


def test_nothing_inside_the_floor_has_a_tint(analysis: Analysis) -> None:
    wanted = expected(analysis, "rightmost")
    floor = compared(analysis, "rightmost").threshold
    found = decoded(analysis, "rightmost", ["drift", "size", "gap"])
    for kind, told in found.items():
        inside = np.abs(wanted[kind]) <= floor
        assert inside.any()
        assert not np.array(told["levels"])[inside].any(), kind
        assert np.array(told["levels"])[np.abs(wanted[kind]) > floor].all(), kind


def test_the_weights_of_an_exact_view_are_one_and_of_any_view_share_out_its_loss(
    analysis: Analysis,
) -> None:
    exact = decoded(analysis, "packed_mask", ["weight"])["weight"]["values"]
    assert set(exact) == {1}
    for view in ("rightmost", "replay"):  # one loss term on each token that they train
        shares = np.array(decoded(analysis, view, ["weight"])["weight"]["values"], dtype=float)
        assert np.nansum(shares) == pytest.approx(analysis.view(view).targets)


def test_numbers_that_travel_apart_are_those_that_were_sent(analysis: Analysis) -> None:
    targets = len(analysis.tree.token)
    kl = np.geomspace(1e-6, 3, targets).astype(np.float32)
    kl[0] = np.nan
    worth = np.array([-0.75], dtype=np.float32)  # one code: all tokens have it
    beside = np.linspace(-2, 2, targets).astype(np.float32)
    numbers = [
        {"kind": "kl", "view": "rightmost", **sent(kl, kl_floor(1e-5))._asdict()},
        {"kind": "advantage", **sent(worth, 1e-3)._asdict()},
        {"kind": "beside", "about": "B minus A.", **sent(beside, 0.1)._asdict()},
    ]
    found = decoded(analysis, "rightmost", ["kl", "advantage", "beside"], numbers)
    for kind, wanted, floor in (
        ("kl", kl, LEAST),
        ("advantage", worth, 0),
        ("beside", beside, 0.1),
    ):
        values = np.array(found[kind]["values"], dtype=np.float64)
        assert len(values) == targets
        np.testing.assert_allclose(
            values, np.broadcast_to(wanted, targets), rtol=STEP, atol=1.1 * floor
        )
    assert found["kl"]["values"][0] is None
    assert not any(np.array(found["beside"]["levels"])[np.abs(beside) <= 0.1])
    assert {found["advantage"]["unit"], *found["advantage"]["levels"]} == {"spreads", -1}
    other = decoded(analysis, "replay", ["kl", "advantage"], numbers)
    assert "not compared under replay" in other["kl"]["why"]
    assert "values" in other["advantage"], "it is of every view"


def test_what_is_not_known_says_why(analysis: Analysis) -> None:
    why = [{"kind": "advantage", "why": "all rewards are equal (1)"}]
    found = decoded(analysis, "rightmost", ["kl", "advantage", "beside"], why)
    assert found["advantage"]["why"] == "all rewards are equal (1)"
    assert "“B - A” below" in found["beside"]["why"]
    bare = decoded(analysis, "rightmost", ["advantage"])
    assert "rewards" in bare["advantage"]["why"]


def test_a_kl_from_noise_stays_inside_its_floor() -> None:
    random = np.random.default_rng(3)
    for size in (1e-2, 0.1):
        logits = random.normal(size=(200, 50)) * 3
        p = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
        moved = np.log(p) + random.uniform(-size, size, p.shape)
        q = moved - np.logaddexp.reduce(moved, axis=1, keepdims=True)
        kl = (p * (np.log(p) - q)).sum(axis=1)
        apart = np.abs(np.log(p) - q).max()
        assert (kl <= kl_floor(float(apart))).all()
    assert kl_floor(1e-6) == LEAST
