"""Which causal rows run together, as the lines of one padded batch.

A short row leaves a card waiting for launches; rows of like length share them, and pay with the
padding behind the shorter ones. On the CPU nothing waits for launches: rows of 400 tokens take as
long together as one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mwviz.engine import feed, flex, kernels, memory
from mwviz.engine.model import Model
from mwviz.views.view import Row

MOST = 40960
"""Tokens of a batch, padding included; measured on an H200 with a model of 0.6B, where 16,384 are
5 % slower."""
LIKE = 0.75
"""Share of the longest line's tokens that every line of a batch has at least."""


def possible(model: Model, kernel: str) -> bool:
    """Whether rows could run together; whether the lines of a batch touch is asked of the model.

    A model that refuses packed masks may mix all tokens of a pass, so its rows run one by one.
    """
    return model.device.type == "cuda" and kernel == "sdpa" and not model.capability.refusals


def touching(model: Model, kernel: str) -> str:
    """How the lines of a batch were seen to touch one another; "" while nothing is known of it."""
    told = (how for name, how in model.touching.items() if name.split()[0] == kernel and how)
    return next(told, "")


def grouped(
    model: Model, rows: Sequence[Row], *, kernel: str, train: bool
) -> list[tuple[Row, ...]]:
    """How rows run: together as in `together`, or one by one in a model whose lines touch."""
    if touching(model, kernel):
        return [(row,) for row in rows]
    return together(model, rows, kernel=kernel, train=train)


def together(
    model: Model, rows: Sequence[Row], *, kernel: str, train: bool
) -> list[tuple[Row, ...]]:
    """Rows that could run together, as many as fit without layers that run twice.

    Args:
        model: Runs them.
        rows: A view's.
        kernel: As `kernels.choose_kernel` gave it.
        train: Whether the backward pass is run too.
    """
    # The table of scores keeps what the first row says of a target, so that order must stay.
    if not possible(model, kernel) or (not train and trains_twice(rows)):
        return [(row,) for row in rows]
    tokens = max(1, sum(row.size for row in rows))
    targets = sum(len(row.edges.target) for row in rows) * MOST // tokens

    def most(line: int) -> int:
        found = memory.most_tokens(
            model, tokens=MOST, targets=targets, train=train, twice=False, line=line
        )
        return MOST if found is None else found

    return of_like_length(model, rows, kernel=kernel, most=most)


def of_like_length(
    model: Model, rows: Sequence[Row], *, kernel: str, most: Callable[[int], int]
) -> list[tuple[Row, ...]]:
    """Rows of like length together, in their order; first what holds the first row.

    Args:
        model: Will run them.
        rows: A view's.
        kernel: As `kernels.choose_kernel` gave it.
        most: From the tokens of a line those of a batch, padding included; a longer row is alone.
    """
    size = {place: row.size for place, row in enumerate(rows) if _joins(model, row)}
    found = [[place] for place in range(len(rows)) if place not in size]
    lines, shortest = 0, 0.0
    for place in sorted(size, key=lambda one: -size[one]):
        if lines > 1 and size[place] >= shortest:
            found[-1].append(place)
            lines -= 1
            continue
        found.append([place])
        line = fed_length(model, size[place], kernel)
        lines, shortest = most(line) // line, LIKE * size[place]
    return [tuple(rows[place] for place in sorted(batch)) for batch in sorted(found, key=min)]


def fed_length(model: Model, longest: int, kernel: str) -> int:
    """Tokens that every line of a batch is padded to."""
    compiled = kernels.fuses(model, kernel, longest)
    return flex.padded(longest, feed.FUSED_UNIT) if compiled else longest


def _joins(model: Model, row: Row) -> bool:
    """Whether a row can be a line; one whose layers slide needs a mask of its own, S x S."""
    if row.mask != "causal" or not (row.edges.weight > 0).any():
        return False
    window = model.capability.window
    return window is None or int((row.first_position + row.length).max(initial=0)) <= window


def trains_twice(rows: Sequence[Row]) -> bool:
    """Whether some target has several loss terms."""
    trained = [row.edges.target[row.edges.weight > 0] for row in rows]
    counts = np.bincount(np.concatenate(trained)) if trained else np.zeros(1)
    return int(counts.max(initial=0)) > 1
