"""The numbers a token of scored views, each by a name: which a payload holds, which are asked for.

Names: `VIEW:drift`, `VIEW:change` (of the entropy), `VIEW:gap`; of the exact method that judges,
`METHOD:logprob` and `METHOD:entropy`; `logprob`, as it was recorded. The log-probability under a
view is that of its judge plus the drift.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mwviz.compare import Comparison
from mwviz.packing import Sections
from mwviz.quantise import Sent, quantise, sent
from mwviz.tree import EvictionTree
from mwviz.views import METHODS

SHIPPED = 2
"""Views whose drift travels with the payload; every other number is asked for."""
CERTAIN = 1e-3
"""Nats; log-probabilities nearer to 0 are told as 0."""
RECORDED = "logprob"
"""Name of the log-probabilities that the sampler wrote down."""
_ORDER = {method.name: place for place, method in enumerate(METHODS)}


class Number(NamedTuple):
    """One number of every target, in nats."""

    nats: npt.NDArray[np.float32]
    """float32 (M,); NaN where it is not known."""
    floor: float
    """Size up to which it is told as 0."""


Numbers = dict[str, Number]
"""By name; none of which nothing is known."""


def numbers_of(tree: EvictionTree, comparisons: Mapping[str, Comparison]) -> Numbers:
    """Every number that is known of the sampled tokens.

    Args:
        tree: whose targets they are.
        comparisons: of scored views, by the method they judge.
    """
    found: Numbers = {}
    for name, comparison in comparisons.items():
        view, judge = comparison.view, comparison.reference
        found[f"{name}:drift"] = Number(view.logprob - judge.logprob, comparison.threshold)
        found[f"{name}:change"] = Number(view.entropy - judge.entropy, CERTAIN)
        found[f"{name}:gap"] = Number(comparison.table["gap"].to_numpy(), comparison.threshold)
        found[f"{judge.method}:logprob"] = Number(judge.logprob, CERTAIN)
        found[f"{judge.method}:entropy"] = Number(judge.entropy, CERTAIN)
    found[RECORDED] = Number(tree.logprob, CERTAIN)
    return {name: number for name, number in found.items() if _is_known(name, number)}


def _is_known(name: str, number: Number) -> bool:
    """Whether any of it is; the drift of a view that trains nothing is told all the same."""
    return name.endswith(":drift") or not np.isnan(number.nats).all()


def shipped(views: Iterable[str]) -> tuple[str, ...]:
    """Names of the numbers that a payload holds, of all scored views."""
    return tuple(f"{view}:drift" for view in sorted(views, key=_ORDER.__getitem__)[:SHIPPED])


class Held(NamedTuple):
    """Numbers as a payload holds them."""

    told: dict[str, dict[str, float]]
    """By name: `floor` and `scale`, as of `quantise.Quantised`."""
    sections: Sections
    """By name: a byte a target."""


def hold(numbers: Numbers, names: Iterable[str]) -> Held:
    """The numbers of these names, for a payload."""
    held = Held({}, {})
    for name in names:
        codes, floor, scale = quantise(*numbers[name])
        held.told[name] = {"floor": floor, "scale": scale}
        held.sections[name] = codes
    return held


def send(numbers: Numbers, names: Iterable[str]) -> dict[str, Sent]:
    """Those of some names that are known, to travel after the payload."""
    return {name: sent(*numbers[name]) for name in names if name in numbers}
