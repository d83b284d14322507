"""Training layouts of a rollout: `METHODS` lists them, `build_view` makes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mwviz.errors import ViewError
from mwviz.rollout import Semantics
from mwviz.semantics import KEEPING, Taken
from mwviz.tree import EvictionTree
from mwviz.trie import Longs
from mwviz.views import cache, exact, naive
from mwviz.views.view import Edges, MaskKind, Row, View

__all__ = [
    "METHODS",
    "Edges",
    "MaskKind",
    "Method",
    "Row",
    "View",
    "build_view",
    "exact_methods",
    "method_named",
    "names_in",
]

REFERENCE = "logit_tree"
"""What exact methods are checked against under re-prefill."""


@dataclass(frozen=True, slots=True)
class Method:
    """A named rule that lays a rollout out for training."""

    name: str
    rows: Callable[[EvictionTree], tuple[Row, ...]]
    exact_for: Semantics | None
    """The cache semantics under which every target is predicted as it was sampled; None: never."""
    summary: str
    """What it feeds to the model, in one sentence."""
    why_not: str = ""
    """Why it is not exact elsewhere, in one sentence."""
    student: str | None = None
    """The method whose rows it trains, with a further loss term. Its scores, drift and pairs are
    that method's: what training does to them is not in a score."""

    @property
    def exact(self) -> bool:
        """Whether it is exact under re-prefill, which is how text-level harnesses work."""
        return self.exact_for == "re_prefill"


METHODS: tuple[Method, ...] = (
    Method(
        "rightmost",
        naive.rightmost,
        None,
        "The last call only, as one causal sequence.",
        "Tokens see what was written later and miss what was evicted later.",
    ),
    Method(
        "replay",
        naive.replay,
        None,
        "Every token once in birth order, nothing evicted.",
        "Tokens still see what had already left their context.",
    ),
    Method(
        "branch_all",
        naive.branch_all,
        None,
        "One sequence a branch, training all that was sampled on it.",
        "Shared tokens count once a branch, and kept copies train in contexts of later calls.",
    ),
    Method(
        "last_call",
        naive.last_call,
        None,
        "The last call, training its completion alone.",
        "What it trains is right, but everything sampled before is dropped.",
    ),
    Method(
        "sdcc",
        naive.rightmost,
        None,
        "The last call, pulled to what the model says in the true contexts.",
        "A relaxation: the row stays that of rightmost, and what it lacks cannot be learnt back.",
        student="rightmost",
    ),
    Method(
        "sdcc_replay",
        naive.replay,
        None,
        "Every token once, pulled to what the model says in the true contexts.",
        "A relaxation: the row stays that of replay, which still shows what had left.",
        student="replay",
    ),
    Method(
        "union_mask",
        cache.union_mask,
        "kv_orig",
        "Every token once in birth order, each key seen while it was alive.",
        "The sets are right, but kept tokens carry what they saw before the eviction.",
    ),
    Method(
        "call_by_call",
        exact.call_by_call,
        "re_prefill",
        "One sequence a call: the reference.",
        "It recomputes what a cache would have kept.",
    ),
    Method(
        "logit_tree",
        exact.logit_tree,
        "re_prefill",
        "One sequence a branch, each target once.",
        "It recomputes what a cache would have kept.",
    ),
    Method(
        "branch_packed",
        exact.branch_packed,
        "re_prefill",
        "All branches in one row under a block mask.",
        "It recomputes what a cache would have kept.",
    ),
    Method(
        "packed_mask",
        exact.packed_mask,
        "re_prefill",
        "One packed row under a 4-D tree mask.",
        "It recomputes what a cache would have kept.",
    ),
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


def names_in(words: str) -> tuple[str, ...]:
    """The names that a user wrote with commas between, each once."""
    return tuple(dict.fromkeys(name.strip() for name in words.split(",")))


def exact_methods(cache: Taken) -> tuple[str, ...]:
    """The methods that are the truth under a cache semantics, the reference first.

    A view is judged by the first of them that is not the view itself, or by itself if it is the
    only one. Empty for `kv_reindex`, which no rows can express.
    """
    word = "kv_orig" if cache in KEEPING else cache
    exact = [method.name for method in METHODS if method.exact_for == word]
    return tuple(sorted(exact, key=lambda name: name != REFERENCE))


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
