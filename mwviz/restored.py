"""What an eviction cost the tokens behind it: they are scored again with the evicted text put back.

The numbers of one junction as the worker tells them; `mwviz.engine.effect.put_back` makes them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mwviz.analysis import Analysis
from mwviz.errors import ViewError
from mwviz.quantise import Sent, received, restore, sent

if TYPE_CHECKING:
    from mwviz.engine.model import Model

MOST_TOKENS = 8
"""Tokens named, those that change most."""


class After(NamedTuple):
    """The sampled tokens of one call behind a junction."""

    call: int
    targets: int
    """Tokens scored both ways."""
    change: float
    """Mean of log p with the evicted text minus log p without, nats; above 0: the text helps."""
    kl: float
    """Mean KL(with the text || without it), nats: the information lost at the junction."""


class Changed(NamedTuple):
    """A token that the evicted text makes likelier or less likely."""

    target: int
    change: float
    """Nats."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one eviction cost."""

    tokens: int
    """Tokens put back."""
    calls: tuple[After, ...]
    most: tuple[Changed, ...]
    floor: float
    """|change| below this is noise, nats."""
    changes: Sent | None = None
    """What the text does to every target behind the junction, nats."""

    def change_of(self, target: int) -> float | None:
        """What the text does to one target, nats: 0 within the noise, None if it is not behind."""
        if self.changes is None:
            return None
        change = float(restore(received(self.changes))[target])
        return None if np.isnan(change) else change

    def to_json(self) -> dict[str, Any]:
        """As the worker tells it."""
        return asdict(self)

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Cost:
        """What `to_json` wrote."""
        return cls(
            told["tokens"],
            tuple(After(*one) for one in told["calls"]),
            tuple(Changed(*one) for one in told["most"]),
            told["floor"],
            Sent(*told["changes"]) if told.get("changes") else None,
        )


def cost(analysis: Analysis, junction: int, model: Model) -> Cost:
    """Puts back what a junction evicted and scores the calls behind it both ways.

    Args:
        analysis: shares the model's tokenizer.
        junction: index into `analysis.junction_list`.
        model: scores them.

    Raises:
        ModelError: the model cannot score them.
        ViewError: there is no such junction, or nothing recorded was evicted there.
    """
    from mwviz.engine.effect import put_back

    if not 0 <= junction < len(analysis.junction_list):
        raise ViewError(f"no junction {junction}; there are {len(analysis.junction_list)}")
    found = put_back(analysis.tree, analysis.junction_list[junction], model)
    tree, change, kl = analysis.tree, found.change, found.lost.kl
    known = found.undone.targets[~np.isnan(change[found.undone.targets])]
    calls = []
    for call in found.undone.calls:
        own = known[tree.call[known] == call]
        if len(own):
            calls.append(After(call, len(own), _mean(change[own]), _mean(kl[own])))
    order = known[np.argsort(-np.abs(change[known]), kind="stable")][:MOST_TOKENS]
    return Cost(
        tokens=found.undone.tokens,
        calls=tuple(calls),
        most=tuple(Changed(int(target), float(change[target])) for target in order),
        floor=found.floor,
        changes=sent(change, found.floor),
    )


def _mean(values: np.ndarray) -> float:
    return float(np.nanmean(values.astype(np.float64)))
