"""What an arm says of a reading: means over targets, and by evictions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from examples.experiment.batch import Batch
from examples.experiment.batched import Reading
from mwviz.bound import mean_bound, target_bound
from mwviz.training.known import known_largest, known_mean

REPLAYS = ("replay", "sdcc_replay")
"""Views that get wrong what was evicted before a token, where others do what was after it."""


def summary(found: Reading, diverging: npt.NDArray[np.bool_]) -> dict[str, float | None]:
    """Means over targets, of a view against the true contexts; None where nothing is known."""
    drift, kl, tv = np.abs(found.drift), found.kl, found.tv
    bound = mean_bound(kl, tv).value
    return {
        "nll_true": known_mean(found.nll),
        "drift": known_mean(drift),
        "drift_diverging": known_mean(drift[diverging]),
        "drift_floor": known_mean(drift[~diverging]),
        "kl": known_mean(kl),
        "kl_diverging": known_mean(kl[diverging]),
        "tv": known_mean(tv),
        "tv_bound": None if np.isnan(bound) else bound,
        "tv_over_bound": known_largest(tv - target_bound(kl)),
        "flips": known_mean(found.flip[~np.isnan(found.drift)]),
        "coverage": float(np.mean(~np.isnan(found.drift))),
    }


def by_evictions(
    batch: Batch, method: str, values: npt.NDArray[np.float64]
) -> dict[str, tuple[float, int]]:
    """Mean of a value, and its targets, by the number of evictions that the view gets wrong.

    For a view of the last context those after the token was sampled, for a replay those before.
    """
    counts = []
    for analysis in batch.analyses:
        calls = np.array([j.call for j in analysis.junction_list if j.is_eviction], dtype=np.int64)
        before = np.searchsorted(calls, analysis.tree.call, side="right")
        counts.append(before if method in REPLAYS else len(calls) - before)
    count = np.concatenate(counts)
    found = {}
    for number in range(int(count.max(initial=0)) + 1):
        here = values[(count == number) & ~np.isnan(values)]
        if len(here):
            found[str(number)] = (float(here.mean()), len(here))
    return found


def diverging(batch: Batch, method: str) -> npt.NDArray[np.bool_]:
    """(M,): whether the method shows a target another context than it was sampled from."""
    return np.concatenate([one.pairs(method).diverging for one in batch.analyses])
