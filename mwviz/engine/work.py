"""What a row or a batch asks of a machine: tokens, pairs and targets, and the operations of them.

The formulas are those of docs/performance.md. Letters: P visible pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mwviz.engine import batches, dense, kernels, order, pieces
from mwviz.engine.model import Model
from mwviz.engine.widths import Widths
from mwviz.trie import Longs
from mwviz.views.view import Row


class Work(NamedTuple):
    """What one row asks for, or the lines of one batch."""

    tokens: int
    pairs: int
    """(query, key) pairs that the row's kernel computes."""
    regular: int
    """Those of them that plain attention computes."""
    targets: int
    line: int | None = None
    """Tokens of a line of a batch; None for a row."""

    @property
    def longest(self) -> int:
        """Tokens that stand behind one another."""
        return self.tokens if self.line is None else self.line


class Operations(NamedTuple):
    """Floating-point operations of one forward pass."""

    linear: float
    attended: float
    logits: float


def operations(size: Widths, part: Work) -> Operations:
    """Those of linear layers, attention and the vocabulary."""
    linear = 2.0 * size.weights * part.tokens
    attended = 4.0 * size.query * size.layers * part.pairs
    return Operations(linear, attended, 2.0 * size.hidden * size.vocabulary * part.targets)


def of_row(row: Row, kernel: str, model: Model) -> Work:
    """What one row asks for on a kernel, as `kernels.choose_kernel` gave it."""
    tokens, targets = row.size, _targets(row)
    if row.mask == "causal":
        pairs = tokens * (tokens + 1) // 2
        return Work(tokens, pairs, pairs, targets)
    until = row.visible_until
    if kernel in kernels.PIECED:
        heavy = order.heavy_first(until)
        taken = [] if heavy is None else pieces.largest(heavy.visible_until)
        regular = sum(piece.pairs for piece in taken)
        return Work(tokens, visible_pairs(until), regular, targets)
    if kernel == "flex":
        return Work(tokens, visible_pairs(until), 0, targets)
    if model.device.type == "cpu" and kernel == "sdpa":
        return Work(tokens, gathered_pairs(until), 0, targets)
    return Work(tokens, tokens**2, 0, targets)


def of_batch(rows: Sequence[Row], kernel: str, model: Model) -> Work:
    """What the lines of a batch ask for, padding included."""
    line = batches.fed_length(model, max(row.size for row in rows), kernel)
    pairs = len(rows) * (line * (line + 1) // 2)
    return Work(len(rows) * line, pairs, pairs, sum(map(_targets, rows)), line)


def visible_pairs(visible_until: Longs) -> int:
    """P: pairs of a query and a key that it sees."""
    return int((visible_until - np.arange(len(visible_until))).sum())


def gathered_pairs(visible_until: Longs) -> int:
    """Pairs computed where a block of queries gathers the keys that any of them sees."""
    size, pairs = len(visible_until), 0
    for start in range(0, size, dense.CPU_BLOCK):
        stop = min(start + dense.CPU_BLOCK, size)
        before = int(np.count_nonzero(visible_until[:start] > start))
        pairs += (stop - start) * (before + stop - start)
    return pairs


def _targets(row: Row) -> int:
    return int(np.count_nonzero(row.edges.weight > 0))
