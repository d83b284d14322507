"""One view's scores beside the reference's: a table with a row for every target of the tree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mwviz.bound import target_bound
from mwviz.engine.scores import Scores
from mwviz.judging import COUNTED
from mwviz.junctions import Junction
from mwviz.metrics import Measured, measure, measure_columns
from mwviz.pairs import Pairs
from mwviz.rollout import Rollout
from mwviz.temperature import sampled_logprob, temperatures
from mwviz.tree import EvictionTree

if TYPE_CHECKING:
    import pandas as pd

    from mwviz.engine.divergence import Divergence

COLUMNS = {
    "call": "0-based call that sampled the token",
    "offset": "index of the token in that call's completion",
    "lineage": "name of the agent that sampled it",
    "position": "tokens that stood before it when it was sampled",
    "node": "its node in the tree",
    "id": "its token id",
    "logprob_recorded": "log-probability when sampled, nats; NaN if not recorded",
    "logprob_true": "log-probability in its true context, nats",
    "logprob_view": "log-probability under the view, nats; NaN if the view does not train it",
    "drift": "logprob_view - logprob_true, nats; 0 is best",
    "gap": "log p under the view at the sampling temperature - logprob_recorded, nats; NaN where "
    "either is not recorded or the temperature is 0",
    "probability_change": "probability under the view minus that in the true context, -1 to 1",
    "entropy_true": "entropy of the prediction in the true context, nats",
    "entropy_view": "entropy of the prediction under the view, nats",
    "entropy_change": "entropy_view - entropy_true, nats; 0 is best",
    "rank_true": "0 = the most likely token in the true context; -1 = not scored",
    "rank_view": "0 = the most likely token under the view; -1 = not covered",
    "covered": "True where the view trains the token",
    "diverging": "True where the view's context differs from the true one",
    "notable": "True where |drift| exceeds the floor's threshold",
    "since_junction": "tokens after the lineage's last junction; NaN before the first",
    **{f"{name}": f"keys of pair class or flag `{name}`" for name in COUNTED},
}
"""Columns of a comparison, with meaning and unit."""
DISTANCES = {
    "kl": "KL(true || view) over the full vocabulary, nats; 0 is best",
    "kl_reverse": "KL(view || true), nats; 0 is best",
    "tv": "total variation, 0 to 1; 0 is best",
    "tv_bound": "largest total variation that `kl` allows; never below `tv`",
    "js": "Jensen-Shannon divergence, nats, 0 to log 2; 0 is best",
    "flip": "True where the most likely token differs",
}
"""Further columns of a comparison that knows the whole distributions: `with_distances`."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """A view judged against the true contexts, with everything its numbers depend on."""

    view: Scores
    reference: Scores
    table: pd.DataFrame
    """One row a target, columns as `COLUMNS`."""
    coverage: float | None
    """Share of all sampled tokens that the view trains; None if nothing was sampled."""
    threshold: float
    """Smallest |drift| above the floor, nats."""

    def drift(self, token_set: str = "all") -> Measured:
        """Metrics of the drift over `all`, `diverging` or `control` covered targets."""
        return measure(self._chosen(token_set)["drift"].to_numpy(), token_set)

    def gap(self, token_set: str = "all") -> Measured:
        """Metrics of the gap to the recorded log-probabilities."""
        return measure(self._chosen(token_set)["gap"].to_numpy(), token_set)

    def metrics(self, token_set: str = "all") -> dict[str, float]:
        """Metrics of the other columns: probability, entropy, rank and, if known, distances."""
        chosen = self._chosen(token_set)
        return measure_columns({name: chosen[name].to_numpy() for name in chosen.columns})

    def with_distances(self, found: Divergence) -> Comparison:
        """This comparison with the columns `DISTANCES`."""
        table = self.table.assign(
            kl=found.kl,
            kl_reverse=found.kl_reverse,
            tv=found.tv,
            tv_bound=target_bound(found.kl).astype(np.float32),
            js=found.js,
            flip=found.flip,
        )
        return replace(self, table=table)

    def _chosen(self, token_set: str) -> pd.DataFrame:
        covered = self.table[self.table["covered"]]
        if token_set == "all":
            return covered
        wanted = covered["diverging"] == (token_set == "diverging")
        return covered[wanted]


def compare(
    tree: EvictionTree,
    rollout: Rollout,
    *,
    pairs: Pairs,
    junctions: tuple[Junction, ...],
    reference: Scores,
    view: Scores,
) -> Comparison:
    """The joined table of one view against the reference.

    Args:
        tree: whose targets both scored.
        rollout: says at which temperature tokens were sampled.
        pairs: of the view.
        junctions: of the rollout.
        reference: scores of the true contexts (an exact method).
        view: scores to judge.
    """
    import pandas as pd

    covered = ~np.isnan(view.logprob)
    drift = view.logprob - reference.logprob
    threshold = max(view.floor.threshold, reference.floor.threshold)
    gap = sampled_logprob(view, temperatures(tree, rollout)) - tree.logprob
    columns = {
        "call": tree.call,
        "offset": tree.offset,
        "lineage": np.array(tree.lineages, dtype=object)[tree.lineage[tree.call]],
        "position": tree.position_of(tree.token),
        "node": tree.token,
        "id": tree.ids[tree.token],
        "logprob_recorded": tree.logprob,
        "logprob_true": reference.logprob,
        "logprob_view": view.logprob,
        "drift": drift,
        "gap": gap.astype(np.float32),
        "probability_change": np.exp(view.logprob) - np.exp(reference.logprob),
        "entropy_true": reference.entropy,
        "entropy_view": view.entropy,
        "entropy_change": view.entropy - reference.entropy,
        "rank_true": reference.rank,
        "rank_view": view.rank,
        "covered": covered,
        "diverging": pairs.diverging,
        "notable": np.abs(drift) > threshold,
        "since_junction": _since_junction(tree, junctions),
        **{name: pairs.of(name) for name in COUNTED},
    }
    coverage = float(covered.mean()) if len(covered) else None
    return Comparison(view, reference, pd.DataFrame(columns), coverage, threshold)


def _since_junction(tree: EvictionTree, junctions: tuple[Junction, ...]) -> npt.NDArray[np.float64]:
    """float64 (M,): tokens between each target and the last branch point of its lineage."""
    branch = np.full(len(tree.tip), np.nan)
    for junction in junctions:
        if junction.depth is not None:
            lineage = tree.lineage[junction.call]
            later = (np.arange(len(branch)) >= junction.call) & (tree.lineage == lineage)
            branch[later] = junction.depth
    since: npt.NDArray[np.float64] = tree.position_of(tree.token) - branch[tree.call]
    return since
