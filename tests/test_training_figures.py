from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mwviz.figures.curves import CURVES, GROUPS, floors, world_curves
from mwviz.figures.palette import DARK, LIGHT, Theme
from mwviz.figures.training import ARM_COLOURS, DASHES, bound_figure, curve_figure, left_out
from mwviz.training.recipe import ARMS
from mwviz.training.reports import StepReport, WatchReport

ROWS = pd.DataFrame(
    {
        "arm": ["rightmost"] * 3 + ["packed_mask"] * 3,
        "step": [0, 5, 10] * 2,
        "drift_diverging": [2.0, 1.0, 0.5, np.nan, np.nan, np.nan],
        "cosine": [0.5, 0.6, 0.7, 1.0, 1.0, 1.0],
    }
)
DRIFT, COSINE = (
    next(curve for curve in CURVES if curve.column == name)
    for name in ("drift_diverging", "cosine")
)


def test_every_chart_shows_a_number_that_is_kept() -> None:
    kept = {"steps": StepReport.__slots__, "watch": WatchReport.__slots__}
    assert all(curve.column in kept[curve.table] for curve in CURVES)
    assert all(not curve.floor or curve.floor in kept["watch"] for curve in CURVES)
    assert {curve.group for curve in CURVES} == set(GROUPS)


def test_every_chart_draws_its_floor_or_says_what_it_is() -> None:
    looks = pd.DataFrame(
        {"arm": ["a", "a"], "step": [0, 5], "floor": [1e-5, 3e-5], "floor_kl": [1e-7, np.nan],
         "floor_tv": 2e-6, "floor_flips": 0.0, "floor_entropy": 4e-6, "floor_error": 1e-6,
         "floor_cosine": [1 - 1e-9, 1 - 4e-9], "reward": 0.5}
    )  # fmt: skip
    found = floors(looks)
    assert (found["floor"], found["floor_kl"]) == (3e-5, 1e-7)
    assert found["floor_cosine"] == 1 - 4e-9
    every = (*CURVES, *world_curves(looks.columns))
    assert every[-1].column == "reward"
    for curve in every:
        rows = looks.assign(**{curve.column: [0.5, 0.25]})
        drawn = curve_figure(rows, curve, floor=found.get(curve.floor)).data[1:]
        assert len(drawn) == bool(curve.floor), curve.title
        assert bool(curve.noise(found)) != bool(drawn), curve.title
        assert "loor" in (drawn[0].name if drawn else curve.noise(found)), curve.title
    # A model that cannot be packed, or a run of an earlier version: only the drift's is known.
    few = floors(pd.DataFrame({"floor": [2e-5], "floor_kl": [None]}))
    assert few == {"floor": 2e-5}
    for curve in every:
        assert bool(curve.noise(few)) == (curve.floor != "floor"), curve.title
    assert "closer together than 0.00002 nats" in CURVES[0].noise(few)


def test_the_floor_of_a_cosine_is_how_far_it_falls_short_of_one() -> None:
    _, _, floor = curve_figure(ROWS, COSINE, floor=1 - 2e-9).data
    assert floor.name == "floor 1 - 2·10⁻⁹"
    assert set(floor.y) == {1 - 2e-9}


def test_arms_are_told_apart_with_and_without_colour() -> None:
    assert len({ARM_COLOURS[arm] for arm in ARMS}) == len(ARMS)
    looks = {(ARM_COLOURS[arm], DASHES[arm]) for arm in ARMS}
    assert len(looks) == len(ARMS)
    assert len({DASHES[arm] for arm in ("rightmost", "replay", "packed_mask", "sdcc")}) == 4


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_a_line_an_arm_and_the_floor_where_it_is_comparable(theme: Theme) -> None:
    figure = curve_figure(ROWS, DRIFT, floor=1e-5, theme=theme)
    rightmost, packed, floor = figure.data
    assert list(rightmost.x) == [0, 5, 10]
    assert list(rightmost.y) == [2.0, 1.0, 0.5]
    assert len(packed.y) == 0
    assert set(floor.y) == {1e-5}
    assert (floor.name, floor.mode) == ("floor 0.00001", "lines"), "named below, not on the chart"
    assert figure.layout.yaxis.type == "log"
    assert figure.layout.yaxis.dtick == 1
    exact = curve_figure(ROWS.assign(drift_diverging=[1.0, 0.5, 0.2, 0, 0, 0]), DRIFT)
    assert exact.layout.yaxis.dtick == 2
    plain = curve_figure(ROWS, COSINE, theme=theme)
    assert [line.name for line in plain.data] == ["rightmost", "packed_mask"]
    assert plain.layout.yaxis.type is None


@pytest.mark.parametrize(
    ("last", "apart"),
    [(0, 1), (1, 1), (3, 1), (8, 1), (9, 2), (20, 5), (30, 5), (300, 50), (7e4, 1e4)],
)
def test_steps_are_marked_by_whole_numbers(last: int, apart: int) -> None:
    axis = curve_figure(ROWS.assign(step=[0, 0, last] * 2), COSINE).layout.xaxis
    assert (axis.dtick, axis.tickformat) == (apart, ",d")
    assert last / axis.dtick <= 8


def test_a_point_tells_its_number_as_people_write_it() -> None:
    tiny = curve_figure(ROWS.assign(cosine=[1e-5, 0.123456, 2.0] * 2), COSINE).data[0]
    assert list(tiny.customdata) == ["0.00001", "0.1235", "2"]
    assert "%{customdata}" in tiny.hovertemplate


def test_a_name_is_never_markup() -> None:
    figure = curve_figure(ROWS.assign(arm="own:<b>%{x}</b>"), COSINE)
    assert "<b>" not in figure.data[0].hovertemplate.removesuffix("</extra>").split("<extra>")[1]
    assert "<b>" not in figure.data[0].name


JUNCTIONS = pd.DataFrame(
    {
        "arm": "rightmost",
        "wrong": [0, 1, 1],
        "targets": [5, 1, 3],
        "tv": [0.1, 0.2, 0.6],
        "bound": [0.2, 0.4, 0.8],
    }
)


def test_bounds_are_means_over_the_tokens_of_all_rollouts() -> None:
    rows = JUNCTIONS
    measured, bound = bound_figure(rows).data
    *_, floor = bound_figure(rows, floor=1e-6).data
    assert (set(floor.y), floor.name) == ({1e-6}, "floor 0.000001")
    assert list(measured.x) == [0, 1]
    assert list(measured.y) == pytest.approx([0.1, 0.5])
    assert list(bound.y) == pytest.approx([0.2, 0.7])


def test_the_axis_of_evictions_says_what_is_counted() -> None:
    """Also of a run of an earlier version, and of one that such a version began."""
    older = JUNCTIONS.rename(columns={"wrong": "after"})
    resumed = pd.concat([older.assign(arm="replay"), JUNCTIONS])
    assert bound_figure(JUNCTIONS).layout.xaxis.title.text == "evictions that the layout gets wrong"
    told = bound_figure(older)
    assert told.layout.xaxis.title.text == "evictions before the token (earlier version)"
    assert list(told.data[0].x) == [0, 1]
    both = bound_figure(resumed)
    assert both.layout.xaxis.title.text == "evictions that the layout gets wrong"
    assert {line.name.split(":")[0] for line in both.data} == {"rightmost"}
    assert left_out(resumed) == ["replay"]
    assert left_out(JUNCTIONS) == left_out(older) == left_out(pd.DataFrame()) == []


def test_nothing_known_yet_draws_nothing() -> None:
    assert len(curve_figure(pd.DataFrame(), DRIFT, floor=None).data) == 0
