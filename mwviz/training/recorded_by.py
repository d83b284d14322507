"""Whether the model that trains on rollouts is the one that recorded them. No torch here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mwviz.engine.embedded import AGENT, EMBEDDED
from mwviz.training.plan import Material
from mwviz.training.reports import WatchReport
from mwviz.wording import digits, listed

if TYPE_CHECKING:
    from mwviz.engine.model import Model

FAR = 10.0
"""Times the floor beyond which noise explains no gap."""
LEAST = 0.1
"""Nats a token that weights of a few steps before, or a coarser dtype, may leave: the embedded
model's own samples in bfloat16 are 0.03 off in float32."""


def other_model(look: WatchReport, held: Material, model: Model) -> str:
    """That another model recorded the rollouts, and how to train on that one; "" if none shows.

    Args:
        look: before the first step: its gap is that of an exact layout.
        held: whose calls may name the model that sampled them.
        model: as it is before training.
    """
    if look.gap_true is None or look.gap_true <= max(FAR * look.floor, LEAST):
        return ""
    calls = [call for one in (*held.trained, *held.held_out) for call in one.rollout.calls]
    names = [*dict.fromkeys(call.model for call in calls if call.model)]
    others = [name for name in names if name != model.name]
    known = [name for name in others if name in (EMBEDDED, AGENT)]
    off = (
        f"recorded log-probabilities are {digits(look.gap_true)} nats a token from what "
        f"{model.name} says in the same contexts (floor {digits(look.floor, 1)}), so "
    )
    if names and not others:
        return f"{off}other weights of it recorded the rollouts; to train those, name their folder"
    by = f", by the trace {listed(others)}" if others else ""
    how = f"choose {known[0]}" if known else "choose it, with its adapter if it has one"
    return f"{off}another model recorded the rollouts{by}; to train that one, {how}"
