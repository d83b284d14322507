"""The eviction tree: every token of a rollout once per distinct context, in depth-first order.

Letters: N nodes (tokens), S segments, C calls, M targets. Definitions: docs/theory.md, section 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import networkx

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class EvictionTree:
    """The token trie of all calls' prompt + completion, with each sampled token as a target.

    The path to a call's tip is that call's context, token for token. Key `k` is visible to query
    `q` exactly if `k <= q < exit[segment_of(k)]`.
    """

    ids: npt.NDArray[np.int32]
    """int32 (N,): token ids in depth-first order, children in call order."""
    origin: Longs
    """int64 (N,): own index, or the node (the owner) whose token this one repeats."""
    start: Longs
    """int64 (S,): first node of each segment; a segment ends where the next one starts."""
    parent: Longs
    """int64 (S,): parent segment, -1 for a root."""
    depth: Longs
    """int64 (S,): position of the segment's first token in every context that holds it."""
    exit: Longs
    """int64 (S,): one past the last node below the segment."""
    first_call: Longs
    """int64 (S,): the call that first held the segment."""
    prompt_length: Longs
    """int64 (C,): tokens in each call's prompt."""
    tip: Longs
    """int64 (C,): last node of each call's context, -1 if the context is empty."""
    lineage: Longs
    """int64 (C,): index into `lineages`."""
    lineages: tuple[str, ...]
    """Names in order of first call; the main lineage is `main_lineage`."""
    query: Longs
    """int64 (M,): node whose hidden state predicts the target, -1 if nothing stands before it."""
    token: Longs
    """int64 (M,): node of the sampled token."""
    call: Longs
    """int64 (M,): call that sampled it; targets are ordered by (call, offset)."""
    offset: Longs
    """int64 (M,): its index in that call's completion."""
    logprob: npt.NDArray[np.float32]
    """float32 (M,): recorded log-probability in nats, NaN if not recorded."""

    @property
    def size(self) -> int:
        """N: tokens of the tree."""
        return len(self.ids)

    @property
    def length(self) -> Longs:
        """int64 (S,): tokens in each segment."""
        return np.diff(self.start, append=len(self.ids))

    @property
    def position(self) -> Longs:
        """int64 (N,): depth of every node, which is its position id in every context."""
        return np.arange(self.size, dtype=np.int64) - np.repeat(self.start - self.depth, self.length)

    def segment_of(self, node: npt.ArrayLike) -> Longs:
        """Segment of each node, by binary search."""
        return np.searchsorted(self.start, np.asarray(node), side="right") - 1
