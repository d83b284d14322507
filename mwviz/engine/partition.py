"""Cuts what does not fit into what does: a packed row into rows, a batch into smaller ones.

Each of a row's parts has all ancestors of its tokens. The cut is near the root: what the parts
share is run in each of them, and every loss term is in the part that reached its query first, so
that scores and gradients are those of the whole row. Letters: T tokens of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from mwviz.engine import fused, memory, order
from mwviz.engine.layout import Layout, kept, lines_between
from mwviz.engine.model import MemoryShortageError, Model
from mwviz.trie import Longs

Result = TypeVar("Result")
Bools = npt.NDArray[np.bool_]


class Part(NamedTuple):
    """Some branches of a row."""

    keep: Bools
    """bool (T,): tokens to run, closed under ancestors."""
    first: Bools
    """bool (T,): those of them that no part before holds."""


def fitting_parts(model: Model, part: Layout, *, train: bool) -> list[Layout]:
    """The row or batch in parts that fit by their estimate; layers of a batch never run twice.

    Args:
        model: runs them.
        part: the row, or the lines of a batch.
        train: whether the backward pass is run too.
    """
    line = None if part.lines is None else part.longest
    most = memory.most_tokens(
        model,
        tokens=part.padded,
        targets=len(part.edges.target),
        train=train,
        twice=line is None,
        line=line,
    )
    return layouts(part, most)


def layouts(part: Layout, most: int | None) -> list[Layout]:
    """The row, or several of at most `most` tokens that say the same together.

    A row that cannot be cut so (it is causal, no tree, or one branch alone is longer) stays whole;
    a batch is cut between its lines.

    Args:
        part: the row, or the lines of a batch.
        most: tokens that fit, padding included; None if there is no limit.
    """
    if most is None or part.padded <= most:
        return [part]
    if part.lines is not None:
        step, count = max(1, most // part.longest), len(part.lines)
        starts = range(0, count, step)
        return [lines_between(part, start, min(start + step, count)) for start in starts]
    if part.visible_until is None:
        return [part]
    parts = branches_of(part.visible_until, most)
    return [kept(part, one.keep, trained=one.first) for one in parts] if parts else [part]


class Fitted(NamedTuple, Generic[Result]):
    """A row or a batch that fits, and what running it gives."""

    part: Layout
    result: Result
    notes: tuple[str, ...]
    """What it was cut from for lack of memory, in words."""


def fitting(
    parts: Sequence[Layout], model: Model, run: Callable[[Layout], Result]
) -> Iterator[Fitted[Result]]:
    """Each part with what running it gives; one that does not fit is cut, and cut again.

    Args:
        parts: as `layouts` gives them.
        model: runs them.
        run: raises `MemoryShortageError` where a part does not fit.

    Raises:
        MemoryShortageError: One does not fit and cannot be cut, or not in this process alone.
    """
    waiting: list[tuple[Layout, tuple[str, ...]]] = [(part, ()) for part in parts]
    while waiting:
        part, notes = waiting.pop(0)
        found: Result | None = None
        # Cut outside the handler, whose traceback would hold on to the memory.
        with suppress(*caught(model)):
            found = run(part)
        if found is None:
            cut = halves(part, model)
            notes = *notes, ran_as(part, len(cut), model)
            waiting = [(smaller, notes) for smaller in cut] + waiting
        else:
            yield Fitted(part, found, notes)


def caught(model: Model) -> tuple[type[MemoryShortageError], ...]:
    """Shortages after which other rows are run: none where processes share each layer's work.

    What one of them ran again would meet the first pass of the others.
    """
    return () if fused.sharded(model.module) else (MemoryShortageError,)


def shortage(part: Layout, model: Model) -> str:
    """That a row, or a batch, did not fit."""
    what = "a row" if part.lines is None else f"a batch of {len(part.lines)} rows"
    return f"{what} of {part.padded} tokens did not fit in the memory of {model.device}"


def ran_as(part: Layout, count: int, model: Model) -> str:
    """What a row, or a batch, that did not fit was run as."""
    return f"{shortage(part, model)}: it ran as {count} smaller ones"


def halves(part: Layout, model: Model) -> list[Layout]:
    """A row that ran out of memory in rows of about half its tokens or fewer; so a batch.

    A row with a branch of more than half its tokens is cut into rows of that branch's length.

    Raises:
        MemoryShortageError: It cannot be cut: it is one branch.
    """
    half = (part.padded + 1) // 2
    if part.visible_until is not None:
        half = max(half, _longest(part.visible_until))
    cut = layouts(part, half)
    if len(cut) == 1:
        instead = "" if part.visible_until is None else "; logit_tree has shorter rows"
        raise MemoryShortageError(
            f"{model.name}: a row of {len(part.ids)} tokens does not fit in the memory of "
            f"{model.device} and cannot be cut into smaller ones{instead}"
        )
    return cut


def branches_of(visible_until: Longs, most: int) -> list[Part]:
    """Branches in the order of the row, as many in a part as fit; empty if one alone does not.

    Args:
        visible_until: int64 (T,): key k is seen by the queries `k <= q < visible_until[k]`.
        most: tokens of a part.
    """
    runs = order.runs(visible_until)
    if runs is None:
        return []
    parts: list[Part] = []
    seen = np.zeros(len(visible_until), dtype=bool)
    keep = np.zeros_like(seen)
    size = 0
    for leaf in np.setdiff1d(np.arange(len(runs.start)), runs.parent).tolist():
        path = _path(leaf, runs.parent)
        new = [run for run in path if not keep[runs.start[run]]]
        added = int(runs.length[new].sum())
        if size and size + added > most:
            parts.append(Part(keep, keep & ~seen))
            seen |= keep
            keep, size, new = np.zeros_like(seen), 0, path
            added = int(runs.length[path].sum())
        if added > most:
            return []
        for run in new:
            keep[runs.start[run] : runs.start[run] + runs.length[run]] = True
        size += added
    return [*parts, Part(keep, keep & ~seen)]


def _longest(visible_until: Longs) -> int:
    """Tokens of the longest branch; 0 where the row is no tree."""
    runs = order.runs(visible_until)
    if runs is None:
        return 0
    depth: list[int] = []
    for length, parent in zip(runs.length.tolist(), runs.parent.tolist(), strict=True):
        depth.append(length + (depth[parent] if parent >= 0 else 0))
    return max(depth, default=0)


def _path(run: int, parent: Longs) -> list[int]:
    """A run and all above it."""
    path = []
    while run >= 0:
        path.append(run)
        run = int(parent[run])
    return path
