"""A view: how a trainer lays a rollout out, as rows of tree nodes with a mask and loss edges.

Letters: T positions of a row, K runs of a row, E edges, M targets of the tree. A row stores runs of
consecutive nodes and positions, never tokens; `nodes` and `positions` expand them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from mwviz.tree import EvictionTree
from mwviz.trie import Longs, expand

MaskKind = Literal["causal", "tree", "blocks", "alive"]


class Edges(NamedTuple):
    """Loss terms of a row: the hidden state at `query` predicts the token of `target`."""

    query: Longs
    """int64 (E,): index into the row's positions."""
    target: Longs
    """int64 (E,): index into the tree's targets."""
    weight: npt.NDArray[np.float32]
    """float32 (E,): factor of the negative log-likelihood; 1 trains the target once."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One sequence that a trainer feeds to the model."""

    first_node: Longs
    """int64 (K,): node of each run's first token; -1 for a run that is in no context."""
    length: Longs
    """int64 (K,): tokens in each run."""
    first_position: Longs
    """int64 (K,): position id of each run's first token; positions rise by one within a run."""
    until: Longs
    """int64 (K,): key k of a run is seen by the row's queries `k <= q < until`."""
    mask: MaskKind
    """What `until` amounts to. `causal`: a query sees every earlier token. `tree`: its ancestors
    and itself. `blocks`: earlier tokens of its own block. `alive`: what was in the cache."""
    edges: Edges
    ids: npt.NDArray[np.int32] | None = None
    """int32 (T,): token ids as a trainer fed them; None takes those of the nodes."""

    @property
    def size(self) -> int:
        """Tokens in the row."""
        return int(self.length.sum())

    @property
    def nodes(self) -> Longs:
        """int64 (T,): tree node of each position, -1 where the token is in no context."""
        nodes = expand(self.first_node, self.length)
        nodes[np.repeat(self.first_node < 0, self.length)] = -1
        return nodes

    def token_ids(self, tree: EvictionTree) -> npt.NDArray[np.int32]:
        """int32 (T,): what the model is fed."""
        return tree.ids[self.nodes] if self.ids is None else self.ids

    @property
    def positions(self) -> Longs:
        """int64 (T,): position id of each token."""
        return expand(self.first_position, self.length)

    @property
    def visible_until(self) -> Longs:
        """int64 (T,): key k is seen by the queries `k <= q < visible_until[k]` of the row."""
        return np.repeat(self.until, self.length)


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """All rows of one method for one rollout."""

    method: str
    rows: tuple[Row, ...]
    targets: int
    """M: sampled tokens of the rollout, covered or not."""
    uncovered: tuple[tuple[str, int], ...]
    """Why targets are not trained, with how many: sums to `targets` minus the covered ones."""

    @property
    def multiplicity(self) -> Longs:
        """int64 (M,): loss terms with positive weight on each target; exact methods have all 1."""
        trained = [row.edges.target[row.edges.weight > 0] for row in self.rows]
        none = np.empty(0, dtype=np.int64)
        return np.bincount(np.concatenate((none, *trained)), minlength=self.targets)

    @property
    def coverage(self) -> float | None:
        """Share of all sampled tokens that the view trains, 0 to 1; None if nothing was sampled."""
        if self.targets == 0:
            return None
        return float(np.count_nonzero(self.multiplicity) / self.targets)
