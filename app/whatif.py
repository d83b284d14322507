"""What if the last eviction before a selected token had never happened?"""

from __future__ import annotations

from typing import NamedTuple

from mwviz.analysis import Analysis
from mwviz.restored import Cost
from mwviz.undo import continues
from mwviz_app import studies
from mwviz_app.scored import Setup
from mwviz_app.state import Opened

NOTHING = "Nothing recorded left before that token: there is nothing to put back."
ELSEWHERE = (
    "The context changed again since text left: that token's call does not continue from there, "
    "so putting the text back would not reach it."
)


class WhatIf(NamedTuple):
    """A token with evicted text put back, beside what it was sampled from."""

    call: int
    """The call before which the text left."""
    tokens: int
    """Tokens put back."""
    change: float
    """log p with them minus log p without, nats; 0 within the noise."""
    floor: float
    """Nats."""


def eviction_before(analysis: Analysis, target: int) -> int | None:
    """The last change of context that evicted known text and that the token's call continues."""
    call, junctions = int(analysis.tree.call[target]), analysis.junction_list
    latest = sorted(_evictions(analysis, target), key=lambda at: junctions[at].call, reverse=True)
    return next((at for at in latest if continues(analysis.tree, junctions[at], call)), None)


def refusal(analysis: Analysis, target: int) -> str:
    """Why nothing can be put back before a token; "" if something can."""
    if eviction_before(analysis, target) is not None:
        return ""
    return ELSEWHERE if _evictions(analysis, target) else NOTHING


def _evictions(analysis: Analysis, target: int) -> list[int]:
    """Changes of context of the token's agent, up to its call, that evicted known text."""
    tree = analysis.tree
    call = int(tree.call[target])
    return [
        index
        for index, junction in enumerate(analysis.junction_list)
        if junction.depth is not None
        and len(junction.evicted)
        and junction.call <= call
        and tree.lineage[junction.call] == tree.lineage[call]
    ]


def answer(
    opened: Opened, analysis: Analysis, setup: Setup | None, target: int | None
) -> WhatIf | None:
    """What a model said of a target; None if it was not asked, or the token is not behind it."""
    index = None if target is None else eviction_before(analysis, target)
    if target is None or index is None:
        return None
    found = studies.asked(opened, "undo", studies.NO_METHOD, setup, index)
    if found is None or found.status != "done" or found.result is None:
        return None
    cost = Cost.from_json(found.result)
    change = cost.change_of(target)
    if change is None:
        return None
    return WhatIf(analysis.junction_list[index].call, cost.tokens, change, cost.floor)
