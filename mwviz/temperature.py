"""The temperature at which each target was sampled, and what a model says at it.

A recorded log-probability is taken as that of the distribution that was sampled from: the softmax
of the logits divided by the temperature. At 0 there is no such distribution. Letters: M targets.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mwviz.engine.scores import Scores
from mwviz.rollout import Rollout
from mwviz.tree import EvictionTree

Floats = npt.NDArray[np.float32]


def temperatures(tree: EvictionTree, rollout: Rollout) -> Floats:
    """float32 (M,): temperature of each target's call, NaN where none above 0 is recorded."""
    known = [call.temperature or np.nan for call in rollout.calls]
    per_call = np.array(known, dtype=np.float32)
    found: Floats = np.where(per_call > 0, per_call, np.nan)[tree.call].astype(np.float32)
    return found


def needs_tempering(warm: Floats) -> bool:
    """Whether any target was sampled at another temperature than 1."""
    return bool((np.abs(warm - 1) > 0).any())


def sampled_logprob(scores: Scores, warm: Floats) -> Floats:
    """float32 (M,): log-probability at the temperature of each target, nats; NaN where not known.

    Args:
        scores: of a view.
        warm: from `temperatures`.
    """
    said = scores.logprob if scores.tempered is None else scores.tempered
    found: Floats = np.where(np.isnan(warm), np.nan, said).astype(np.float32)
    return found
