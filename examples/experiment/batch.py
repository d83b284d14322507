"""Rollouts that are trained or read together, their targets numbered through: M of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mwviz.analysis import Analysis
from mwviz.engine.layout import Layout, layout
from mwviz.engine.model import Model
from mwviz.training.advantage import recorded_logprobs
from mwviz.training.arms import arm_view
from mwviz.trie import Longs
from mwviz.views import View
from mwviz.views.view import Edges


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Rollouts with their targets numbered through."""

    analyses: tuple[Analysis, ...]
    starts: Longs
    """First target of each rollout, and the number of all."""

    @classmethod
    def of(cls, analyses: Sequence[Analysis]) -> Batch:
        """The rollouts in this order."""
        counts = [len(one.tree.token) for one in analyses]
        return cls(tuple(analyses), np.concatenate(([0], np.cumsum(counts))).astype(np.int64))

    @property
    def size(self) -> int:
        """M."""
        return int(self.starts[-1])

    @property
    def ids(self) -> Longs:
        """int64 (M,): the sampled tokens."""
        return np.concatenate([a.tree.ids[a.tree.token] for a in self.analyses]).astype(np.int64)

    @property
    def recorded(self) -> npt.NDArray[np.float64]:
        """(M,): log-probabilities when sampled."""
        return np.concatenate([recorded_logprobs(a) for a in self.analyses])

    @property
    def owner(self) -> Longs:
        """int64 (M,): the rollout of each target."""
        return np.repeat(np.arange(len(self.analyses)), np.diff(self.starts))

    def views(self, model: Model, method: str) -> list[View]:
        """Each rollout under a method."""
        return [arm_view(analysis, model, method) for analysis in self.analyses]

    def rows(self, model: Model, views: Sequence[View]) -> list[Layout]:
        """The rows of all views that train something, their targets numbered through."""
        found = []
        for analysis, view, start in zip(self.analyses, views, self.starts, strict=False):
            for row in view.rows:
                part = layout(analysis.tree, row, limit=model.max_positions)
                query, target, weight = part.edges
                if len(query):
                    edges = Edges(query, target + start, weight)
                    found.append(replace(part, edges=edges))
        return found
