"""Which scores of a rollout there are, and which exact method judges each; knows no Streamlit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mwviz.scoring import REFERENCE
from mwviz.store import Key
from mwviz.views import METHODS


class Setup(NamedTuple):
    """What ran a model: only scores of one setup are compared."""

    model: str
    dtype: str
    device: str


class Judged(NamedTuple):
    """Where the scores of a view and of the exact method it is judged by lie."""

    view: Key
    reference: Key


Scored = dict[Setup, dict[str, Key]]
"""Where scores lie, by setup and method."""


def by_setup(keys: Iterable[Key], digest: str) -> Scored:
    """The scores of one tree by setup, the setup used last first; later keys win."""
    found: Scored = {}
    for key in keys:
        if key.trace == digest:
            setup = Setup(key.model, key.dtype, key.device)
            found[setup] = {**found.pop(setup, {}), key.method: key}
    return dict(reversed(found.items()))


def references(keys: dict[str, Key], method: str, cache: str) -> list[str]:
    """Methods that a view can be judged by, the usual one first.

    Args:
        keys: of the methods that are scored.
        method: the view.
        cache: how the rollout's cache was treated: `EvictionTree.semantics`. Kept entries are
            reproduced by one layout only, everything else is judged by it.
    """
    able = [m.name for m in METHODS if m.exact_for == cache and m.name != method and m.name in keys]
    return sorted(able, key=lambda name: name != REFERENCE)


def judged(keys: dict[str, Key], against: str, cache: str) -> tuple[Judged, ...]:
    """Every scored view with its judge: `against`, or another where that cannot judge it."""
    found = []
    for name, key in keys.items():
        able = references(keys, name, cache)
        if able:
            found.append(Judged(key, keys[against if against in able else able[0]]))
    return tuple(found)
