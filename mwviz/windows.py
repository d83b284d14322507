"""A window of the who-sees-what matrix at token level, for drawing. Bounded: never all of it.

Rows are targets by (call, offset), columns distinct tokens in order of birth, so that text from the
future stands right of the diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mwviz.births import cut_birth_axis
from mwviz.errors import ViewError
from mwviz.judging import AGREE, CLASSES, blocks
from mwviz.tree import EvictionTree
from mwviz.trie import Longs
from mwviz.views.view import View

LARGEST = 4_000_000
"""Cells a window may have; more is refused rather than drawn badly."""
NONE, SHIFTED, SELF = len(CLASSES), len(CLASSES) + 1, len(CLASSES) + 2
NAMES = (*CLASSES, "none", "shifted", "self")
"""What a cell says, by its value; `shifted` is an agreeing pair at another distance."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Cells of some targets against some distinct tokens. Q rows, K columns."""

    cells: npt.NDArray[np.uint8]
    """uint8 (Q, K): index into `NAMES`."""
    targets: Longs
    """int64 (Q,): target of each row."""
    owners: Longs
    """int64 (K,): node at which each column's token was born."""


def class_window(tree: EvictionTree, view: View, targets: range, keys: range) -> Window:
    """The pair classes of a rectangle of the matrix.

    Args:
        tree: the tree.
        view: whose pairs to show; rows of targets it does not cover stay empty.
        targets: rows, as indices of targets.
        keys: columns, as indices on the birth axis.

    Raises:
        ViewError: the rectangle has more than `LARGEST` cells.
    """
    if len(targets) * len(keys) > LARGEST:
        raise ViewError(
            f"a window of {len(targets):,} x {len(keys):,} cells is too large to draw; "
            f"expected at most {LARGEST:,}"
        )
    axis = cut_birth_axis(tree, view)
    cells = np.full((len(targets), len(keys)), NONE, dtype=np.uint8)
    for block in blocks(axis, view):
        inside = (block.targets >= targets.start) & (block.targets < targets.stop)
        if not inside.any():
            continue
        rows = block.targets[inside] - targets.start
        kind = np.where((block.kind == AGREE) & (block.apart != 0), SHIFTED, block.kind)
        for key, value in zip(block.keys, kind, strict=True):
            columns = _columns(axis.cut[key], axis.cut[key + 1], keys)
            cells[rows, columns] = value
        own = np.searchsorted(axis.cut, axis.rank[tree.token[block.targets[0]]], side="right") - 1
        for row, offset in zip(rows, block.offset[inside], strict=True):
            first = int(axis.cut[own])
            cells[row, _columns(first, first + int(offset), keys)] = AGREE
            cells[row, _columns(first + int(offset), first + int(offset) + 1, keys)] = SELF
    return Window(cells, np.arange(targets.start, targets.stop), tree.birth[keys.start : keys.stop])


def _columns(start: int, stop: int, keys: range) -> slice:
    """Where a stretch of the birth axis lies among the columns."""
    low = min(max(int(start) - keys.start, 0), len(keys))
    return slice(low, max(min(int(stop) - keys.start, len(keys)), low))
