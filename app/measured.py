"""What the embedded model says of the 24 words: log p of each under every layout, as measured.

`bench/make_words.py` measures it. M sampled words.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mwviz.demos import FOLDER
from mwviz.wording import digits

PATH = FOLDER / "learn.json"
TRUE = "call_by_call"
"""Feeds every call as it was: log p in the true contexts."""

Doubles = npt.NDArray[np.float64]


class Measured(NamedTuple):
    """Log p of the sampled words."""

    model: str
    """Name and revision."""
    dtype: str
    logprob: dict[str, Doubles]
    """By method, float64 (M,), nats; NaN where it does not train the word."""


@lru_cache(maxsize=1)
def measured() -> Measured:
    """All that was measured."""
    held = json.loads(PATH.read_text(encoding="utf-8"))
    found = {name: np.array(one, dtype=np.float64) for name, one in held["logprob"].items()}
    return Measured(held["model"], held["dtype"], found)


def drift(method: str) -> Doubles:
    """Log p under a method minus log p in the true contexts, float64 (M,), nats."""
    found = measured().logprob
    return found[method] - found[TRUE]


def told(method: str, target: int, word: str) -> str:
    """What the model says of one sampled word both ways; "" if the method does not train it."""
    change = float(drift(method)[target])
    if np.isnan(change):
        return ""
    found = measured().logprob
    true, own = (float(found[name][target]) for name in (TRUE, method))
    return (
        f"Log p of {word!r}: {digits(true)} nats where the agent sampled it, {digits(own)} under "
        f"{method}. Drift: {'+' if change > 0 else ''}{digits(change)} nats."
    )


def summary(method: str) -> str:
    """The drift of a method in a sentence."""
    found = measured()
    return (
        f"Measured with {found.model.partition('@')[0]}: the largest drift of {method} is "
        f"{largest(method)} nats."
    )


def largest(method: str) -> str:
    """The largest drift of a method over the words that it trains, in nats."""
    return digits(float(np.nanmax(np.abs(drift(method)))))
