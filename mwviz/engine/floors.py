"""Measures the floor: how far two exact views of one rollout differ by rounding alone.

Letters: M targets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from mwviz.engine import kernels, vocabulary
from mwviz.engine.layout import Layout, layout
from mwviz.engine.model import Model
from mwviz.engine.scores import Floor
from mwviz.tree import EvictionTree
from mwviz.views import Row, View

Bools = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]

FLOOR_TARGETS = 2000
"""Targets that a floor is measured on where there are as many."""


def measure_floor(
    tree: EvictionTree,
    model: Model,
    packed: View,
    separate: View,
    *,
    kernel: str = "auto",
    limit: int = FLOOR_TARGETS,
) -> Floor:
    """Drift between two exact views of one rollout, over at most `limit` targets.

    Args:
        tree: The rollout's tree.
        model: Scores both.
        packed: A view of one `tree` row that holds every node.
        separate: An exact view of causal rows; rows are taken in order until `limit` is reached.
        kernel: Of the packed row, whose floor it is; the separate rows run on the preferred one.
        limit: Targets that suffice; a row is always taken whole.

    Raises:
        ModelError: The model or the kernel refuses packed masks.
    """
    return floor_of(_noise(tree, model, packed, separate, kernel=kernel, limit=limit))


def pool_floor(
    tree: EvictionTree, model: Model, packed: View, separate: View, *, kernel: str, name: str
) -> Floor:
    """`measure_floor` over all rollouts that this model has met with a kernel.

    Rollouts are measured until `FLOOR_TARGETS` targets are: one short one says little of noise.

    Args:
        tree: The rollout's tree.
        model: Remembers what was measured; its precision and device are its own.
        packed: See `measure_floor`.
        separate: See `measure_floor`.
        kernel: As `kernels.choose_kernel` gave it.
        name: Of the rollout, so that it is measured once.

    Raises:
        ModelError: The model or the kernel refuses packed masks.
    """
    known = model.noise.setdefault(kernel, {})
    left = FLOOR_TARGETS - sum(len(drift) for drift in known.values())
    if name not in known and left > 0:
        known[name] = _noise(tree, model, packed, separate, kernel=kernel, limit=left)
    return floor_of(np.concatenate([*known.values()]))


def _noise(
    tree: EvictionTree, model: Model, packed: View, separate: View, *, kernel: str, limit: int
) -> Doubles:
    """float64: packed minus separate of the targets of whole rows, until `limit` is reached."""
    chosen: list[Row] = []
    for row in separate.rows:
        if sum(len(taken.edges.target) for taken in chosen) >= limit:
            break
        chosen.append(row)
    reference = logprobs(tree, chosen, model)
    keep = np.zeros(tree.size, dtype=bool)
    for row in chosen:
        keep[row.nodes] = True
    noise = logprobs(tree, packed.rows, model, kernel=kernel, keep=keep) - reference
    return noise[~np.isnan(noise)]


def floor_of(drift: Doubles) -> Floor:
    """Median and p99.9 of |drift|, float64 (M,), over the targets that have one."""
    measured = np.abs(drift[~np.isnan(drift)])
    if len(measured) == 0:
        return Floor(p50=0.0, p999=0.0, targets=0)
    p50, p999 = np.quantile(measured, (0.5, 0.999))
    return Floor(p50=float(p50), p999=float(p999), targets=len(measured))


def logprobs(
    tree: EvictionTree,
    rows: Sequence[Row],
    model: Model,
    *,
    kernel: str = "auto",
    keep: Bools | None = None,
    compiled: bool | None = None,
) -> Doubles:
    """float64 (M,): log-probability of each target in nats, NaN where no row covers it."""
    packed = any(row.mask != "causal" for row in rows)
    chosen = kernels.choose_kernel(model, packed=packed, kernel=kernel)
    parts = (layout(tree, row, limit=model.max_positions, keep=keep) for row in rows)
    return logprobs_of(tree, parts, model, kernel=chosen, compiled=compiled)


def logprobs_of(
    tree: EvictionTree,
    parts: Iterable[Layout],
    model: Model,
    *,
    kernel: str,
    compiled: bool | None,
) -> Doubles:
    """`logprobs` of rows as they are fed, or of the lines of batches."""
    scores = np.full(len(tree.token), np.nan)
    out = vocabulary.head(model)
    for part in parts:
        sent = vocabulary.start_row(tree, part, model, kernel=kernel, out=out, compiled=compiled)
        scores[part.edges.target] = sent.reading().logprob.double().numpy()
    return scores
