"""Training layouts of a rollout: `METHODS` lists them, `build_view` makes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mwviz.errors import ViewError
from mwviz.tree import EvictionTree
from mwviz.trie import Longs
from mwviz.views import exact, naive
from mwviz.views.view import Edges, MaskKind, Row, View

__all__ = ["METHODS", "Edges", "MaskKind", "Method", "Row", "View", "build_view", "method_named"]


@dataclass(frozen=True, slots=True)
class Method:
    """A named rule that lays a rollout out for training."""

    name: str
    rows: Callable[[EvictionTree], tuple[Row, ...]]
    exact: bool
    """Whether every target is predicted from its true context, under re-prefill."""
    summary: str
    """What it feeds to the model, in one sentence."""


METHODS: tuple[Method, ...] = (
    Method("rightmost", naive.rightmost, False, "The last call only, as one causal sequence."),
    Method("replay", naive.replay, False, "Every token once in birth order, nothing evicted."),
    Method("last_call", naive.last_call, False, "The last call, training its completion alone."),
    Method("call_by_call", exact.call_by_call, True, "One sequence a call: the reference."),
    Method("logit_tree", exact.logit_tree, True, "One sequence a branch, each target once."),
    Method("packed_mask", exact.packed_mask, True, "One packed row under a 4-D tree mask."),
)


def method_named(name: str) -> Method:
    """The method of that name.

    Raises:
        ViewError: no method has this name; lists those that exist.
    """
    for method in METHODS:
        if method.name == name:
            return method
    known = ", ".join(method.name for method in METHODS)
    raise ViewError(f"unknown method {name!r}; expected one of {known}")


def build_view(tree: EvictionTree, name: str) -> View:
    """How one method lays a rollout out.

    Raises:
        ViewError: no method has this name.
    """
    rows = method_named(name).rows(tree)
    covered = np.zeros(len(tree.token), dtype=bool)
    for row in rows:
        covered[row.edges.target] = True
    return View(name, rows, len(tree.token), _reasons(tree, np.flatnonzero(~covered)))


def _reasons(tree: EvictionTree, missing: Longs) -> tuple[tuple[str, int], ...]:
    """Why targets are not trained, with how many of each."""
    orphan = tree.query[missing] < 0
    foreign = ~orphan & (tree.lineage[tree.call[missing]] != tree.main_lineage)
    gone = ~orphan & ~foreign
    counted = (
        (exact.NO_QUERY, int(orphan.sum())),
        ("sampled by another lineage than the main one", int(foreign.sum())),
        ("not part of the row that is trained", int(gone.sum())),
    )
    return tuple((reason, count) for reason, count in counted if count)
