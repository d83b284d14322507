"""Who sees what: every (target, key) pair of a view counted by class, without an N x N array.

All counts are integers: classes are constant on blocks of one target atom by one key atom, except
a block's own diagonal, where every earlier token agrees.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mwviz.births import cut_birth_axis
from mwviz.judging import (
    AGREE,
    CLASSES,
    COUNTED,
    DUPLICATE,
    FUTURE,
    SHIFTED,
    TAINTED,
    blocks,
)
from mwviz.tree import EvictionTree
from mwviz.views.view import View

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pair counts of one view, over the targets it covers. M targets."""

    counts: Counts
    """int64 (M, len(COUNTED)): keys of each class per target, summed over its loss terms."""
    diverging: npt.NDArray[np.bool_]
    """bool (M,): True where the ordered (origin, distance) list differs from the truth."""
    unaligned: Counts
    """int64 (M,): keys of a trainer's batch that are in no context of the rollout: of no class."""

    @property
    def totals(self) -> dict[str, int]:
        """Pairs of each class over all covered targets."""
        return dict(zip(COUNTED, self.counts.sum(axis=0).tolist(), strict=True))

    def of(self, name: str) -> Counts:
        """int64 (M,): keys of one class or flag per target."""
        return self.counts[:, COUNTED.index(name)]


def count_pairs(tree: EvictionTree, view: View) -> Pairs:
    """All pairs of the targets that a view covers, by class."""
    axis = cut_birth_axis(tree, view)
    size = axis.size
    counts = np.zeros((view.targets, len(COUNTED)), dtype=np.int64)
    for block in blocks(axis, view):
        if block.true:
            counts[block.targets, AGREE] += block.start + block.offset
            continue
        weight, agree = size[block.keys], block.kind == AGREE
        row = np.bincount(block.kind, weights=weight, minlength=len(COUNTED)).astype(np.int64)
        row[SHIFTED] = weight[agree & (block.apart != 0)].sum()
        row[DUPLICATE] = (weight * block.repeats).sum()
        row[TAINTED] = weight[block.tainted].sum()
        counts[block.targets] += row
        counts[block.targets, AGREE] += block.offset
        if block.own_tainted:
            counts[block.targets, TAINTED] += block.offset
    unaligned = _unaligned(view)
    diverging = unaligned > 0
    for parting in (*range(FUTURE, len(CLASSES)), SHIFTED, DUPLICATE):
        diverging |= counts[:, parting] > 0
    return Pairs(counts, diverging, unaligned)


def _unaligned(view: View) -> Counts:
    """int64 (M,): keys without a node that each target sees, summed over its loss terms."""
    found = np.zeros(view.targets, dtype=np.int64)
    for row in view.rows:
        if (row.first_node < 0).any():
            keys = np.flatnonzero(row.nodes < 0)
            seen = np.bincount(keys, minlength=row.size + 1)
            seen -= np.bincount(row.visible_until[keys], minlength=row.size + 1)
            np.add.at(found, row.edges.target, np.cumsum(seen)[row.edges.query])
    return found
