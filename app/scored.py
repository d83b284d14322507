"""Which scores of a rollout there are, and which exact method judges each; knows no Streamlit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from mwviz.contrast import Quantity
from mwviz.semantics import Taken
from mwviz.store import Key
from mwviz.views import exact_methods


def name_of(model: str) -> str:
    """The name of a model without its revision, from both as `Scores.model` has them."""
    return model.partition("@")[0]


def short(name: str) -> str:
    """A model's name as pages show it: of a checkpoint its run and arm."""
    run, _, arm = name.rpartition("+")[2].rpartition("/")
    return f"{run} · {arm}" if run else name


def id_of(text: str) -> str:
    """Eight digits that stand for a text in an address."""
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


class Setup(NamedTuple):
    """What ran a model: only scores of one setup are compared."""

    model: str
    dtype: str
    device: str

    @property
    def id(self) -> str:
        """What names it in an address."""
        return id_of("|".join(self))


class Tokens(NamedTuple):
    """Tokens that a model reads a rollout in, where its trace holds no ids of that model."""

    model: str
    """Name and revision, as keys of scores have it."""
    trace: str
    """`Analysis.digest` of them, as keys of scores have it."""

    @property
    def id(self) -> str:
        """What names them in an address: which model, without its revision, and the digest."""
        return f"{id_of(name_of(self.model))}-{self.trace}"


class Judged(NamedTuple):
    """Where the scores of a view and of the exact method it is judged by lie."""

    view: Key
    reference: Key


class Side(NamedTuple):
    """One of two scorings: a view, scored with a model."""

    setup: Setup
    view: str

    @property
    def name(self) -> str:
        """View and model."""
        return f"{self.view}, {short(name_of(self.setup.model))}"


LETTERS: dict[Quantity, str] = {"log p": "p", "|drift|": "d"}
"""What names a quantity in an address."""


class Chosen(NamedTuple):
    """What is compared with what."""

    a: Side
    b: Side
    quantity: Quantity

    @property
    def id(self) -> str:
        """What names it in an address: both views and setups, and the quantity."""
        sides = (part for side in (self.a, self.b) for part in (side.view, side.setup.id))
        return "-".join((*sides, LETTERS[self.quantity]))


def chosen_by(told: str, setups: Iterable[Setup]) -> Chosen | None:
    """What an address compares, as `Chosen.id` names it; None if a setup of it is not known."""
    known = {setup.id: setup for setup in setups}
    view_a, a, view_b, b, letter = told.split("-")
    if a not in known or b not in known:
        return None
    quantity = next(name for name, short in LETTERS.items() if short == letter)
    return Chosen(Side(known[a], view_a), Side(known[b], view_b), quantity)


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


def references(keys: dict[str, Key], method: str, cache: Taken) -> list[str]:
    """Methods that a view can be judged by, the usual one first.

    The only truth of its cache semantics is judged by itself.

    Args:
        keys: of the methods that are scored.
        method: the view.
        cache: how the rollout's cache was treated.
    """
    exact = exact_methods(cache)
    return [name for name in exact if name in keys and (name != method or len(exact) == 1)]


def judged(keys: dict[str, Key], against: str, cache: Taken) -> tuple[Judged, ...]:
    """Every scored view with its judge: `against`, or another where that cannot judge it."""
    found = []
    for name, key in keys.items():
        able = references(keys, name, cache)
        if able:
            found.append(Judged(key, keys[against if against in able else able[0]]))
    return tuple(found)
