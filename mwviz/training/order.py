"""Which rollouts each step trains, the same for every arm: it depends on tree and seed alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def batches(
    sizes: Sequence[int], *, steps: int, batch_tokens: int, seed: int
) -> tuple[tuple[int, ...], ...]:
    """Indices of the rollouts of every step; each rollout once an epoch, in another order each.

    Args:
        sizes: tree tokens of every rollout.
        steps: batches to make.
        batch_tokens: a batch ends with the rollout that reaches it; the last of an epoch may not.
        seed: of the order.
    """
    random = np.random.default_rng(seed)
    made: list[tuple[int, ...]] = []
    while len(made) < steps:
        batch: list[int] = []
        for index in random.permutation(len(sizes)).tolist():
            batch.append(index)
            if sum(sizes[one] for one in batch) >= batch_tokens:
                made.append(tuple(batch))
                batch = []
        if batch:
            made.append(tuple(batch))
    return tuple(made[:steps])
